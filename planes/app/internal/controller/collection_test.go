package controller

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// TestCollection plays testdata/garbage.trace, which explains itself.
func TestCollection(t *testing.T) {
	repotest.Trace(t, "testdata/garbage.trace", func(t *testing.T, s repotest.Step) string {
		t.Helper()
		if s.Name != "collect" {
			t.Fatalf("%s: no such command", s.Line)
		}
		c, exists := parseTrackers(s)
		var out strings.Builder
		play := func(a collectAction) bool {
			object, result := a.object.Name, ""
			if a.tracker != nil {
				object = a.tracker.Name
			}
			owned, found := exists[object]
			switch {
			case fmt.Sprintf("%s/%s", a.verb, object) == s.Args["fails"]:
				fmt.Fprintf(&out, "%s %s: failed\n", a.verb, object)
				return false
			case a.verb != readHeld:
			case !found:
				result = ": not found"
			case !owned:
				result = ": of another application"
			default:
				result = ": exists"
			}
			if a.verb == readHeld {
				c.owned[a.object.Key()] = owned
			}
			fmt.Fprintf(&out, "%s %s%s\n", a.verb, object, result)
			return true
		}
		stages := []iter.Seq[collectAction]{c.mark, c.sweep, c.finalize}
		if s.Args["marks"] == "no" {
			stages = stages[1:]
		}
		for _, actions := range stages {
			if c.finished {
				break
			}
			for a := range actions {
				if !play(a) {
					return out.String()
				}
			}
		}
		return out.String() + map[bool]string{false: "not finished", true: "finished"}[c.finished]
	})
}

// parseTrackers reads trackers, and which objects there are: true for those of the application.
func parseTrackers(s repotest.Step) (c *collection, exists map[string]bool) {
	var all []*api.Tracker
	var current *api.Tracker
	exists = map[string]bool{}
	for line := range strings.Lines(s.Input) {
		words := strings.Fields(line)
		t := &api.Tracker{ObjectMeta: metav1.ObjectMeta{Name: words[0]}}
		for _, word := range words[1:] {
			switch key, value, _ := strings.Cut(word, "="); {
			case word == "deleted":
				t.DeletionTimestamp = &metav1.Time{}
			case word == "current":
				current = t
			default:
				t.Spec.ManagedResources = append(t.Spec.ManagedResources, api.ManagedResource{ResourceReference: api.ResourceReference{Kind: "ConfigMap", Name: key}})
				if value != "" {
					exists[key] = value == "exists"
				}
			}
		}
		all = append(all, t)
	}
	return newCollection(all, current, s.Args["application"] == "deleted"), exists
}

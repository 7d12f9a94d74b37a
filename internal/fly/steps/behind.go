package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/text"
)

// What is said of objects that a wait was not met by.
const (
	namedBehind  = 3   // how many
	listedBehind = 500 // how many pods are looked at for them
	lookWithin   = 10 * time.Second
	longMessage  = 160 // characters of a condition's message
)

// standing is an object as far as it says what it waits for.
type standing struct {
	Metadata struct {
		Namespace, Name   string
		DeletionTimestamp string
		Finalizers        []string
	}
	Spec   struct{ NodeName string }
	Status struct {
		Phase      string
		Conditions []struct{ Type, Status, Reason, Message string }
	}
}

// String is the object's name with what its status says, if it has one.
func (o *standing) String() string {
	var parts []string
	if o.Metadata.DeletionTimestamp != "" {
		parts = append(parts, "terminating"+strings.Join(append([]string{""}, o.Metadata.Finalizers...), ", finalizer "))
	}
	if o.Status.Phase != "" {
		parts = append(parts, o.Status.Phase)
	}
	said := map[string]bool{}
	for _, c := range o.Status.Conditions {
		one := c.Type + " " + c.Status
		if c.Status != "True" && c.Reason != "" && !said[c.Message] {
			one += " (" + c.Reason + map[bool]string{true: ": "}[c.Message != ""] + shortenMessage(c.Message) + ")"
			said[c.Message] = c.Message != ""
		}
		parts = append(parts, one)
	}
	name := o.Metadata.Name
	if o.Metadata.Namespace != "" {
		name = o.Metadata.Namespace + "/" + name
	}
	return strings.TrimSpace(name + " " + text.Clean(strings.Join(parts, ", ")))
}

// shortenMessage is a message without its end where it is long.
func shortenMessage(message string) string {
	if runes := []rune(message); len(runes) > longMessage {
		return string(runes[:longMessage]) + "…"
	}
	return message
}

// isInPhase tells whether a pod is in the phase that a wait wants.
func (o *standing) isInPhase(phase string) bool {
	switch phase {
	case "created":
		return true
	case "bound":
		return o.Spec.NodeName != ""
	case "running":
		return o.Status.Phase == "Running"
	case "ready":
		for _, c := range o.Status.Conditions {
			if c.Type == "Ready" {
				return c.Status == "True"
			}
		}
	}
	return false
}

// behind are the first objects that a wait was not met by.
type behind []standing

// String names them; empty where there are none.
func (b behind) String() string {
	if len(b) == 0 {
		return ""
	}
	var out []string
	for i := range b {
		out = append(out, b[i].String())
	}
	return "; behind: " + strings.Join(out, "; ")
}

// conditionType finds what condition expressions hold types of conditions against.
var conditionType = regexp.MustCompile(`type\s*==\s*["']([^"']+)["']`)

// describeUnseen says which types of conditions an expression names that none of the
// objects has, and which they have.
func (b behind) describeUnseen(expression string) string {
	var seen []string
	for i := range b {
		for _, c := range b[i].Status.Conditions {
			if !slices.Contains(seen, c.Type) {
				seen = append(seen, c.Type)
			}
		}
	}
	var out string
	for _, m := range conditionType.FindAllStringSubmatch(expression, -1) {
		if !slices.Contains(seen, m[1]) && len(b) > 0 {
			had := "none"
			if slices.Sort(seen); len(seen) > 0 {
				had = strings.Join(seen, ", ")
			}
			out += fmt.Sprintf("; no condition of type %q: seen %s", m[1], had) + text.DidYouMean(m[1], seen)
		}
	}
	return out
}

// readBehind reads objects by their names. What cannot be read is left out: they
// are for a message.
func (s *Session) readBehind(ctx context.Context, r discovery.Resource, names [][2]string) (out behind) {
	for _, at := range names {
		var one standing
		if s.readJSON(ctx, r.Collection(at[0])+"/"+at[1], &one) {
			out = append(out, one)
		}
	}
	return out
}

// podsBehind are pods of a group that are not as a wait wants them.
func (s *Session) podsBehind(ctx context.Context, group, phase string) (out behind) {
	path, selector := "/api/v1/pods", object.GroupLabel+"="+group
	for _, g := range s.Workload.Scenario.Groups {
		if g.Name == group {
			if selector = g.Selector; g.Namespace != "" {
				path = "/api/v1/namespaces/" + g.Namespace + "/pods"
			}
			break
		}
	}
	var page struct{ Items []standing }
	query := url.Values{"labelSelector": {selector}, "limit": {fmt.Sprint(listedBehind)}}
	if !s.readJSON(ctx, path+"?"+query.Encode(), &page) {
		return nil
	}
	for _, one := range page.Items {
		if len(out) < namedBehind && (phase == "deleted" || !one.isInPhase(phase)) {
			out = append(out, one)
		}
	}
	return out
}

// readJSON reads a path into v, if that can be done soon.
func (s *Session) readJSON(ctx context.Context, path string, v any) bool {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	answer, err := s.Client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path, Accept: "application/json"})
	return err == nil && answer.Code == http.StatusOK && json.Unmarshal(answer.Body, v) == nil
}

package controller

import (
	"errors"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/plan"
)

// TestRollout holds which components of a deploy step are applied, and what the step says
// then. A component stands as NAME@CLUSTER[<DEPENDS-ON][=healthy|=failed|=WHY].
func TestRollout(t *testing.T) {
	for _, c := range []struct{ components, due, message, failures string }{
		{"a@x b@x", "a@x b@x", "a in x is not healthy; b in x is not healthy", ""},
		{"a@x=healthy b@x=healthy", "", "", ""},
		{"a@x b@x<a", "a@x", "a in x is not healthy; b in x is not healthy", ""},
		{"b@x<a a@x=healthy", "b@x", "b in x is not healthy", ""},
		{"a@x=healthy b@x<a a@y b@y<a", "b@x a@y", "b in x is not healthy; a in y is not healthy; b in y is not healthy", ""},
		{"a@x=healthy b@x<a=0/1", "b@x", "b in x is not healthy 0/1", ""},
		{"a@=failed b@<a", "a@", "b in local is not healthy", "a failed"},
		{"a@x=failed a@y=healthy", "a@x", "", "a failed"},
		{"a@1 a@2 a@3 a@4 a@5", "a@1 a@2 a@3 a@4 a@5", "a in 1 is not healthy; a in 2 is not healthy; a in 3 is not healthy; and 2 more", ""},
		{"a@1=failed b@1=failed c@1=failed d@1=failed", "a@1 b@1 c@1 d@1", "", "a failed\nb failed\nc failed\nand 1 more"},
	} {
		var targets []plan.Target
		var states []string
		for _, word := range strings.Fields(c.components) {
			word, state, _ := strings.Cut(word, "=")
			word, after, _ := strings.Cut(word, "<")
			name, at, _ := strings.Cut(word, "@")
			targets = append(targets, plan.Target{Component: api.Component{Name: name, DependsOn: strings.Fields(after)}, At: plan.Place{Cluster: at}})
			states = append(states, state)
		}
		r := newRollout(targets)
		for i, state := range states {
			switch state {
			case "healthy":
				r[i].healthy = true
			case "failed":
				r[i].err = errors.New(r[i].Component.Name + " failed")
			default:
				r[i].message = state
			}
		}
		var due []string
		for _, d := range r {
			if r.isDue(d) {
				due = append(due, d.Component.Name+"@"+d.At.Cluster)
			}
		}
		ok, message, err := r.result()
		failures := ""
		if err != nil {
			failures = err.Error()
		}
		if got := strings.Join(due, " "); got != c.due || message != c.message || failures != c.failures || ok != (c.message+c.failures == "") {
			t.Errorf("%s: due %q, says %v %q %q; want due %q, %q %q", c.components, got, ok, message, failures, c.due, c.message, c.failures)
		}
	}
}

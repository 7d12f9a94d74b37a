package api

import (
	"net/http"
	"strings"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// The classes of calls that Kubernetes' SLOs tell apart.
const (
	classMutating  = "mutating"
	classGet       = "get"
	classNamespace = "list-namespace"
	classCluster   = "list-cluster"
)

// TimeCalls returns a transport that observes how long a server takes to answer each
// call, by the class of the call.
func TimeCalls(next http.RoundTripper, c clock.Clock, observe func(class string, seconds float64)) http.RoundTripper {
	return &timer{next, c, observe}
}

// timer takes how long a member's API server takes to answer, its distance included and
// waits for limiters not.
type timer struct {
	next    http.RoundTripper
	clock   clock.Clock
	observe func(class string, seconds float64)
}

// RoundTrip sends a request, and takes its time unless it is a watch or failed to be
// answered.
func (t *timer) RoundTrip(r *http.Request) (*http.Response, error) {
	begin := t.clock.Now()
	answer, err := t.next.RoundTrip(r)
	if class := classOf(r); err == nil && class != "" {
		t.observe(class, t.clock.Now().Sub(begin).Seconds())
	}
	return answer, err
}

// classOf returns the class of a call; empty for watches and what is about no object.
func classOf(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	at := 2 // where the resource stands: /api/v1/pods, /apis/GROUP/VERSION/leases
	if parts[0] == "apis" {
		at = 3
	}
	namespaced := len(parts) > at+2 && parts[at] == "namespaces"
	if namespaced {
		at += 2
	}
	switch {
	case len(parts) <= at || r.URL.Query().Get("watch") != "":
		return ""
	case r.Method != http.MethodGet:
		return classMutating
	case len(parts) > at+1:
		return classGet
	case namespaced:
		return classNamespace
	}
	return classCluster
}

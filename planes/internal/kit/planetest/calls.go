package planetest

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// Sender is a function that sends a request.
type Sender func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (s Sender) RoundTrip(q *http.Request) (*http.Response, error) { return s(q) }

// Intercept gives each request of a configuration's clients to send, which sends it on by
// next: before, later, not at all, or as often as it likes.
func Intercept(config *rest.Config, send func(next http.RoundTripper, q *http.Request) (*http.Response, error)) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return Sender(func(q *http.Request) (*http.Response, error) { return send(next, q) })
	})
}

// Before does something before each request of a configuration's clients leaves.
func Before(config *rest.Config, do func(*http.Request)) {
	Intercept(config, func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
		do(q)
		return next.RoundTrip(q)
	})
}

// Calls are the writes, and the reads of single objects, of a configuration's clients, each
// named METHOD RESOURCE[/SUBRESOURCE][ dry]. Lists and watches are not counted.
type Calls struct {
	mu   sync.Mutex
	made []string
}

// Count counts the calls of a configuration's clients from now on. What mark returns is
// added to a call's name; mark may be nil.
func (c *Calls) Count(config *rest.Config, mark func(*http.Request) string) {
	Before(config, func(q *http.Request) {
		call := nameCall(q)
		if call == "" {
			return
		}
		if mark != nil {
			call += mark(q)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.made = append(c.made, call)
	})
}

func nameCall(q *http.Request) string {
	parts := strings.Split(strings.Trim(q.URL.Path, "/"), "/")
	n := map[string]int{"api": 2, "apis": 3}[parts[0]]
	if len(parts) <= n {
		return ""
	}
	parts = parts[n:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if q.Method == http.MethodGet && len(parts) == 1 {
		return ""
	}
	call := q.Method + " " + parts[0]
	if len(parts) > 2 {
		call += "/" + parts[2]
	}
	if q.URL.Query().Has("dryRun") {
		call += " dry"
	}
	return call
}

// Has reports whether a call was made since Take.
func (c *Calls) Has(call string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.made, call)
}

// Take returns how often each call was made since the last Take.
func (c *Calls) Take() map[string]int {
	out := map[string]int{}
	for _, call := range c.TakeInOrder() {
		out[call]++
	}
	return out
}

// TakeInOrder returns the calls since the last Take, in the order in which they were made.
func (c *Calls) TakeInOrder() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.made
	c.made = nil
	return out
}

package plane

import (
	"fmt"
	"strings"
	"testing"
)

// A trace says what the servers answer (+0: server 0 is ready, -0: not) and where
// connections (c) go then.
func TestRotation(t *testing.T) {
	for _, c := range []struct {
		servers, failures int
		trace, want       string
	}{
		{3, 1, "c c", "none none"},
		{3, 1, "+0 +1 +2 c c c c", "0 1 2 0"},
		{3, 1, "+0 +1 +2 -1 c c c c", "0 2 0 2"},
		{3, 1, "+0 +1 +2 c -1 c c +1 c c c", "0 2 0 1 2 0"},
		{2, 1, "+0 +1 -0 -1 c +0 c c", "none 0 0"},
		{2, 2, "+0 +1 -0 c c -0 c c", "0 1 1 1"},
		{2, 2, "+0 +1 -0 +0 -0 c c", "0 1"},
		{2, 3, "-0 -1 c +1 c", "none 1"},
		{1, 1, "+0 c c", "0 0"},
	} {
		r := newRotation(c.servers, c.failures)
		var got []string
		for _, word := range strings.Fields(c.trace) {
			if word == "c" {
				next := fmt.Sprint(r.next())
				if next == "-1" {
					next = "none"
				}
				if (next == "none") == r.healthy() {
					t.Errorf("%s: a connection goes to %s, and healthy is %v", c.trace, next, r.healthy())
				}
				got = append(got, next)
				continue
			}
			r.note(int(word[1]-'0'), word[0] == '+')
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%d servers, %d failures, %s: %s, want %s", c.servers, c.failures, c.trace, text, c.want)
		}
	}
}

package census

import (
	"fmt"
	"testing"
)

func TestDifferences(t *testing.T) {
	before := Census{"pods a/b": "uid 1", "nodes c": "uid 2", "nodes d": "uid 3"}
	if got := before.Differences(before); len(got) != 0 {
		t.Errorf("of the same: %q", got)
	}
	now := Census{"pods a/b": "uid 1", "nodes c": "uid 9", "secrets e": "uid 4"}
	if got, want := fmt.Sprint(before.Differences(now)), "[nodes c was uid 2 and is uid 9 nodes d is gone secrets e is new: uid 4]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestHowAnEndingIsJudged has an exit code and an output for each ending, and what is wrong
// with them.
func TestHowAnEndingIsJudged(t *testing.T) {
	const remedy = "something may have been left behind (remove windtunnel clean --kubeconfig k --run r)"
	for _, c := range []struct {
		ending, said string
		code, faults int
	}{
		{"pass", "", 0, 0}, {"pass", "", 2, 0}, {"pass", "", 3, 1},
		{"fail", "", 1, 0}, {"fail", "", 2, 0}, {"fail", "", 0, 1},
		{"ctrl-c", "", 2, 0}, {"ctrl-c", "", 0, 1}, {"timeout", "", 2, 0}, {"timeout", "", 3, 1},
		{"kill", "", -1, 0}, {"kill", "", 2, 1},
		{"plane-killed", remedy, 2, 0}, {"plane-killed", "", 2, 1}, {"plane-killed", "\ngoroutine 1 [running]", 2, 2},
	} {
		for _, e := range Endings() {
			if e.Name != c.ending {
				continue
			}
			if got := e.findFaults(c.code, c.said); len(got) != c.faults {
				t.Errorf("%s, exit code %d, %q: %q", c.ending, c.code, c.said, got)
			}
		}
	}
}

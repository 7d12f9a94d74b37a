package kwok

import (
	"strings"
	"time"
)

// Beat lets the heartbeats of nodes come every d, and up to a sixtieth and 10 s
// later, in place of the delay that their stages have. Heartbeats are stages of
// nodes that are named as kwok names its own: node-heartbeat and what begins with
// it. It reports whether there is one.
func (f *File) Beat(d time.Duration) bool {
	minDelay, maxDelay := d.Milliseconds(), (d + d/60 + 10*time.Second).Milliseconds()
	found := false
	for _, s := range f.Stages {
		if s.Resource() == (Resource{APIVersion: "v1", Kind: "Node"}) && strings.HasPrefix(s.Name, "node-heartbeat") {
			s.Spec.Delay = &Delay{DurationMilliseconds: &minDelay, JitterDurationMilliseconds: &maxDelay}
			found = true
		}
	}
	return found
}

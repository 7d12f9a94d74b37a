package clusters_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
)

// TestSlowMember holds that pods of a member that takes 300 ms to answer are made, each
// after that long at least, and whom else it holds up: where all members share one worker,
// those of another member are made when all are that came before them; where each member
// has workers of its own, they run while the slow one's still wait.
func TestSlowMember(t *testing.T) {
	const (
		answer = 300 * time.Millisecond
		slow   = 12 // more than it has workers in either arm
		others = 4
	)
	for name, change := range presets() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shape{members: 2, nodes: 1, mode: api.LeafNode, unjoined: true}
			r := newRig(t, s)
			link, m := r.manageLinked(s, change)
			if err := link.Emulate(proxy.Link{RoundTrip: answer}); err != nil {
				t.Fatal(err)
			}
			rounds := 0
			begin := func() {
				added := m.added("pods")
				for i := range slow {
					r.create(pod(fmt.Sprintf("slow-%d-%d", rounds, i), on("m0-n0")))
				}
				repotest.Eventually(t, "the slow one's wait", func() bool { return m.added("pods") >= added+slow })
				for i := range others {
					r.create(pod(fmt.Sprintf("other-%d-%d", rounds, i), on("m1-n0")))
				}
				rounds++
			}
			if change == nil {
				begin()
				repotest.Eventually(t, "the first of the others is made", func() bool { return m.made("member=m1") > 0 })
				if got := m.made("member=m0"); got != slow {
					t.Errorf("the first of the others is made after %d of the slow one's, want all %d that came before", got, slow)
				}
			} else {
				// On a busy machine all may be made in the time of two answers: then it is tried again.
				repotest.Eventually(t, "all others are made while the slow one's wait", func() bool {
					begin()
					repotest.Eventually(t, "all others are made", func() bool { return m.made("member=m1") == rounds*others })
					return m.made("member=m0") < rounds*slow
				})
			}
			r.run(rounds * (slow + others))
			m.rests()
			if got := instrumenttest.Measured(t, m.registry, "tree_pod_down_seconds", "result=made").Sum; got < (time.Duration(rounds*slow) * answer).Seconds() {
				t.Errorf("pods took %v s on their way down, want at least %v", got, time.Duration(rounds*slow)*answer)
			}
			if got := m.made(); got != rounds*(slow+others) {
				t.Errorf("%d pods are made in members, want %d", got, rounds*(slow+others))
			}
			if err := link.Emulate(proxy.Link{}); err != nil {
				t.Fatal(err)
			}
			r.agree()
		})
	}
}

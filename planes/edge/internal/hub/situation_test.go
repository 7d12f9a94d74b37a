package hub

import "testing"

// TestSituations holds where a change of an object goes, and whether that is written down
// first.
func TestSituations(t *testing.T) {
	all := Options{Owner: OwnerAll, Queues: QueuesHead, Birth: BirthDispatch}
	own := Options{Owner: OwnerOwn, Queues: QueuesHead, Birth: BirthAck}
	v111 := Options{Owner: OwnerAll, Queues: QueuesV111, Birth: BirthDispatch}
	older, newer, gone := &outgoing{version: 4}, &outgoing{version: 9}, &outgoing{version: 4, deletion: true}
	for name, c := range map[string]struct {
		s      situation
		o      Options
		want   route
		begins bool
	}{
		"new":                           {situation{version: 5, connected: true}, all, toSession, true},
		"new, written down when acked":  {situation{version: 5, connected: true}, own, toSession, false},
		"newer than the edge has":       {situation{version: 5, connected: true, stored: true, acked: 4}, all, toSession, false},
		"sent and not acknowledged":     {situation{version: 5, connected: true, stored: true}, all, toSession, false},
		"the edge has it":               {situation{version: 5, connected: true, stored: true, acked: 5}, all, toNobody, false},
		"an older one waits":            {situation{version: 5, connected: true, waiting: older}, all, toSession, false},
		"a newer one waits":             {situation{version: 5, connected: true, waiting: newer}, all, toNobody, false},
		"its deletion waits":            {situation{version: 5, connected: true, waiting: gone}, all, toNobody, false},
		"deleted":                       {situation{deletion: true, connected: true}, all, toSession, false},
		"deleted, though a newer waits": {situation{deletion: true, connected: true, waiting: newer}, all, toSession, false},
		"edge of another hub":           {situation{version: 5}, all, toForeign, true},
		"edge of another hub, has it":   {situation{version: 5, stored: true, acked: 5}, all, toNobody, false},
		"edge of another hub, not ours": {situation{version: 5}, own, toNobody, false},
		"edge is away in v1.11":         {situation{version: 5}, v111, toLeft, true},
		"deleted, edge not ours":        {situation{deletion: true}, own, toNobody, false},
	} {
		if got := c.s.routeTo(&c.o); got != c.want || c.s.needsBirth(&c.o) != c.begins {
			t.Errorf("%s: goes to %s, written down first %v, want %s, %v", name, got, c.s.needsBirth(&c.o), c.want, c.begins)
		}
	}
}

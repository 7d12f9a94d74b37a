package hub

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
)

// lastSent remembers what was in the last state of each object that an edge has
// acknowledged, if not every change goes down.
type lastSent struct {
	filtered bool
	mu       sync.Mutex
	last     map[string]sentState // by node/uid
}

// sentState is what an edge has of an object: its digest, and the newest version that is
// known to have the same digest. Every pod that runs has a status newer than what its edge
// has, and a digest of each in each round held up all else.
type sentState struct{ sum, version uint64 }

func newLastSent(o Options) *lastSent {
	return &lastSent{filtered: o.PodFilter == FilterSpec || o.NodeFilter == FilterSpec, last: map[string]sentState{}}
}

func (l *lastSent) setSent(m *outgoing) {
	if m.sum == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[m.node+"/"+m.uid] = sentState{m.sum, m.version}
}

// hasSent says whether the edge has what is in an object now.
func (l *lastSent) hasSent(k key, o metav1.Object) bool {
	id, version := k.node+"/"+k.uid, parseVersion(o.GetResourceVersion())
	l.mu.Lock()
	last, ok := l.last[id]
	l.mu.Unlock()
	if !ok || last.version == version {
		return ok
	}
	if last.sum != api.Sum(o) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last[id] == last { // nothing was sent meanwhile
		l.last[id] = sentState{last.sum, version}
	}
	return true
}

func (l *lastSent) forgetObject(k key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, k.node+"/"+k.uid)
}

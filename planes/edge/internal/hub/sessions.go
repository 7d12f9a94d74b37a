package hub

import (
	"maps"
	"slices"
	"sync"
)

// sessions are the edges that are connected.
type sessions struct {
	mu      sync.Mutex
	byNode  map[string]*session
	foreign map[string]struct{}    // nodes that hang elsewhere, for which there was something to send
	left    map[string][]*outgoing // by node: what waits for it, where that outlives its connection
}

func newSessions() *sessions {
	return &sessions{byNode: map[string]*session{}, foreign: map[string]struct{}{}, left: map[string][]*outgoing{}}
}

func (s *sessions) get(node string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byNode[node]
}

func (s *sessions) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byNode)
}

func (s *sessions) foreignLen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.foreign)
}

func (s *sessions) addForeign(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.foreign[node] = struct{}{}
}

func (s *sessions) listSessions() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.byNode))
}

func (s *sessions) queueDepth() (n int) {
	for _, x := range s.listSessions() {
		n += x.queueDepth()
	}
	return n
}

// add makes a session its node's; false: there are as many as may be. It returns
// the one that it takes the place of.
func (s *sessions) add(x *session, limit int) (old *session, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old = s.byNode[x.node]
	if old == nil && len(s.byNode) >= limit {
		return nil, false
	}
	s.byNode[x.node] = x
	delete(s.foreign, x.node)
	return old, true
}

// keepUnsent keeps what waits for a node that is gone, or returns the session that it has.
func (s *sessions) keepUnsent(node string, left []*outgoing) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.byNode[node]; now != nil {
		return now
	}
	s.left[node] = left
	return nil
}

// addUnsent adds to what is kept for a node that is gone; false: nothing is.
func (s *sessions) addUnsent(m *outgoing) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	left, ok := s.left[m.node]
	if !ok {
		return false
	}
	same := func(x *outgoing) bool { return x.kind == m.kind && x.namespace == m.namespace && x.name == m.name }
	if i := slices.IndexFunc(left, same); i >= 0 {
		left[i] = m
	} else {
		s.left[m.node] = append(left, m)
	}
	return true
}

// takeUnsent returns what was kept for a node, and keeps it no longer.
func (s *sessions) takeUnsent(node string) []*outgoing {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.left[node]
	delete(s.left, node)
	return left
}

// remove takes a session out if it is still its node's.
func (s *sessions) remove(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byNode[x.node] == x {
		delete(s.byNode, x.node)
	}
}

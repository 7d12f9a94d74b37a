package kubelet

import (
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/watch"
)

// state is what a Cluster keeps of nodes and pods: their bytes, trimmed.
type state struct {
	pods, nodes *plan
	count       bool // started containers are asked for
	ready       chan struct{}

	mu       sync.RWMutex
	listed   map[string]bool // paths whose first list is complete, or refused
	refusals map[string]error
	byNode   map[string][]byte // nodes by name
	byPod    map[podName]podState
	on       map[string]map[podName]struct{} // pods of a node
	started  map[string]float64              // containers of a node
	view     object.Pod                      // of the event that is being read
}

type podName struct{ namespace, name string }

type podState struct {
	raw     []byte
	node    string
	uid     string
	started int
}

func newState(words []string) *state {
	s := &state{
		ready: make(chan struct{}), listed: map[string]bool{}, refusals: map[string]error{},
		byNode: map[string][]byte{}, byPod: map[podName]podState{}, on: map[string]map[podName]struct{}{}, started: map[string]float64{},
		count: slices.Contains(words, "StartedContainersTotal") || slices.Contains(words, "startedContainersTotal"),
	}
	s.pods, s.nodes = plansFor(words)
	return s
}

// follower takes one resource, whose objects are known by a K, from its watch.
type follower[K comparable] struct {
	state  *state
	path   string
	keep   func(watch.Event) (K, error)
	known  func() iter.Seq[K]
	drop   func(K)
	relist watch.Relist[K]
}

// ListBegin comes before a list.
func (f *follower[K]) ListBegin(bool, string) { f.relist.Begin() }

// ListEnd comes after it.
func (f *follower[K]) ListEnd() {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	for _, name := range f.relist.End(f.known()) {
		f.drop(name)
	}
	delete(f.state.refusals, f.path)
	f.state.noteListedLocked(f.path)
}

// noteListedLocked notes that a path was listed, or will not be.
func (s *state) noteListedLocked(path string) {
	if s.listed[path] {
		return
	}
	s.listed[path] = true
	if len(s.listed) == 2 {
		close(s.ready)
	}
}

// noteRefused notes why a path cannot be followed.
func (s *state) noteRefused(path string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals[path] = err
	s.noteListedLocked(path)
}

func (s *state) firstRefusal() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, path := range slices.Sorted(maps.Keys(s.refusals)) {
		return s.refusals[path]
	}
	return nil
}

// Event gets one object; one that cannot be read is as good as not there.
func (f *follower[K]) Event(e watch.Event) {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	if name, err := f.keep(e); err == nil {
		f.relist.Add(name)
	}
}

// keepNodeLocked takes an event of a node.
func (s *state) keepNodeLocked(e watch.Event) (string, error) {
	var meta object.Meta
	if err := object.DecodeMeta(e.Object, &meta); err != nil {
		return "", err
	}
	name := string(meta.Name)
	if e.Kind == watch.Deleted {
		s.dropNodeLocked(name)
		return name, nil
	}
	raw, err := trimMessage(e.Object, s.nodes)
	if err != nil {
		return "", err
	}
	s.byNode[name] = slices.Clone(raw)
	return name, nil
}

func (s *state) dropNodeLocked(name string) {
	delete(s.byNode, name)
	delete(s.started, name)
}

// keepPodLocked takes an event of a pod.
func (s *state) keepPodLocked(e watch.Event) (podName, error) {
	view := &s.view
	if err := object.DecodePod(e.Object, view); err != nil {
		return podName{}, err
	}
	name := podName{string(view.Namespace), string(view.Name)}
	if e.Kind == watch.Deleted {
		s.dropPodLocked(name)
		return name, nil
	}
	raw, err := trimMessage(e.Object, s.pods)
	if err != nil {
		return podName{}, err
	}
	p := s.byPod[name]
	if p.uid != string(view.UID) || p.node != string(view.NodeName) {
		s.dropPodLocked(name)
		p = podState{uid: string(view.UID), node: string(view.NodeName)}
		if s.on[p.node] == nil {
			s.on[p.node] = map[podName]struct{}{}
		}
		s.on[p.node][name] = struct{}{}
	}
	if n := 0; s.count {
		if n = startedIn(e.Object); n > p.started {
			s.started[p.node] += float64(n - p.started)
			p.started = n
		}
	}
	p.raw = slices.Clone(raw)
	s.byPod[name] = p
	return name, nil
}

func (s *state) dropPodLocked(name podName) {
	p, ok := s.byPod[name]
	if !ok {
		return
	}
	delete(s.byPod, name)
	delete(s.on[p.node], name)
	if len(s.on[p.node]) == 0 {
		delete(s.on, p.node)
	}
}

// nodeBytes returns a node's bytes; nil without it. The bytes are never changed.
func (s *state) nodeBytes(name string) []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byNode[name]
}

func (s *state) podBytes(node string) [][]byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([][]byte, 0, len(s.on[node]))
	for name := range s.on[node] {
		out = append(out, s.byPod[name].raw)
	}
	return out
}

func (s *state) nodeNames() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.byNode))
}

func (s *state) startedOn(node string) float64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.started[node]
}

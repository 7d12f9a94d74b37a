package store

import (
	"maps"
	"slices"
	"sync"
)

// Links is the index of which dependents belong to which owners. The zero value is
// empty. Its methods may be called from many goroutines.
type Links[Owner, Dependent comparable] struct {
	mu sync.Mutex
	of map[Owner]map[Dependent]struct{}
}

// Add links a dependent to an owner. It reports whether the link is new.
func (l *Links[Owner, Dependent]) Add(o Owner, d Dependent) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	set := l.of[o]
	if set == nil {
		set = map[Dependent]struct{}{}
		if l.of == nil {
			l.of = map[Owner]map[Dependent]struct{}{}
		}
		l.of[o] = set
	}
	_, known := set[d]
	set[d] = struct{}{}
	return !known
}

// Remove removes the link between a dependent and an owner.
func (l *Links[Owner, Dependent]) Remove(o Owner, d Dependent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	set := l.of[o]
	delete(set, d)
	if len(set) == 0 {
		delete(l.of, o)
	}
}

// Dependents returns the dependents of an owner, in no order.
func (l *Links[Owner, Dependent]) Dependents(o Owner) (out []Dependent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.of[o]))
}

// Forget removes all links of an owner and returns its dependents, in no order.
func (l *Links[Owner, Dependent]) Forget(o Owner) (out []Dependent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out = slices.Collect(maps.Keys(l.of[o]))
	delete(l.of, o)
	return out
}

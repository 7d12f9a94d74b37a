package kind

import (
	"crypto/sha256"
	"encoding/json"
	"sync"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Served is the set of resources that a cluster serves at the moment. Its methods may be
// called from many goroutines.
type Served struct {
	mu  sync.Mutex // one Update at a time
	set atomic.Pointer[Set]
}

// NewServed returns the built-in resources.
func NewServed() *Served {
	s := &Served{}
	s.set.Store(Builtin())
	return s
}

// Load returns the set.
func (s *Served) Load() *Set { return s.set.Load() }

// Update replaces the set by what f makes of it, and then calls then, which may be nil.
// Updates happen one after another.
func (s *Served) Update(f func(*Set) *Set, then func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.Store(f(s.set.Load()))
	if then != nil {
		then()
	}
}

// Definitions caches the resources of CustomResourceDefinitions, so that clusters with
// the same definition share them. The zero value is empty. Its methods may be called
// from many goroutines.
type Definitions struct {
	known sync.Map // []*Kind by the SHA-256 of the definition's spec
}

// Resources returns the resources of a definition, one for each served version.
func (c *Definitions) Resources(d *apiextensionsv1.CustomResourceDefinition) ([]*Kind, error) {
	raw, err := json.Marshal(d.Spec)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	if known, ok := c.known.Load(sum); ok {
		return known.([]*Kind), nil
	}
	known, _ := c.known.LoadOrStore(sum, OfDefinition(d.DeepCopy()))
	return known.([]*Kind), nil
}

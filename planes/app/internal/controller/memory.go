package controller

import (
	"encoding/base64"
	"maps"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// memories are what a controller remembers of applications between passes. A
// restart loses them at no harm.
type memories struct {
	clock clock.Clock
	mu    sync.Mutex
	byKey map[string]*remembered
}

type remembered struct {
	written map[string]written // by kind and name
	tries   stepTries
	values  stepValues // that steps gave, where they are kept in memory
}

// stepTries are failures or looks in a row, by step of one revision.
type stepTries struct {
	revision string
	byStep   map[string]int
}

// written is a version of an object that this controller wrote.
type written struct {
	store   cache.Store
	version uint64
	at      clock.Time
}

// writtenTimeout is how long a watch may be behind a write until the cache is
// believed again: the object may be gone.
const writtenTimeout = 10 * time.Second

func newMemories(c clock.Clock) *memories {
	return &memories{clock: c, byKey: map[string]*remembered{}}
}

func (m *memories) ofLocked(key string) *remembered {
	r := m.byKey[key]
	if r == nil {
		r = &remembered{written: map[string]written{}}
		m.byKey[key] = r
	}
	return r
}

// noteWritten says that an object of an application has a version that store will show.
func (m *memories) noteWritten(key string, store cache.Store, o metav1.Object) {
	version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ofLocked(key).written[name] = written{store, version, m.clock.Now()}
}

// caughtUp says whether the caches show what this controller wrote of an
// application. A pass over an older state would do again what was done.
func (m *memories) caughtUp(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.byKey[key]
	if r == nil {
		return true
	}
	for name, w := range r.written {
		if o, exists, err := w.store.GetByKey(name); err == nil && exists {
			if version, err := strconv.ParseUint(o.(metav1.Object).GetResourceVersion(), 10, 64); err == nil && version >= w.version {
				delete(r.written, name)
				continue
			}
		}
		if m.clock.Now().Sub(w.at) > writtenTimeout {
			delete(r.written, name)
			continue
		}
		return false
	}
	if len(r.written) == 0 && len(r.tries.byStep) == 0 && r.values.Revision == "" {
		delete(m.byKey, key) // most applications rest: their empty maps would add up
	}
	return true
}

// noteDeleted says that an object was deleted: its version will not be seen.
func (m *memories) noteDeleted(key string, o metav1.Object) {
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.ofLocked(key).written, name)
}

// forget drops an application.
func (m *memories) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byKey, key)
}

// triesOf returns the tries of the steps of a revision, in a map of the caller's own.
func (m *memories) triesOf(key, revision string) map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.byKey[key]; r != nil && r.tries.revision == revision {
		return maps.Clone(r.tries.byStep)
	}
	return map[string]int{}
}

// keepTries remembers the tries of the steps of a revision.
func (m *memories) keepTries(key, revision string, tries map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(tries) > 0 || m.byKey[key] != nil {
		m.ofLocked(key).tries = stepTries{revision, tries}
	}
}

// keepOutputs remembers what the steps of an application gave.
func (m *memories) keepOutputs(key string, v stepValues) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ofLocked(key).values = v
}

// outputsOf returns what the steps of an application gave.
func (m *memories) outputsOf(key string) stepValues {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.byKey[key]; r != nil {
		return r.values
	}
	return stepValues{}
}

// untilWhole returns how long it is from now to the first whole second after wait
// less one: the original writes the time of the next try in whole seconds.
func untilWhole(now time.Time, wait time.Duration) time.Duration {
	return now.Truncate(time.Second).Add(wait).Sub(now)
}

func encodeBase64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

package controller

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/app/internal/workflow"
)

// memories are what a controller remembers of applications between passes. A
// restart loses them at no harm.
type memories struct {
	clock clock.Clock
	mu    sync.Mutex
	byKey map[string]*remembered
}

type remembered struct {
	written  map[string]written // by kind and name
	revision string             // whose workflow this is
	workflow workflow.Memory
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
	m.noteVersion(key, store, o, 0)
}

// noteRemoved says that the last finalizer of an object was taken off: store will not show
// it any more, or another one of its name, which is newer.
func (m *memories) noteRemoved(key string, store cache.Store, o metav1.Object) {
	m.noteVersion(key, store, o, 1)
}

// noteVersion notes the version of an object, or with newer above zero one after it.
func (m *memories) noteVersion(key string, store cache.Store, o metav1.Object, newer uint64) {
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
	m.ofLocked(key).written[name] = written{store, version + newer, m.clock.Now()}
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
	if len(r.written)+len(r.workflow.Tries)+len(r.workflow.Outputs) == 0 {
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

// forgetApplication drops an application.
func (m *memories) forgetApplication(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byKey, key)
}

// workflowOf returns what is remembered of the workflow of a revision, for the caller to
// change.
func (m *memories) workflowOf(key, revision string) workflow.Memory {
	out := workflow.Memory{Outputs: map[string]json.RawMessage{}, Tries: map[string]int{}}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.byKey[key]; r != nil && r.revision == revision {
		maps.Copy(out.Outputs, r.workflow.Outputs)
		maps.Copy(out.Tries, r.workflow.Tries)
	}
	return out
}

// keepWorkflow remembers the workflow of a revision. The caller gives w away.
func (m *memories) keepWorkflow(key, revision string, w workflow.Memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKey[key] != nil || len(w.Tries)+len(w.Outputs) > 0 {
		r := m.ofLocked(key)
		r.revision, r.workflow = revision, w
	}
}

// untilWhole returns how long it is from now to the first whole second after wait
// less one: the original writes the time of the next try in whole seconds.
func untilWhole(now time.Time, wait time.Duration) time.Duration {
	return now.Truncate(time.Second).Add(wait).Sub(now)
}

func encodeBase64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

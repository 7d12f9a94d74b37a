package controller

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/planes/app/internal/workflow"
)

// memories are what a controller remembers of the workflows of applications between
// passes. A restart loses them at no harm.
type memories struct {
	mu    sync.Mutex
	byKey map[string]remembered
}

type remembered struct {
	revision string // whose workflow this is
	workflow workflow.Memory
}

func newMemories() *memories { return &memories{byKey: map[string]remembered{}} }

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
	if r, ok := m.byKey[key]; ok && r.revision == revision {
		maps.Copy(out.Outputs, r.workflow.Outputs)
		maps.Copy(out.Tries, r.workflow.Tries)
	}
	return out
}

// keepWorkflow remembers the workflow of a revision. The caller gives w away.
func (m *memories) keepWorkflow(key, revision string, w workflow.Memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(w.Tries)+len(w.Outputs) > 0 {
		m.byKey[key] = remembered{revision, w}
	} else { // most applications rest: what is empty would add up
		delete(m.byKey, key)
	}
}

// untilWhole returns how long it is from now to the first whole second after wait
// less one: the original writes the time of the next try in whole seconds.
func untilWhole(now time.Time, wait time.Duration) time.Duration {
	return now.Truncate(time.Second).Add(wait).Sub(now)
}

func encodeBase64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

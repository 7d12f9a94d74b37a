// Package expectations remembers what a controller has asked for and not yet seen on
// its watch, so that it does not ask twice: while an object expects something,
// it is not synchronised again.
//
// It is a memory, not a guarantee: after a restart it is empty, and what a
// watch lost is given up after five minutes.
package expectations

import (
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Timeout is how long something is expected.
const Timeout = 5 * time.Minute

// Expectations of many objects, each known by its key.
type Expectations struct {
	clock clock.Clock
	mu    sync.Mutex
	byKey map[string]*wants
}

type wants struct {
	tokens map[string]bool
	since  clock.Time
}

// New returns expectations of nothing.
func New(c clock.Clock) *Expectations {
	return &Expectations{clock: c, byKey: map[string]*wants{}}
}

// Expect says that tokens will be seen for a key: names of what is created,
// uids of what is deleted. It is called before the request is sent, because
// the watch may be faster than the answer.
func (e *Expectations) Expect(key string, tokens ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.byKey[key]
	if w == nil {
		w = &wants{tokens: map[string]bool{}}
		e.byKey[key] = w
	}
	w.since = e.clock.Now()
	for _, t := range tokens {
		w.tokens[t] = true
	}
}

// Seen says that a token was seen, or will not be because its request failed.
func (e *Expectations) Seen(key, token string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.byKey[key]
	if w == nil {
		return
	}
	delete(w.tokens, token)
	if len(w.tokens) == 0 {
		delete(e.byKey, key)
	}
}

// Satisfied says that a key expects nothing any more, or has for too long.
func (e *Expectations) Satisfied(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.byKey[key]
	return w == nil || e.clock.Now().Sub(w.since) > Timeout
}

// Forget drops what a key expects: the object is gone.
func (e *Expectations) Forget(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byKey, key)
}

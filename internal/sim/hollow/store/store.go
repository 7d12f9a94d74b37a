// Package store keeps the objects of one cluster as bytes: tables in the order of
// their keys, one counter of versions, and a log of each table's last events,
// from which watches and lists of a moment past are served.
//
// It does not know what the bytes are: who writes an object encodes it, with the
// version that it is given.
package store

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/third_party/forked/golang/btree"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// The ways in which a version or an object is not there.
var (
	ErrCompacted = errors.New("the version is older than the log")
	ErrFuture    = errors.New("the version has not been reached")
	ErrChanged   = errors.New("the object has changed meanwhile")
)

// Object is a version of an object. It is never changed.
type Object struct {
	Key     string // NAMESPACE/NAME, or NAME
	Version uint64
	Raw     []byte
}

// Options say how a store behaves.
type Options struct {
	Clock   clock.Clock
	History time.Duration // how long events are kept at least, unless HistoryBytes are reached
	// HistoryBytes is how many bytes of objects that were replaced or deleted the events
	// keep at most; 0: as many as there are.
	HistoryBytes int
	// Notify is told of each event, under the store's lock: it must not block, nor
	// call the store. It may be nil.
	Notify func(*Table, *Event)
}

// Store is the objects of one cluster. Its methods may be called from many
// goroutines.
type Store struct {
	options Options

	mu      sync.RWMutex
	version uint64
	tables  map[string]*Table
	bytes   int // Event.historySize of all logs
}

// New returns an empty store.
func New(o Options) *Store {
	return &Store{options: o, version: 1, tables: map[string]*Table{}}
}

// Version returns the version of the last event.
func (s *Store) Version() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.version
}

// Table returns the table of a name, which it makes if there is none.
func (s *Store) Table(name string) *Table {
	s.mu.RLock()
	t := s.tables[name]
	s.mu.RUnlock()
	if t != nil {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t = s.tables[name]; t == nil {
		t = &Table{Name: name, store: s, oldest: s.compactedLocked()}
		s.tables[name] = t
	}
	return t
}

// compactedLocked returns since when a new table can tell what happened in it:
// always, for nothing has, but not before a version that Compact forgot.
func (s *Store) compactedLocked() (oldest uint64) {
	for _, t := range s.tables {
		if t.compacted {
			oldest = max(oldest, t.oldest)
		}
	}
	return oldest
}

// Tables returns the tables that have been asked for, in no order.
func (s *Store) Tables() []*Table {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Values(s.tables))
}

// Drop removes a table without a word to those who watch it.
func (s *Store) Drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tables[name]; t != nil {
		s.bytes -= t.bytes
		t.bytes = 0
	}
	delete(s.tables, name)
}

// Advance makes a version the next one's predecessor, if it is larger: what is
// loaded from elsewhere has versions of its own.
func (s *Store) Advance(version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = max(s.version, version)
}

// Trim forgets events that are older than the history.
func (s *Store) Trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.options.Clock.Now().Add(-s.options.History)
	for _, t := range s.tables {
		t.trimLocked(before)
	}
}

// Compact forgets all events: a watch or list from before now is refused.
func (s *Store) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	for _, t := range s.tables {
		t.forgetLocked(len(t.log))
		t.oldest, t.compacted = s.version, true
		t.wakeLocked()
	}
}

// Table is the objects of one resource.
type Table struct {
	Name string

	store     *Store
	tree      *btree.BTree[*Object] // nil while it is empty
	log       []*Event
	bytes     int    // Event.historySize of the log
	formed    int    // of how many of the last events the forms are kept
	raw       int    // bytes of the objects of these
	remade    remade // forms of events before these
	oldest    uint64 // every event after this version is in the log
	compacted bool
	changed   chan struct{} // closed at the next event; nil when nobody waits
}

const degree = 32 // of the trees: a leaf of 63 pointers

func lessKey(a, b *Object) bool { return a.Key < b.Key }

// Get returns an object; nil if it is not there.
func (t *Table) Get(key string) *Object {
	t.store.mu.RLock()
	defer t.store.mu.RUnlock()
	return t.getLocked(key)
}

func (t *Table) getLocked(key string) *Object {
	if t.tree == nil {
		return nil
	}
	o, _ := t.tree.Get(&Object{Key: key})
	return o
}

// Len returns how many objects there are.
func (t *Table) Len() int {
	t.store.mu.RLock()
	defer t.store.mu.RUnlock()
	return t.lenLocked()
}

func (t *Table) lenLocked() int {
	if t.tree == nil {
		return 0
	}
	return t.tree.Len()
}

// Put stores an object in place of the one that is expected to be there, nil for
// none. What encode returns has the version in it. ErrChanged says that another
// one is there; an error of encode is returned as it is.
func (t *Table) Put(key string, expect *Object, encode func(version uint64) ([]byte, error)) (*Object, error) {
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.getLocked(key) != expect {
		return nil, ErrChanged
	}
	raw, err := encode(s.version + 1)
	if err != nil {
		return nil, err
	}
	s.version++
	o := &Object{Key: key, Version: s.version, Raw: raw}
	if expect != nil {
		o.Key = expect.Key // one string for all versions
	}
	if t.tree == nil {
		t.tree = btree.New(degree, lessKey)
	}
	t.tree.ReplaceOrInsert(o)
	t.appendLocked(&Event{Object: o, Before: expect, Version: o.Version})
	return o, nil
}

// Remove removes an object that is expected to be there. What encode returns is
// its last state, with the version of its removal.
func (t *Table) Remove(expect *Object, encode func(version uint64) ([]byte, error)) (*Object, error) {
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.getLocked(expect.Key) != expect {
		return nil, ErrChanged
	}
	raw, err := encode(s.version + 1)
	if err != nil {
		return nil, err
	}
	s.version++
	last := &Object{Key: expect.Key, Version: s.version, Raw: raw}
	t.tree.Delete(expect)
	t.appendLocked(&Event{Object: last, Before: expect, Version: last.Version, Deleted: true})
	return last, nil
}

// Of how many events of a table, and of how many bytes of their objects, the forms that
// were made for watches are kept: a watch that is further behind has them made again,
// and as many of these are kept.
const (
	formsKept     = 1024
	formBytesKept = 32 << 20
)

func (t *Table) appendLocked(e *Event) {
	e.time = t.store.options.Clock.Now()
	t.trimLocked(e.time.Add(-t.store.options.History))
	t.log = append(t.log, e)
	t.bytes += e.historySize()
	t.store.bytes += e.historySize()
	t.dropFormsLocked()
	t.store.boundLocked()
	if t.store.options.Notify != nil {
		t.store.options.Notify(t, e)
	}
	t.wakeLocked()
}

func (t *Table) wakeLocked() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// dropFormsLocked drops the forms of the oldest events that have some, now that one was
// added.
func (t *Table) dropFormsLocked() {
	t.formed++
	t.raw += len(t.log[len(t.log)-1].Object.Raw)
	for t.formed > formsKept || t.raw > formBytesKept && t.formed > 1 {
		e := t.log[len(t.log)-t.formed]
		e.remade.Store(&t.remade)
		e.forms.Store(nil)
		t.formed--
		t.raw -= len(e.Object.Raw)
	}
}

// boundLocked forgets the oldest events of the largest logs while they keep more bytes
// than they may. A log's last event stays.
func (s *Store) boundLocked() {
	for s.options.HistoryBytes > 0 && s.bytes > s.options.HistoryBytes {
		var largest *Table
		for _, t := range s.tables {
			if len(t.log) > 1 && (largest == nil || t.bytes > largest.bytes) {
				largest = t
			}
		}
		if largest == nil {
			return
		}
		largest.forgetLocked(1 + len(largest.log)/64) // not one by one: there are many tables
	}
}

// trimLocked forgets the events of before a time.
func (t *Table) trimLocked(before clock.Time) {
	n := 0
	for n < len(t.log) && t.log[n].time < before {
		n++
	}
	t.forgetLocked(n)
}

// forgetLocked forgets the first events of the log.
func (t *Table) forgetLocked(n int) {
	for i, e := range t.log[:n] {
		t.oldest = e.Version
		t.bytes -= e.historySize()
		t.store.bytes -= e.historySize()
		if len(t.log)-i == t.formed {
			t.formed--
			t.raw -= len(e.Object.Raw)
		}
		t.log[i] = nil
	}
	if t.log = t.log[n:]; len(t.log) == 0 {
		t.log = nil
	}
}

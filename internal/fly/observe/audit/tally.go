package audit

import (
	"errors"
	"time"
)

// Bounds of a tally.
const (
	MaxClients = 64   // clients that are counted by name and version, and users of each: kubelets have one for each node
	MaxCounts  = 4096 // combinations of client and request that are counted by name
)

// Others is the name of the client to which requests of further clients are attributed,
// the user of further users of a client, and the resource of requests beyond MaxCounts.
const Others = "others"

// Key is what is counted.
type Key struct {
	Client  Client
	Request Request // of a watch that began without its code: the server gives it at the end
	Stage   Stage
}

// Count is what was counted of a key until now.
type Count struct {
	Number int           // of requests that ended, or of watches that began
	Time   time.Duration // from receipt to answer, of all that are not long-running
}

// Tally counts requests by client. The zero value counts by the default bounds.
type Tally struct {
	Unreadable int // lines that are not audit events, or too long

	users      map[Client]map[string]bool // by client without user
	counts     map[Key]*Count
	changed    []Key // since the last Take, in the order of their first change
	isChanged  map[Key]bool
	maxClients int // 0: MaxClients
	maxCounts  int // 0: MaxCounts
}

// NewTally returns a tally with bounds of its own.
func NewTally(maxClients, maxCounts int) *Tally {
	return &Tally{maxClients: maxClients, maxCounts: maxCounts}
}

// AddLine counts a line of an audit log.
func (t *Tally) AddLine(text []byte) {
	if len(text) == 0 {
		return
	}
	switch e, err := ParseEvent(text); {
	case err == nil:
		t.Add(e)
	case !errors.Is(err, errReceipt):
		t.Unreadable++
	}
}

// Add counts an event.
func (t *Tally) Add(e Event) {
	if t.counts == nil {
		t.users, t.counts, t.isChanged = map[Client]map[string]bool{}, map[Key]*Count{}, map[Key]bool{}
		if t.maxClients == 0 {
			t.maxClients, t.maxCounts = MaxClients, MaxCounts
		}
	}
	if e.Stage == Started {
		if e.Request.Verb != watchVerb {
			return // a stream: it is counted when it ends
		}
		e.Request.Code = 0
	}
	key := t.bound(Key{e.Client, e.Request, e.Stage})
	c := t.counts[key]
	if c == nil {
		c = &Count{}
		t.counts[key] = c
	}
	c.Number++
	if !e.LongRunning {
		c.Time += e.Took
	}
	if !t.isChanged[key] {
		t.isChanged[key] = true
		t.changed = append(t.changed, key)
	}
}

// bound returns the key under which a key is counted. Of what is beyond the bounds the verb
// is kept: there are few.
func (t *Tally) bound(key Key) Key {
	product := Client{Name: key.Client.Name, Version: key.Client.Version}
	users := t.users[product]
	switch {
	case users == nil && len(t.users) >= t.maxClients:
		key.Client = Client{Name: Others}
	case users == nil:
		t.users[product] = map[string]bool{key.Client.User: true}
	case len(users) < t.maxClients:
		users[key.Client.User] = true
	case !users[key.Client.User]:
		key.Client.User = Others
	}
	if t.counts[key] == nil && len(t.counts) >= t.maxCounts {
		key.Request = Request{Verb: key.Request.Verb, Resource: Others}
	}
	return key
}

// Take returns the keys whose counts have changed since it was called last.
func (t *Tally) Take() []Key {
	out := t.changed
	t.changed = nil
	clear(t.isChanged)
	return out
}

// Count returns what was counted of a key.
func (t *Tally) Count(key Key) Count {
	if c := t.counts[key]; c != nil {
		return *c
	}
	return Count{}
}

package record

import "github.com/windtunnel/windtunnel/internal/clock"

// AccessEvent says what an Access of a list or a watch is.
type AccessEvent uint8

// The events. Listed and List are of lists at the end of a step, and of those that a watch
// begins with or goes on from after a gap.
const (
	AccessCall     AccessEvent = iota // the answer to a create, update, delete or get
	AccessListed                      // an object of a list
	AccessList                        // the end of a list: Version is the list's, Key is empty
	AccessChanged                     // a watch brought a new or changed object
	AccessDeleted                     // a watch brought a deletion
	AccessBookmark                    // a watch said that nothing else happened up to Version
	AccessEnd                         // a watch was closed; Outcome: whether it had come to the last write
)

// Access is what a call, a list or a watch said of one object that a probe step writes.
type Access struct {
	Op      OpID // its verb is list or watch where Event is not AccessCall
	Event   AccessEvent
	Server  string     // the API server, by name; empty: the one that the connection was led to
	Key     string     // name of the object
	UID     string     // of the answer; empty: it has none
	Value   string     // of a create or update what was to be written, else what was read
	Version uint64     // resourceVersion of the answer; 0: it has none
	Sent    clock.Time // as in Call; of an event of a watch: as Done
	Done    clock.Time // as in Call; of an event of a watch: its receipt
	Code    uint16
	Outcome Outcome
}

// Access appends an access.
func (w *Writer) Access(a Access) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, kindAccess, byte(a.Event))
	w.uint(uint64(a.Op))
	for _, s := range []string{a.Server, a.Key, a.UID, a.Value} {
		w.string(s)
	}
	w.uint(a.Version)
	w.writeTime(a.Sent)
	w.int(int64(a.Done - a.Sent))
	w.uint(uint64(a.Code)<<2 | uint64(a.Outcome))
	w.flushIfFullLocked()
}

func (s *Stream) visitAccess(c *cursor, v Visitor) {
	s.Spend(costAccess)
	a := Access{Event: AccessEvent(c.byte()), Op: OpID(c.uint()), Server: c.string(), Key: c.string(), UID: c.string(), Value: c.string(),
		Version: c.uint(), Sent: c.readTime()}
	a.Done = c.readTimeAfter(a.Sent)
	code := c.uint()
	a.Code, a.Outcome = uint16(code>>2), Outcome(code&3)
	if int(a.Op) >= len(s.Ops) || a.Outcome > Unknown || a.Event > AccessEnd {
		c.failDamaged("access of an undefined operation, outcome or event")
	}
	if c.bad == nil && v.Access != nil {
		v.Access(a)
	}
}

package record

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// WorkersFact says who shared the load. The stream of worker 3 is workers/3.wt.
type WorkersFact struct {
	Count    int    `json:"count"`
	Fleets   int    `json:"fleets,omitempty"`   // so many of them, the last ones, keep nodes alive and send no load
	Where    string `json:"where"`              // "processes" of this machine, "pods" of a Kubernetes, or "byHand": processes that somebody has started
	Tolerate int    `json:"tolerate,omitempty"` // so many may be lost without the verdict being unknown for it
}

// KeepsNodes tells whether a worker keeps nodes alive and sends no load.
func (w WorkersFact) KeepsNodes(worker int) bool { return worker >= w.Count-w.Fleets }

// KeptByWorkers says what those that send no load keep alive: nodes, hollow members,
// subjects.
func (m Manifest) KeptByWorkers() (kinds []string) {
	members := slices.ContainsFunc(m.Members, func(g MembersFact) bool { return g.Workers > 0 })
	subjects := slices.ContainsFunc(m.Subjects, func(s SubjectFact) bool { return s.Worker != nil })
	if m.Fleet.Nodes > 0 || !members && !subjects {
		kinds = append(kinds, "nodes")
	}
	if members {
		kinds = append(kinds, "hollow members")
	}
	if subjects {
		kinds = append(kinds, "subjects")
	}
	return kinds
}

// Senders is how many send load.
func (w WorkersFact) Senders() int { return w.Count - w.Fleets }

// WorkersFolder is the folder of the workers' streams.
const WorkersFolder = "workers"

// MaxWorkers is how many workers a run may have.
const MaxWorkers = 10_000

// WorkerFile is the name of a worker's stream, in the run directory.
func WorkerFile(worker int) string { return fmt.Sprintf("%s/%d.wt", WorkersFolder, worker) }

// Readings are how a worker's clock stood to the run's, in the order of time: what its
// events worker-clock say.
type Readings []reading

// reading is how it stood from a moment of the run on.
type reading struct {
	from   clock.Time
	offset time.Duration
}

// Add takes an event worker-clock. Two of them may come in the wrong order.
func (r *Readings) Add(e Event) {
	at := sort.Search(len(*r), func(i int) bool { return (*r)[i].from > e.At })
	*r = slices.Insert(*r, at, reading{e.At, e.Offset})
}

// Move gives a call of the worker the times of the run: as the clock stood when the
// part of the load began in which it was due.
func (r Readings) Move(c Call) Call {
	if len(r) == 0 {
		return c
	}
	i := sort.Search(len(r), func(i int) bool { return r[i].from > c.Due.Add(r[i].offset) })
	by := r[max(0, i-1)].offset
	c.Due, c.Sent, c.Done = c.Due.Add(by), c.Sent.Add(by), c.Done.Add(by)
	return c
}

package record

import (
	"encoding/json"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// EventType says what an event is, and with that which of its fields it has.
type EventType string

// The types of events. Every event has At.
const (
	EventPlaneReady   EventType = "plane-ready"   // For: from start to ready
	EventFleetReady   EventType = "fleet-ready"   // Count: nodes that are schedulable
	EventRunBegan     EventType = "run-begin"     // Name: the scenario
	EventRunEnded     EventType = "run-end"       // Name: the step it ended in; Reason; Step and Text where it failed
	EventStepBegan    EventType = "step-begin"    // Name: the step
	EventStepEnded    EventType = "step-end"      // Name: the step; Text: why it failed, else empty; State, where that is known; Step: where that was a step inside
	EventLoadAsked    EventType = "requested"     // Name: the step; Count, and Rate or Parallel
	EventLoadOffered  EventType = "offered"       // Name: the step; Count and Rate of calls that left, without retries
	EventLoadAchieved EventType = "achieved"      // Name: the step; Count and Rate of answers with success
	EventCallsFailed  EventType = "calls-failed"  // Name: the step; Text: the first one's message; Failure. A later one of the same failure has all that came before in it
	EventScraped      EventType = "scrape"        // Name: the target whose metrics were read completely
	EventScrapeFailed EventType = "scrape-failed" // Name: the target; Text: why
	EventCut          EventType = "cut"           // Name: the target of which nothing is read any more; Count: series that it has served; Text: why
	EventWatchGap     EventType = "watch-gap"     // Name: the resource of an interrupted watch; For: since its last event, where that is known; Text: why
	EventDirty        EventType = "dirty"         // Name: what preflight, or a step that settles, did not find clean; Text: the evidence, a clause
	EventFault        EventType = "fault"         // Name: the component, or the step of another fault; Text: what was done, or that it is over; Outage: where it is members'
	EventPartBegan    EventType = "part-begin"    // Name: the process, or nodes, that an upgrade changes from now; Step; From and To: its releases
	EventPartEnded    EventType = "part-end"      // as part-begin; Text: why it did not come back, else empty
	EventNoServer     EventType = "no-server"     // Name: the balancer, which refuses new connections from now on since no API server is ready
	EventServerReady  EventType = "server-ready"  // Name: the balancer: an API server is ready again
	EventProfiled     EventType = "profile"       // Name: the component of which profiles are taken from now, for some seconds
	EventDied         EventType = "death"         // Name: the component; Text: why, and its last log lines; MemoryLimit
	EventWarned       EventType = "warning"       // Text: a sentence for the report
	EventUnmet        EventType = "unmet"         // Name: something that the run was asked for; State: how it ended; Text: why, a clause
	EventWorkerClock  EventType = "worker-clock"  // Worker; Offset and Bound; Jumped: how its clock stands to the run's
	EventWorkerShare  EventType = "worker-share"  // Name: the step; Worker; Count: calls of a part of the step that are its own; At: the common start; Text: why it did not do them, else empty
	EventWorkerLost   EventType = "worker-lost"   // Worker; Name: the step; Text: why
)

// eventTypes are those that this version knows.
func eventTypes() []EventType {
	return []EventType{
		EventPlaneReady, EventFleetReady, EventRunBegan, EventRunEnded, EventStepBegan, EventStepEnded,
		EventLoadAsked, EventLoadOffered, EventLoadAchieved, EventCallsFailed, EventScraped, EventScrapeFailed, EventCut, EventWatchGap,
		EventDirty, EventFault, EventPartBegan, EventPartEnded, EventNoServer, EventServerReady, EventProfiled, EventDied, EventWarned, EventUnmet, EventWorkerClock, EventWorkerShare, EventWorkerLost,
	}
}

// EndReason is why a run ended.
type EndReason string

// The reasons. A run whose records have no end was killed, or is under way.
const (
	Done        EndReason = "done"
	Interrupted EndReason = "interrupted"
	Aborted     EndReason = "aborted" // what the scenario's abortOn says came to be
	Broken      EndReason = "failed"  // a step, a component or a part of the run failed
)

// State is how something ended that a run was asked for: by its scenario, an imported
// file, a flag or a limit. What is done has no event.
type State string

// The states of what is not done. Empty, of a step that did not end well: NotDone.
const (
	Refuted     State = "failed"       // it was tried, and the answer was no: the run fails
	NotDone     State = "not-done"     // it did not come about, or not within its time
	NotInForce  State = "not-in-force" // a limit or a setting that does not hold
	NotMeasured State = "not-measured"
	NotHonored  State = "not-honored" // a field of an imported file that the scenario does not do: "FILE:LINE: FIELD"
)

// Event is one moment of the run.
type Event struct {
	At   clock.Time
	Type EventType
	Name string // the step, target or component
	Text string // for people: nothing depends on its words
	Detail
}

// Unmet is the event of something that the run was asked for, such as "limit of
// etcd", that did not come about; why is a clause.
func Unmet(at clock.Time, asked string, state State, why string) Event {
	return Event{At: at, Type: EventUnmet, Name: asked, Text: why, Detail: Detail{State: state}}
}

// Detail are the fields that few types have.
type Detail struct {
	Reason   EndReason     `json:"reason,omitempty"`
	Step     string        `json:"step,omitempty"`     // the step that failed, or that upgrades
	From     string        `json:"from,omitempty"`     // the release before, such as v1.36.3; empty where it is not known
	To       string        `json:"to,omitempty"`       // the release after
	State    State         `json:"state,omitempty"`    // of what was asked for
	Count    int           `json:"count,omitempty"`    // calls, nodes
	Rate     float64       `json:"rate,omitempty"`     // calls per second; 0: none was asked for
	Parallel int           `json:"parallel,omitempty"` // calls at a time, of a closed loop: latency is service time
	For      time.Duration `json:"for_ns,omitempty"`
	Failure  *Failure      `json:"failure,omitempty"`
	Worker   int           `json:"worker,omitempty"`    // from 0
	Offset   time.Duration `json:"offset_ns,omitempty"` // the run's time is the worker's plus this
	Bound    time.Duration `json:"bound_ns,omitempty"`  // and no further from it than that
	Jumped   bool          `json:"jumped,omitempty"`    // two readings of the clock contradict each other

	MemoryLimit MemoryLimit `json:"memory_limit,omitempty"` // at which a component was killed
	Outage      *Outage     `json:"outage,omitempty"`
}

// Outage says which members a fault breaks from now on, or no more.
type Outage struct {
	Members []string `json:"members"`
	Over    bool     `json:"over,omitempty"`
}

// MemoryLimit says whose memory limit it was at which the kernel killed a component.
type MemoryLimit string

// The owners of a limit. Empty: it was killed at none.
const (
	OwnLimit    MemoryLimit = "own"
	PlaneLimit  MemoryLimit = "plane"  // that the components share
	EitherLimit MemoryLimit = "either" // one of the two
)

// Failure is one way in which calls of a step did not end well, with how often
// that was until now.
type Failure struct {
	Verb        string `json:"verb"`
	Resource    string `json:"resource"`
	Cluster     string `json:"cluster,omitempty"` // the member; empty: the plane
	Subresource string `json:"subresource,omitempty"`
	Code        int    `json:"code"`             // HTTP status; 0: no answer, or never sent
	Reason      string `json:"reason,omitempty"` // of the server's Status, such as Invalid
	Object      string `json:"object,omitempty"` // of the first one: NAMESPACE/NAME, or the path that was asked for
	Count       int    `json:"count"`            // calls that failed for good
	Retried     int    `json:"retried"`          // attempts that failed and were followed by another
}

// encodeJSON returns the detail as JSON, empty where there is none.
func (d Detail) encodeJSON() string {
	if d == (Detail{}) {
		return ""
	}
	raw, err := json.Marshal(d)
	if err != nil {
		panic(err) // the numbers of an event are finite: Writer.Event sees to it
	}
	return string(raw)
}

// decodeDetail reads what encode wrote. Fields of a later version are skipped.
func decodeDetail(text string) (d Detail, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &d)
	}
	return d, err
}

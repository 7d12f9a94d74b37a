package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// LagSeconds is the series of how late a watch was: the most since its last
// sample, by resource.
const LagSeconds = "windtunnel_watch_lag_seconds"

// Timing of the pulse.
const (
	pulseEvery = 250 * time.Millisecond
	pulseTime  = 30 * time.Second
	// pulsePath is of a resource that every kube-apiserver serves itself and
	// keeps in the store of all others, whose objects are small, and of which
	// the official SLOs do not speak (slo.builtin): a list of namespaces four
	// times a second would make a row of its own among their results, about
	// calls that are only ours. To subtract our calls from a histogram is no way
	// out: nobody knows in which of its buckets they lie.
	pulsePath = "/apis/apiregistration.k8s.io/v1/apiservices?limit=1"
	pulseKept = 4096 // a quarter of an hour and more
	// lagBound is how late an event may be and still count as seen in time.
	lagBound = 100 * time.Millisecond
)

// Pulse knows how far the plane had got at certain moments, so that an event
// can be told to be late: a watch that stalls shows all that happened meanwhile
// at once, and durations between such receipts would be much too short.
//
// Every so often it lists something small. The answer's resourceVersion is that
// of the whole store: a change of this version or an earlier one had happened
// when the answer came, a change of a later one had not happened when it was
// asked. A watch event whose change had happened long before its receipt was
// held up, and what it shows is dated between two beats. A nil Pulse calls
// nothing late.
type Pulse struct {
	records *record.Writer
	clock   clock.Clock

	mu    sync.Mutex
	beats []beat                   // by version, ascending
	ahead map[string]uint64        // by resource: the first version shown that no beat knew of yet
	lag   map[string]time.Duration // by resource, since the last sample; none where nothing is known
	said  map[string]time.Duration
	fault error // of the last beat that failed
}

type beat struct {
	version     uint64
	asked, told clock.Time
}

// NewPulse returns a pulse that writes how late watches were to records.
func NewPulse(records *record.Writer, c clock.Clock) *Pulse {
	return &Pulse{records: records, clock: c, ahead: map[string]uint64{}, lag: map[string]time.Duration{}, said: map[string]time.Duration{}}
}

// Run asks until ctx ends, and warns then if it never had an answer: how late
// watches were is unknown. It needs a client whose calls are not held up
// together with the watches: watches have connections of their own.
func (p *Pulse) Run(ctx context.Context, client *wire.Client) {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for {
		if err := p.beat(ctx, client); err != nil && ctx.Err() == nil {
			p.fault = err
		}
		p.say()
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.warn()
			return
		}
	}
}

// beat asks once. A server that does not answer leaves a longer time between
// two beats.
func (p *Pulse) beat(ctx context.Context, client *wire.Client) error {
	asked := p.clock.Now()
	r, err := client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: pulsePath, Timeout: pulseTime})
	if err != nil {
		return err
	}
	if r.Code != http.StatusOK {
		return r.Refusal()
	}
	var list object.List[struct{}]
	if err := json.Unmarshal(r.Body, &list); err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	version, err := strconv.ParseUint(list.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("read resourceVersion: %w", err)
	}
	p.add(beat{version, asked, r.Done})
	return nil
}

// warn says so when no beat ever succeeded.
func (p *Pulse) warn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.beats) == 0 && p.fault != nil {
		p.records.Event(record.Event{At: p.clock.Now(), Type: record.EventWarned,
			Text: fmt.Sprintf("how late watches were is not known: GET %s: %v", pulsePath, p.fault)})
	}
}

func (p *Pulse) add(b beat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.beats); n > 0 && b.version < p.beats[n-1].version {
		p.beats = p.beats[:0] // another store: what was known of the old one means nothing
		clear(p.ahead)
	}
	for resource, version := range p.ahead {
		if version <= b.version { // it was shown before anybody else knew of it
			p.lag[resource] = max(p.lag[resource], 0)
			delete(p.ahead, resource)
		}
	}
	if len(p.beats) >= pulseKept {
		p.beats = append(p.beats[:0], p.beats[pulseKept/2:]...)
	}
	p.beats = append(p.beats, b)
}

// within is how long before its receipt a change may have happened that was
// received late; 0 of one that was received in time.
func (p *Pulse) within(resource string, version uint64, at clock.Time) time.Duration {
	if p == nil || version == 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// The first beat that knew of the change, and the one before it.
	i := sort.Search(len(p.beats), func(i int) bool { return p.beats[i].version >= version })
	if i == len(p.beats) { // nobody knows yet; a later beat tells that it was in time
		if _, waits := p.ahead[resource]; !waits {
			p.ahead[resource] = version
		}
		return 0
	}
	if i == 0 { // before anybody asked, or it is of another store with versions of its own
		return 0
	}
	late := at.Sub(p.beats[i].told)
	p.lag[resource] = max(p.lag[resource], late)
	if late <= lagBound {
		return 0
	}
	return at.Sub(p.beats[i-1].asked)
}

// whole is until when a watch has shown everything that, received at a time,
// says that it has shown all up to a version. It tells nothing of how late the
// watch is: a quiet resource's version may be an old one.
func (p *Pulse) whole(version uint64, at clock.Time) clock.Time {
	if p == nil || version == 0 {
		return at
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// The first beat that knew of a later change, and the one before it.
	i := sort.Search(len(p.beats), func(i int) bool { return p.beats[i].version > version })
	if i == len(p.beats) || i == 0 || at.Sub(p.beats[i].told) <= lagBound {
		return at
	}
	return p.beats[i-1].asked
}

// say writes how late each watch was since the last time.
func (p *Pulse) say() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for resource, lag := range p.lag {
		if said, ok := p.said[resource]; !ok || lag != said {
			id := p.records.Series(record.Series{Target: "windtunnel", Name: LagSeconds, Labels: []record.Label{{Name: "resource", Value: resource}}})
			p.records.Sample(record.Sample{Series: id, At: p.clock.Now(), Value: lag.Seconds()})
			p.said[resource] = lag
		}
		p.lag[resource] = 0
	}
}

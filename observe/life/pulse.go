package life

import (
	"context"
	"encoding/json"
	"net/http"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/clock"
	"github.com/windtunnel/windtunnel/record"
	"github.com/windtunnel/windtunnel/wire"
)

// LagSeconds is the series of how late a watch was: the most since its last
// sample, by resource.
const LagSeconds = "windtunnel_watch_lag_seconds"

// Timing of the pulse.
const (
	pulseEvery = 250 * time.Millisecond
	pulseTime  = 30 * time.Second
	pulsePath  = "/api/v1/namespaces?limit=1"
	pulseKept  = 4096 // a quarter of an hour and more
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
	beats []beat // by version, ascending
	lag   map[string]time.Duration
	said  map[string]time.Duration
}

type beat struct {
	version     uint64
	asked, told clock.Time
}

// NewPulse returns a pulse that writes how late watches were to records.
func NewPulse(records *record.Writer, c clock.Clock) *Pulse {
	return &Pulse{records: records, clock: c, lag: map[string]time.Duration{}, said: map[string]time.Duration{}}
}

// Run asks until ctx ends. It needs a client whose calls are not held up
// together with the watches: watches have connections of their own.
func (p *Pulse) Run(ctx context.Context, client *wire.Client) {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for {
		p.beat(ctx, client)
		p.say()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// beat asks once. A server that does not answer leaves a longer time between
// two beats.
func (p *Pulse) beat(ctx context.Context, client *wire.Client) {
	asked := p.clock.Now()
	r, err := client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: pulsePath, Timeout: pulseTime})
	if err != nil || r.Code != http.StatusOK {
		return
	}
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if json.Unmarshal(r.Body, &list) != nil {
		return
	}
	if version, err := strconv.ParseUint(list.Metadata.ResourceVersion, 10, 64); err == nil {
		p.add(beat{version, asked, r.Done})
	}
}

func (p *Pulse) add(b beat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.beats); n > 0 && b.version < p.beats[n-1].version {
		p.beats = p.beats[:0] // another store: what was known of the old one means nothing
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
	if i == len(p.beats) || i == 0 { // nobody knows yet, or it is of another store with versions of its own
		return 0
	}
	late := at.Sub(p.beats[i].told)
	p.lag[resource] = max(p.lag[resource], late)
	if late <= lagBound {
		return 0
	}
	return at.Sub(p.beats[i-1].asked)
}

// say writes how late each watch was since the last time.
func (p *Pulse) say() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for resource, lag := range p.lag {
		if lag != p.said[resource] {
			id := p.records.Series(record.Series{Target: "windtunnel", Name: LagSeconds, Labels: []record.Label{{Name: "resource", Value: resource}}})
			p.records.Sample(record.Sample{Series: id, At: p.clock.Now(), Value: lag.Seconds()})
			p.said[resource] = lag
		}
		p.lag[resource] = 0
	}
}

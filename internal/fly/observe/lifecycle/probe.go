package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
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
// sample, by resource, and by cluster where it is in a member.
const LagSeconds = "windtunnel_watch_lag_seconds"

// Timing of the probes.
const (
	probeInterval = 250 * time.Millisecond
	probeTimeout  = 30 * time.Second
	// probePath is of a resource that every kube-apiserver serves itself and
	// keeps in the store of all others, whose objects are small, and of which
	// the official SLOs do not speak (slo.builtin): a list of namespaces four
	// times a second would make a row of its own among their results, about
	// calls that are only ours. To subtract our calls from a histogram is no way
	// out: nobody knows in which of its buckets they lie.
	probePath   = "/apis/apiregistration.k8s.io/v1/apiservices?limit=1"
	keptAnswers = 4096 // a quarter of an hour and more
	// lagBound is how late an event may be and still count as seen in time.
	lagBound = 100 * time.Millisecond
)

// Probe knows, by resourceVersions, how far the plane had got at certain moments, so that an event
// can be told to be late: a watch that stalls shows all that happened meanwhile
// at once, and durations between such receipts would be much too short.
//
// Every so often it lists something small. The answer's resourceVersion is that
// of the whole store: a change of this version or an earlier one had happened
// when the answer came, a change of a later one had not happened when it was
// asked. A watch event whose change had happened long before its receipt was
// held up, and what it shows is dated between two answers. A nil Probe calls
// nothing late.
type Probe struct {
	records *record.Writer
	clock   clock.Clock
	cluster string // the member; empty: the plane
	path    string
	every   time.Duration

	mu      sync.Mutex
	answers []answer                 // by version, ascending
	ahead   map[string]uint64        // by resource: the first version shown that no answer knew of yet
	lag     map[string]time.Duration // by resource, since the last sample; none where nothing is known
	written map[string]time.Duration
	lastErr error // of the last request that failed
}

type answer struct {
	version                 uint64
	requestedAt, answeredAt clock.Time
}

// NewProbe returns a probe that writes how late watches were to records.
func NewProbe(records *record.Writer, c clock.Clock) *Probe {
	return &Probe{records: records, clock: c, path: probePath, every: probeInterval, ahead: map[string]uint64{}, lag: map[string]time.Duration{}, written: map[string]time.Duration{}}
}

// In has a member asked, so often; before Run. Members need not serve what the plane
// is asked for, and the official SLOs do not speak of them: they are asked for a
// namespace.
func (p *Probe) In(cluster string, every time.Duration) *Probe {
	p.cluster, p.path, p.every = cluster, "/api/v1/namespaces?limit=1", max(every, probeInterval)
	return p
}

// Run asks until ctx ends, and warns then if it never had an answer: how late
// watches were is unknown. It needs a client whose calls are not held up
// together with the watches: watches have connections of their own.
func (p *Probe) Run(ctx context.Context, client *wire.Client) {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		if err := p.sendProbe(ctx, client); err != nil && ctx.Err() == nil {
			p.lastErr = err
		}
		p.writeLag()
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.warnIfUnanswered()
			return
		}
	}
}

// sendProbe sends one request. A server that does not answer leaves a longer time
// between two answers.
func (p *Probe) sendProbe(ctx context.Context, client *wire.Client) error {
	requestedAt := p.clock.Now()
	r, err := client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: p.path, Timeout: probeTimeout})
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
	p.addAnswer(answer{version, requestedAt, r.Done})
	return nil
}

// warnIfUnanswered says so when no request ever succeeded.
func (p *Probe) warnIfUnanswered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.answers) == 0 && p.lastErr != nil {
		p.records.Event(record.Event{At: p.clock.Now(), Type: record.EventWarned,
			Text: fmt.Sprintf("how late watches%s were is not known: GET %s: %v", p.describeCluster(), p.path, p.lastErr)})
	}
}

// describeCluster says which cluster it is that is asked.
func (p *Probe) describeCluster() string {
	if p.cluster == "" {
		return ""
	}
	return " in " + p.cluster
}

func (p *Probe) addAnswer(a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.answers); n > 0 && a.version < p.answers[n-1].version {
		p.answers = p.answers[:0] // another store: what was known of the old one means nothing
		clear(p.ahead)
	}
	for resource, version := range p.ahead {
		if version <= a.version { // it was shown before anybody else knew of it
			p.lag[resource] = max(p.lag[resource], 0)
			delete(p.ahead, resource)
		}
	}
	if len(p.answers) >= keptAnswers {
		p.answers = append(p.answers[:0], p.answers[keptAnswers/2:]...)
	}
	p.answers = append(p.answers, a)
}

// uncertaintyOf is how long before its receipt a change may have happened that was
// received late; 0 of one that was received in time.
func (p *Probe) uncertaintyOf(resource string, version uint64, at clock.Time) time.Duration {
	if p == nil || version == 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// The first answer that knew of the change, and the one before it.
	i := sort.Search(len(p.answers), func(i int) bool { return p.answers[i].version >= version })
	if i == len(p.answers) { // nobody knows yet; a later answer tells that it was in time
		if _, waits := p.ahead[resource]; !waits {
			p.ahead[resource] = version
		}
		return 0
	}
	if i == 0 { // before anybody asked, or it is of another store with versions of its own
		return 0
	}
	late := at.Sub(p.answers[i].answeredAt)
	p.lag[resource] = max(p.lag[resource], late)
	if late <= lagBound {
		return 0
	}
	return at.Sub(p.answers[i-1].requestedAt)
}

// completeUntil is until when a watch has shown everything that, received at a time,
// says that it has shown all up to a version. It tells nothing of how late the
// watch is: a quiet resource's version may be an old one.
func (p *Probe) completeUntil(version uint64, at clock.Time) clock.Time {
	if p == nil || version == 0 {
		return at
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// The first answer that knew of a later change, and the one before it.
	i := sort.Search(len(p.answers), func(i int) bool { return p.answers[i].version > version })
	if i == len(p.answers) || i == 0 || at.Sub(p.answers[i].answeredAt) <= lagBound {
		return at
	}
	return p.answers[i-1].requestedAt
}

// writeLag writes how late each watch was since the last time.
func (p *Probe) writeLag() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for resource, lag := range p.lag {
		if said, ok := p.written[resource]; !ok || lag != said {
			labels := []record.Label{{Name: "resource", Value: resource}}
			if p.cluster != "" {
				labels = slices.Insert(labels, 0, record.Label{Name: "cluster", Value: p.cluster})
			}
			id := p.records.Series(record.Series{Target: "windtunnel", Name: LagSeconds, Labels: labels})
			p.records.Sample(record.Sample{Series: id, At: p.clock.Now(), Value: lag.Seconds()})
			p.written[resource] = lag
		}
		p.lag[resource] = 0
	}
}

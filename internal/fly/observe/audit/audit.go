package audit

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	facts "github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
)

// every is how often logs are read: seldom enough that the reader's CPU is that of the
// lines, often enough that a log is replaced at most once meanwhile.
const every = 500 * time.Millisecond

// Log is the audit log of one API server.
type Log struct {
	Server string // kube-apiserver, or one of several
	Path   string
	Grown  bool // it was there before: what is in it is not the run's
}

// Reader reads audit logs into the record stream.
type Reader struct {
	records *record.Writer
	clock   clock.Clock

	mu     sync.Mutex
	logs   []*log
	tally  *Tally
	ids    map[Key]ids
	last   clock.Time // when the logs were read last
	bad    record.SeriesID
	buf    []byte
	failed func(server string, err error)
}

type log struct {
	Log
	follower
	failed bool
	bytes  record.SeriesID
}

// ids are the series of a key: of requests or watches, and of the time of requests.
type ids struct{ number, seconds record.SeriesID }

// New returns a reader of some logs that writes to w with times of c. failed is told once of
// a log that cannot be read. An error says that a log that is to be there is not.
func New(w *record.Writer, c clock.Clock, logs []Log, failed func(server string, err error)) (*Reader, error) {
	r := &Reader{records: w, clock: c, tally: &Tally{}, ids: map[Key]ids{}, buf: make([]byte, 256<<10), failed: failed}
	r.bad = w.Series(record.Series{Target: usage.Self, Name: facts.AuditUnreadable})
	for _, l := range logs {
		one := &log{Log: l, follower: follower{path: l.Path}}
		if l.Grown {
			if err := one.skipToEnd(); err != nil {
				r.Close()
				return nil, err
			}
		}
		one.bytes = w.Series(record.Series{Target: usage.Self, Name: facts.AuditBytes, Labels: []record.Label{{Name: "server", Value: l.Server}}})
		r.logs = append(r.logs, one)
	}
	return r, nil
}

// Run reads the logs twice a second until ctx ends.
func (r *Reader) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		r.Sample()
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.Sample()
			return
		}
	}
}

// Close closes the logs.
func (r *Reader) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.logs {
		l.close()
	}
}

// Sample reads what the logs have by now and writes the counts that changed. An API server
// writes the event of a request before the end of its answer, so that whoever has an
// answer finds it here.
func (r *Reader) Sample() {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.clock.Now()
	for _, l := range r.logs {
		err := l.readAll(r.buf, r.tally.AddLine, func() { r.tally.Unreadable++ })
		if err != nil && !l.failed {
			l.failed = true
			r.failed(l.Server, err)
		}
		r.records.Sample(record.Sample{Series: l.bytes, At: at, Value: float64(l.read)})
	}
	for _, key := range r.tally.Take() {
		r.writeLocked(key, at)
	}
	r.records.Sample(record.Sample{Series: r.bad, At: at, Value: float64(r.tally.Unreadable)})
	r.last = at
}

// writeLocked writes the counts of a key. Those of a new one were 0 when the logs were read
// last.
func (r *Reader) writeLocked(key Key, at clock.Time) {
	s, known := r.ids[key]
	if !known {
		s = r.defineLocked(key)
		r.ids[key] = s
		if r.last > 0 {
			r.sampleLocked(key, s, r.last, Count{})
		}
	}
	r.sampleLocked(key, s, at, r.tally.Count(key))
}

func (r *Reader) sampleLocked(key Key, s ids, at clock.Time, c Count) {
	r.records.Sample(record.Sample{Series: s.number, At: at, Value: float64(c.Number)})
	if key.Stage == Ended && !isOpenEnded(key.Request.Verb) {
		r.records.Sample(record.Sample{Series: s.seconds, At: at, Value: c.Time.Seconds()})
	}
}

func (r *Reader) defineLocked(key Key) (s ids) {
	labels := key.labels()
	define := func(name string) record.SeriesID {
		return r.records.Series(record.Series{Target: usage.Self, Name: name, Labels: labels})
	}
	if key.Stage == Started {
		return ids{number: define(facts.ClientWatches)}
	}
	s = ids{number: define(facts.ClientRequests)}
	if !isOpenEnded(key.Request.Verb) {
		s.seconds = define(facts.ClientSeconds)
	}
	return s
}

// labels are the labels of a key's series, sorted by name; empty ones are left out.
func (k Key) labels() []record.Label {
	code := ""
	if k.Request.Code > 0 {
		code = strconv.Itoa(k.Request.Code)
	}
	var out []record.Label
	for _, l := range []record.Label{
		{Name: "client", Value: k.Client.Name}, {Name: "code", Value: code}, {Name: "resource", Value: k.Request.Resource},
		{Name: "subresource", Value: k.Request.Subresource}, {Name: "user", Value: k.Client.User}, {Name: "verb", Value: k.Request.Verb},
		{Name: "version", Value: k.Client.Version},
	} {
		if l.Value != "" {
			out = append(out, l)
		}
	}
	return out
}

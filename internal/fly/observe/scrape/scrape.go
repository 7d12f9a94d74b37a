// Package scrape reads the /metrics of components into the record stream.
//
// It keeps every family unless told which (Options), native histograms where
// they are offered, writes a value only when it changed, and marks every
// scrape, so that a reader knows what was looked at and when. It judges
// nothing; package flight starts it.
package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/sli"
)

// Defaults of Options.
const (
	DefaultEvery   = 5 * time.Second
	DefaultTimeout = 10 * time.Second
)

// Target is a component that serves metrics.
type Target struct {
	Name   string // the component's name; it becomes Series.Target
	URL    string // such as https://127.0.0.1:6443/metrics
	Client *http.Client
	// Process takes the CPU and memory that the target reports of its own
	// process. It is for targets elsewhere: those of this machine are measured
	// by package usage, under the same names.
	Process bool
	// Cluster is the member that the target is of, which its series then have as
	// the label cluster; empty: the plane.
	Cluster string
}

// Options configure a scraper.
type Options struct {
	Every   time.Duration // default DefaultEvery
	Timeout time.Duration // of one scrape, default DefaultTimeout
	// Keep and Drop name the families that are kept and those that are not: a
	// name that ends in * stands for all that begin so. Without Keep all are
	// kept; Drop wins.
	Keep, Drop []string
	Most       int // series that one target may serve in all, default series.MaxPoints; one that serves more is read no more
}

// Scraper reads targets. Its methods may be called from several goroutines.
type Scraper struct {
	records *record.Writer
	clock   clock.Clock
	options Options
	states  []*state
}

// state is one target and what is known of its metrics.
type state struct {
	Target
	mu      sync.Mutex // one scrape at a time
	tracker *series.Tracker
	ids     []record.SeriesID // by the tracker's index
	bodies  [2][]byte         // of this scrape and of the one before
	delta   series.Delta
	scrape  record.Scrape
}

// New returns a scraper of some targets that writes to w with times of c.
func New(w *record.Writer, c clock.Clock, targets []Target, o Options) *Scraper {
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Most <= 0 {
		o.Most = series.MaxPoints
	}
	s := &Scraper{records: w, clock: c, options: o}
	for _, t := range targets {
		tracker := series.NewTracker(newAcceptor(o, t.Process))
		tracker.Limit(o.Most)
		s.states = append(s.states, &state{Target: t, tracker: tracker})
	}
	return s
}

// Run scrapes every target at once and then at the interval, each in its own
// time, until ctx is done. A target that cannot be read is marked and tried
// again.
func (s *Scraper) Run(ctx context.Context) {
	var wait guard.Group
	for _, t := range s.states {
		wait.Go(func() { s.scrapePeriodically(ctx, t) })
	}
	wait.Wait()
}

func (s *Scraper) scrapePeriodically(ctx context.Context, t *state) {
	tick := time.NewTicker(s.options.Every)
	defer tick.Stop()
	for {
		s.scrapeTarget(ctx, t)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Scrape scrapes every target now, all at once, and returns when each has been
// read or has failed: what stands before it in time is then in the records.
func (s *Scraper) Scrape(ctx context.Context) {
	var wait guard.Group
	for _, t := range s.states {
		wait.Go(func() { s.scrapeTarget(ctx, t) })
	}
	wait.Wait()
}

// scrapeTarget scrapes one target and marks how it went.
func (s *Scraper) scrapeTarget(ctx context.Context, t *state) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	at := s.clock.Now()
	if t.tracker == nil {
		return // it is cut
	}
	err := s.readTarget(ctx, t, at)
	if err != nil && ctx.Err() != nil {
		return // the end of the run is not the target's fault
	}
	if errors.Is(err, series.ErrTooMany) {
		t.dropTarget()
		s.records.Event(record.Event{At: at, Type: record.EventCut, Name: t.Name, Text: err.Error(), Detail: record.Detail{Count: s.options.Most}})
		return
	}
	if err != nil {
		s.records.Event(record.Event{At: at, Type: record.EventScrapeFailed, Name: t.Name, Text: err.Error()})
		return
	}
	s.records.Event(record.Event{At: at, Type: record.EventScraped, Name: t.Name})
}

// dropTarget lets go of a target that has served too many series: a label for each request is
// the target's fault, and must not end the run by our memory.
func (t *state) dropTarget() {
	t.tracker, t.ids, t.bodies, t.delta, t.scrape = nil, nil, [2][]byte{}, series.Delta{}, record.Scrape{}
}

// readTarget writes what changed since the last scrape, with the time at which the
// request was sent: the values are those of then or a little later.
func (s *Scraper) readTarget(ctx context.Context, t *state, at clock.Time) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	format, err := t.fetchExposition(ctx)
	if err != nil {
		return fmt.Errorf("scrape %s: %w", t.Name, err)
	}
	took := s.clock.Now().Sub(at)
	if err := t.tracker.Update(format, t.bodies[0], &t.delta); err != nil {
		return fmt.Errorf("scrape %s: %w", t.Name, err)
	}
	t.bodies[0], t.bodies[1] = t.bodies[1], t.bodies[0]
	s.writeScrape(t, at, took)
	return nil
}

// writeScrape writes a scrape: first what is new, then what changed.
func (s *Scraper) writeScrape(t *state, at clock.Time, took time.Duration) {
	for _, f := range t.delta.Families {
		s.records.Family(f)
	}
	for _, p := range t.delta.New {
		t.ids = append(t.ids, s.records.Define(record.Series{Target: t.Name, Name: p.Name, Labels: t.withCluster(p.Labels)}))
	}
	out := &t.scrape
	*out = record.Scrape{Target: t.Name, At: at, Took: took, Points: t.delta.Points,
		Values: out.Values[:0], Histograms: out.Histograms[:0], Gone: out.Gone[:0]}
	for _, c := range t.delta.Changed {
		out.Values = append(out.Values, record.Value{Series: t.ids[c.Index], Value: c.Value})
	}
	for _, h := range t.delta.Histograms {
		out.Histograms = append(out.Histograms, record.HistogramValue{Series: t.ids[h.Index], Value: h.Value})
	}
	for _, i := range t.delta.Gone {
		out.Gone = append(out.Gone, t.ids[i])
	}
	s.records.Scrape(out)
}

// withCluster adds the target's cluster to those of a series, whose own label of that name
// becomes exported_cluster, as Prometheus has it.
func (t *state) withCluster(own []record.Label) []record.Label {
	if t.Cluster == "" {
		return own
	}
	out := append(make([]record.Label, 0, len(own)+1), own...)
	for i := range out {
		if out[i].Name == sli.Cluster {
			out[i].Name = "exported_" + sli.Cluster
		}
	}
	out = append(out, record.Label{Name: sli.Cluster, Value: t.Cluster})
	slices.SortFunc(out, func(a, b record.Label) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// fetchExposition reads the target's exposition. It asks for no compression: on one
// machine compressing costs the target more CPU than sending.
func (t *state) fetchExposition(ctx context.Context) (series.Format, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.URL, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", series.Accept)
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := t.Client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return 0, fmt.Errorf("%s: %.200s", resp.Status, text)
	}
	format, err := series.FormatOf(resp.Header.Get("Content-Type"))
	if err != nil {
		return 0, err
	}
	t.bodies[0], err = series.ReadAll(resp.Body, t.bodies[0], series.MaxExposition)
	return format, err
}

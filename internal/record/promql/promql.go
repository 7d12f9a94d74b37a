// Package promql answers PromQL over the samples of one run, with Prometheus'
// own engine. It is the only door to github.com/prometheus/prometheus.
//
// The samples are those of a series.Store, seen as a server that scraped the
// run's components would hold them: one for each scrape, stale where a series
// ended, with the labels job and instance. Times are those of the run's clock;
// an epoch puts them on the wall's.
//
// It reads no files and serves nothing: package slo judges by its answers,
// package query (internal/opinion/report/live/query) serves them.
package promql

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	engine "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

// Defaults of Options. Lookback is Prometheus' own.
const (
	DefaultLookback   = 5 * time.Minute
	DefaultInterval   = 5 * time.Second
	DefaultTimeout    = time.Minute
	DefaultMaxSamples = 20_000_000
)

// Options configure a DB.
type Options struct {
	// Epoch is the wall time of the run clock's zero: the manifest's Started.
	Epoch      time.Time
	Lookback   time.Duration // how long a value holds that nothing came after; default DefaultLookback
	Interval   time.Duration // between the steps of a subquery that names none; default DefaultInterval
	Timeout    time.Duration // of one query; default DefaultTimeout
	MaxSamples int           // that one query may hold in memory; default DefaultMaxSamples
	// Labels are those that series get beside their own; default series.Plain.
	Labels series.Labelling
}

// Default returns the options in force where nothing else is said.
func Default(epoch time.Time) Options {
	return Options{Epoch: epoch, Lookback: DefaultLookback, Interval: DefaultInterval, Timeout: DefaultTimeout,
		MaxSamples: DefaultMaxSamples, Labels: series.Plain}
}

// Validate says which options make no sense.
func (o Options) Validate() error {
	var faults []error
	for name, v := range map[string]time.Duration{"lookback": o.Lookback, "interval": o.Interval, "timeout": o.Timeout} {
		if v <= 0 {
			faults = append(faults, fmt.Errorf("%s %v: must be more than 0", name, v))
		}
	}
	if o.MaxSamples <= 0 {
		faults = append(faults, fmt.Errorf("max samples %d: must be more than 0", o.MaxSamples))
	}
	if o.Labels == nil {
		faults = append(faults, errors.New("labels: there must be a labelling"))
	}
	if o.Epoch.IsZero() {
		faults = append(faults, errors.New("epoch: must be the time at which the run began"))
	}
	return errors.Join(faults...)
}

// DB answers queries over a store. Its methods may be called from several
// goroutines.
type DB struct {
	mu      sync.RWMutex
	store   *series.Store
	epoch   time.Time
	engine  *engine.Engine
	parser  parser.Parser
	options Options
}

// Open returns a DB over a store, which from here on is changed by Update only.
func Open(store *series.Store, o Options) (*DB, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("open promql: %w", err)
	}
	p := parser.NewParser(parser.Options{})
	return &DB{
		store: store, epoch: o.Epoch, parser: p, options: o,
		engine: engine.NewEngine(engine.EngineOpts{
			MaxSamples: o.MaxSamples, Timeout: o.Timeout, LookbackDelta: o.Lookback, Parser: p,
			NoStepSubqueryIntervalFn: func(int64) int64 { return o.Interval.Milliseconds() },
			EnableAtModifier:         true, EnableNegativeOffset: true,
		}),
	}, nil
}

// Update lets f fill the store, as the records of a live run come in: it reads
// the stream on, with the store's Visitor. No query is answered meanwhile.
func (d *DB) Update(f func(*series.Store)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d.store)
}

// Wall returns the wall time of a moment of the run.
func (d *DB) Wall(t clock.Time) time.Time { return d.epoch.Add(time.Duration(t)).UTC() }

// Moment returns the moment of the run that a wall time is.
func (d *DB) Moment(wall time.Time) clock.Time { return clock.Time(wall.Sub(d.epoch)) }

// Span returns the times of the first and the last sample; false where there
// is none.
func (d *DB) Span() (first, last clock.Time, any bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.store.Span()
}

// Instant evaluates an expression at one moment. The error of a faulty
// expression is an *ExprError; others are ErrTimeout and ErrTooMuch.
func (d *DB) Instant(ctx context.Context, expr string, at clock.Time) (Result, error) {
	return d.runQuery(ctx, expr, func() (engine.Query, error) {
		return d.engine.NewInstantQuery(ctx, storage.QueryableFunc(d.newQuerier), nil, expr, d.Wall(at))
	})
}

// Range evaluates an expression at from, from+step ... until to; its errors are
// those of Instant.
func (d *DB) Range(ctx context.Context, expr string, from, to clock.Time, step time.Duration) (Result, error) {
	if step < time.Millisecond {
		return Result{}, fmt.Errorf("evaluate %q: step %v: must be at least 1ms", expr, step)
	}
	if to < from {
		return Result{}, fmt.Errorf("evaluate %q: the end is before the begin", expr)
	}
	return d.runQuery(ctx, expr, func() (engine.Query, error) {
		return d.engine.NewRangeQuery(ctx, storage.QueryableFunc(d.newQuerier), nil, expr, d.Wall(from), d.Wall(to), step)
	})
}

// runQuery evaluates a query while the store stands still.
func (d *DB) runQuery(ctx context.Context, expr string, begin func() (engine.Query, error)) (Result, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	q, err := begin()
	if err != nil {
		return Result{}, exprError(expr, err)
	}
	defer q.Close()
	r := q.Exec(ctx)
	if r.Err != nil {
		return Result{}, evalError(expr, r.Err)
	}
	return d.toResult(expr, r)
}

// Check says what is wrong with an expression without evaluating it: that it cannot be
// read, or that its answer is no value at one moment. Its error is an *ExprError.
func Check(expr string) error {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return exprError(expr, err)
	}
	switch parsed.Type() {
	case parser.ValueTypeMatrix:
		return &ExprError{Expr: expr, Err: errors.New("the answer is values over a time, not one value for each series: a function such as rate or max_over_time makes one of them")}
	case parser.ValueTypeString:
		return &ExprError{Expr: expr, Err: errors.New("the answer is a text, not a number")}
	}
	return nil
}

// EngineVersion is the version of Prometheus that the engine is of. Its module
// counts differently: v0.311.3 is 3.11.3.
const EngineVersion = "3.11.3"

// ParseDuration reads a duration as PromQL writes it: 1m30s, 5d.
func ParseDuration(text string) (time.Duration, error) {
	d, err := model.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("duration %q: %w", text, err)
	}
	return time.Duration(d), nil
}

// OptionsOf says by which labels the series of a run are known.
func OptionsOf(m record.Manifest) Options {
	o := Default(m.Started)
	if m.Imported == "kube-burner" {
		o.Labels = series.OpenShift // what its profiles ask for
	}
	return o
}

// OpenRun opens the series of the run directory at path.
func OpenRun(path string) (*DB, error) {
	dir, manifest, err := record.OpenDir(path)
	if err != nil {
		return nil, err
	}
	store, err := series.Read(dir.File(record.StreamFile))
	if err != nil {
		return nil, err
	}
	return Open(store, OptionsOf(manifest))
}

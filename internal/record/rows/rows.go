// Package rows lays the records of a run out as tables for other people's tools:
// a row for each record, texts in place of numbers that refer to definitions. It
// knows the columns and the CSV form; package parquet writes the same rows in
// columns.
//
// It computes nothing: no latency, no rate, no verdict. Rows stream through
// it, so that a run of any length needs little memory.
package rows

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
)

// Sink takes the rows of one table. It keeps none of a slice once Write has
// returned.
type Sink[T any] interface {
	Write([]T) (int, error)
	Close() error
}

// Sinks say where the rows of each table go. All must be there.
type Sinks struct {
	Calls      Sink[Call]
	Lifecycles Sink[Phase]
	Samples    Sink[Sample]
	Histograms Sink[Histogram]
	Scrapes    Sink[Scrape]
	Events     Sink[Event]
}

// Tables are the names of the tables, in the order of Sinks.
func Tables() []string {
	return []string{"calls", "lifecycles", "samples", "histograms", "scrapes", "events"}
}

// Fill reads the record stream at path, hands every record to the sink of its
// table in the order in which it was written, and closes the sinks. It returns
// how many rows each table got, by its name. A stream that a crash cut off is
// not an error: what is there is written. Where several workers shared the load, their
// calls follow, at the times of the run; workers is 0 where one process sent it.
func Fill(path string, workers int, to Sinks) (map[string]int, error) {
	f := newFiller(to)
	clocks := make([]record.Readings, min(workers, record.MaxWorkers))
	_, err := record.Read(path, func(s *record.Stream) record.Visitor {
		f.stream = s
		return record.Visitor{
			Call: f.fillCall, Phase: f.fillPhase, Sample: f.fillSample, Gone: f.fillGone,
			Histogram: f.fillHistogram, Scrape: f.fillScrape, Event: func(e record.Event) {
				if e.Type == record.EventWorkerClock && e.Worker >= 0 && e.Worker < len(clocks) {
					clocks[e.Worker].Add(e)
				}
				f.fillEvent(e)
			},
		}
	})
	for i := 0; i < len(clocks) && err == nil; i++ {
		_, err = record.Dir(filepath.Dir(path)).ReadStream(record.WorkerFile(i), func(s *record.Stream) record.Visitor {
			f.stream = s
			return record.Visitor{Call: func(c record.Call) { f.fillCall(clocks[i].Move(c)) }}
		})
		if record.NoStream(err) {
			err = nil // it never brought any
		}
	}
	count := map[string]int{}
	faults := []error{err}
	for i, t := range []ender{f.calls, f.lifecycles, f.samples, f.histograms, f.scrapes, f.events} {
		n, err := t.closeBatch()
		count[Tables()[i]] = n
		faults = append(faults, err)
	}
	return count, errors.Join(faults...)
}

// batchRows is how many rows are handed over at a time.
const batchRows = 512

// batch collects rows of one table for its sink.
type batch[T any] struct {
	to   Sink[T]
	rows []T
	n    int
	err  error // the first one; rows after it are dropped
}

func newBatch[T any](to Sink[T]) *batch[T] {
	return &batch[T]{to: to, rows: make([]T, 0, batchRows)}
}

func (b *batch[T]) addRow(row T) {
	b.rows = append(b.rows, row)
	if len(b.rows) == batchRows {
		b.flushRows()
	}
}

func (b *batch[T]) flushRows() {
	if b.err == nil && len(b.rows) > 0 {
		_, b.err = b.to.Write(b.rows)
		b.n += len(b.rows)
	}
	clear(b.rows)
	b.rows = b.rows[:0]
}

// ender is a batch of any table.
type ender interface{ closeBatch() (int, error) }

func (b *batch[T]) closeBatch() (int, error) {
	b.flushRows()
	return b.n, errors.Join(b.err, b.to.Close())
}

// filler turns records into rows.
type filler struct {
	stream     *record.Stream
	calls      *batch[Call]
	lifecycles *batch[Phase]
	samples    *batch[Sample]
	histograms *batch[Histogram]
	scrapes    *batch[Scrape]
	events     *batch[Event]
	labels     []string // by SeriesID, as JSON
}

func newFiller(to Sinks) *filler {
	return &filler{
		calls: newBatch(to.Calls), lifecycles: newBatch(to.Lifecycles), samples: newBatch(to.Samples),
		histograms: newBatch(to.Histograms), scrapes: newBatch(to.Scrapes), events: newBatch(to.Events),
	}
}

func (f *filler) fillCall(c record.Call) {
	op := &f.stream.Ops[c.Op]
	again := int32(0)
	if c.Again {
		again = 1
	}
	f.calls.addRow(Call{
		Due: int64(c.Due), Sent: int64(c.Sent), Done: int64(c.Done),
		Source: op.Source, Step: op.Step, Verb: op.Verb, Resource: op.Resource, Subresource: op.Subresource, Scope: op.Scope, Cluster: op.Cluster, Connection: op.Connection, Clients: op.Clients, Throttled: int64(c.Throttled),
		Outcome: c.Outcome.String(), Code: int32(c.Code), Again: again, Attempt: int32(c.Attempt), RetryAfter: int64(c.RetryAfter / time.Second),
		SentBytes: int64(c.SentBytes), Received: int64(c.ReceivedBytes),
	})
}

func (f *filler) fillPhase(p record.Phase) {
	o := &f.stream.Objects[p.Object]
	row := Phase{
		Object: int64(p.Object), Resource: o.Resource, Namespace: o.Namespace, Name: o.Name, UID: o.UID, Group: o.Group, Lifecycle: o.Lifecycle, Cluster: o.Cluster,
		Phase: p.Phase, At: int64(p.At),
	}
	if p.Within != record.Ever {
		row.Within = (*int64)(&p.Within)
	}
	f.lifecycles.addRow(row)
}

func (f *filler) fillSample(s record.Sample) {
	f.samples.addRow(f.nameSeries(s.Series, Sample{At: int64(s.At), Value: &s.Value}))
}

func (f *filler) fillGone(g record.Gone) {
	f.samples.addRow(f.nameSeries(g.Series, Sample{At: int64(g.At)}))
}

// nameSeries names the series of a sample.
func (f *filler) nameSeries(id record.SeriesID, s Sample) Sample {
	series := &f.stream.Series[id]
	s.Series, s.Target, s.Name, s.Labels = int64(id), series.Target, series.Name, f.labelsOf(id)
	return s
}

func (f *filler) fillHistogram(h record.HistogramSample) {
	named, v := f.nameSeries(h.Series, Sample{}), h.Value
	row := Histogram{
		Series: named.Series, Target: named.Target, Name: named.Name, Labels: named.Labels, At: int64(h.At),
		Count: int64(v.Count), Sum: v.Sum, Schema: v.Schema, ZeroThreshold: v.ZeroThreshold, ZeroCount: int64(v.ZeroCount),
	}
	row.PositiveIndex, row.PositiveCount = bucketColumns(v.Positive)
	row.NegativeIndex, row.NegativeCount = bucketColumns(v.Negative)
	f.histograms.addRow(row)
}

func bucketColumns(all []record.Bucket) (index []int32, count []int64) {
	for _, b := range all {
		if b.Count > 0 {
			index, count = append(index, b.Index), append(count, int64(b.Count))
		}
	}
	return index, count
}

func (f *filler) fillScrape(s record.Scrape) {
	f.scrapes.addRow(Scrape{Target: s.Target, At: int64(s.At), Took: int64(s.Took), Points: int64(s.Points)})
}

func (f *filler) fillEvent(e record.Event) {
	row := Event{
		At: int64(e.At), Type: string(e.Type), Name: e.Name, Text: e.Text,
		Reason: string(e.Reason), Step: e.Step, Count: int64(e.Count), Rate: e.Rate, Parallel: int64(e.Parallel), For: int64(e.For),
	}
	if x := e.Failure; x != nil {
		row.Verb, row.Resource, row.Subresource, row.Object = x.Verb, x.Resource, x.Subresource, x.Object
		row.Code, row.StatusReason, row.Count, row.Retried = int32(x.Code), x.Reason, int64(x.Count), int64(x.Retried)
	}
	f.events.addRow(row)
}

// labelsOf writes the labels of a series as JSON, once.
func (f *filler) labelsOf(id record.SeriesID) string {
	for n := len(f.labels); n <= int(id); n++ {
		f.labels = append(f.labels, labelsJSON(f.stream.Series[n].Labels))
	}
	return f.labels[id]
}

func labelsJSON(labels []record.Label) string {
	if len(labels) == 0 {
		return ""
	}
	all := make(map[string]string, len(labels))
	for _, l := range labels {
		all[l.Name] = l.Value
	}
	raw, err := json.Marshal(all)
	if err != nil {
		panic(err) // texts can always be encoded
	}
	return string(raw)
}

package reporttest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/recordtest"
)

func streamOf(blocks ...*recordtest.Block) func(record.Dir, string) error {
	return func(dir record.Dir, _ string) error {
		return writeFile(dir, record.StreamFile, recordtest.Stream(blocks...))
	}
}

// runOf is a block with the begin of a run and its end, and something between.
func runOf(between func(b *recordtest.Block)) *recordtest.Block {
	b := &recordtest.Block{}
	b.Event(0, "run-begin", "x", "").Event(1000, "step-begin", "fill", "")
	between(b)
	return b.Event(1e9, "step-end", "fill", "").Kind(recordtest.Event).Int(1000).Text("run-end", "", "", `{"reason":"done"}`)
}

// massOf is a run of which something is there n times.
func massOf(n int, one func(b *recordtest.Block, i int)) func(record.Dir, string) error {
	return streamOf(runOf(func(b *recordtest.Block) {
		for i := range n {
			one(b, i)
		}
	}))
}

// opOf defines an operation of step fill, of a verb.
func opOf(b *recordtest.Block, verb string) *recordtest.Block {
	return b.Kind(recordtest.Op).Text("load", "fill", verb, "pods", "", "resource")
}

// callOf is a call of an operation, at these differences of time.
func callOf(b *recordtest.Block, op int, due, sent, done int64) *recordtest.Block {
	return b.Kind(recordtest.Call).Uint(uint64(op)).Int(due, sent, done).Uint(201<<2, 0, 0, 0)
}

const year = int64(366 * 24 * time.Hour)

// evilTimes are records whose times are of no run.
func evilTimes() (out []Hostile) {
	for _, c := range []struct {
		name            string
		due, sent, done int64
	}{
		{"a call of 285 years", 0, 0, 9e18},
		{"a call at the end of time", math.MaxInt64, 0, 0},
		{"a call before all time", math.MinInt64, 0, 0},
		{"a call sent at the end of time", 1000, math.MaxInt64, math.MinInt64},
		{"a call beyond a year", year + 1, 0, 0},
	} {
		out = append(out, Hostile{Name: c.name, Make: streamOf(runOf(func(b *recordtest.Block) { callOf(opOf(b, "create"), 0, c.due, c.sent, c.done) }))})
	}
	return append(out,
		Hostile{Name: "calls of half a year", Judged: true, Make: streamOf(runOf(func(b *recordtest.Block) {
			opOf(b, "create")
			for range 3000 {
				callOf(b, 0, 0, 0, year/2)
			}
		}))},
		Hostile{Name: "a run that ends in a year", Judged: true, Make: streamOf(runOf(func(b *recordtest.Block) { b.Event(year-int64(2*time.Second), "step-begin", "rest", "") }))},
		Hostile{Name: "phases of two ages", Make: streamOf(runOf(func(b *recordtest.Block) {
			b.Kind(recordtest.Object).Text("pods", "", "p", "", "fill")
			b.Kind(recordtest.Phase).Uint(0).Text("created").Int(math.MinInt64 + 5).Kind(recordtest.Phase).Uint(0).Text("bound").Int(math.MaxInt64)
		}))},
		Hostile{Name: "a phase within 290 years", Make: streamOf(runOf(func(b *recordtest.Block) {
			b.Kind(recordtest.Object).Text("pods", "", "p", "", "fill").Kind(recordtest.Within).Uint(0).Text("created").Int(5).Uint(math.MaxInt64 - 1)
		}))},
		Hostile{Name: "an event for 290 years", Make: streamOf(runOf(func(b *recordtest.Block) {
			b.Kind(recordtest.Event).Int(5).Text("watch-gap", "pods", "", `{"for_ns":9223372036854775807}`)
		}))})
}

// evilMasses are records of which few bytes ask for much memory or many steps.
func evilMasses() []Hostile {
	return []Hostile{
		{Name: "objects of six bytes", Heavy: true, Make: massOf(2_100_000, func(b *recordtest.Block, _ int) { b.Kind(recordtest.Object).Text("", "", "", "", "") })},
		{Name: "kinds of calls", Heavy: true, Make: massOf(60_000, func(b *recordtest.Block, i int) {
			callOf(b.Kind(recordtest.Op).Text("load", fmt.Sprint(i), "get", "p", "", ""), i, int64(i%500)*2e9, 0, 0)
		})},
		{Name: "late calls of many kinds", Heavy: true, Make: massOf(10_000, func(b *recordtest.Block, i int) {
			callOf(opOf(b, fmt.Sprint(i)), i, int64(239*time.Second)*int64(1-i%2*2), 0, 0)
		})},
		{Name: "phases", Make: massOf(1_000, func(b *recordtest.Block, i int) {
			if i == 0 {
				b.Kind(recordtest.Object).Text("pods", "", "p", "", "fill")
			}
			b.Kind(recordtest.Phase).Uint(0).Text(fmt.Sprint(i)).Int(1)
		})},
		{Name: "groups", Heavy: true, Make: massOf(50_000, func(b *recordtest.Block, i int) {
			b.Kind(recordtest.Object).Text("pods", "", "p", "", fmt.Sprint(i)).Kind(recordtest.Phase).Uint(uint64(i)).Text("created").Int(1)
		})},
		{Name: "steps", Heavy: true, Judged: true, Make: massOf(20_000, func(b *recordtest.Block, i int) { b.Event(1000, "step-begin", fmt.Sprint(i), "") })},
		{Name: "begins", Judged: true, Make: massOf(10_000, func(b *recordtest.Block, _ int) { b.Event(10, "run-begin", "x", "") })},
		{Name: "ways to fail", Heavy: true, Judged: true, Make: massOf(20_000, func(b *recordtest.Block, i int) {
			b.Kind(recordtest.Event).Int(10).Text("calls-failed", "fill", "m", fmt.Sprintf(`{"failure":{"verb":"get","resource":"r%d","code":500,"count":1}}`, i))
		})},
		{Name: "events of tomorrow", Heavy: true, Judged: true, Make: massOf(2_000, func(b *recordtest.Block, i int) { b.Event(10, fmt.Sprint("later-", i), "", "") })},
		{Name: "labels", Make: seriesOf(func(b *recordtest.Block) { b.Kind(recordtest.SeriesRef).Uint(1<<40, 0, 1) })},
		{Name: "a text that many series share", Make: seriesOf(func(b *recordtest.Block) {
			b.Kind(recordtest.Text).Text(strings.Repeat("x", 1<<20))
			for range 100_000 {
				b.Kind(recordtest.SeriesRef).Uint(1, 0, 1, 1, 2)
			}
		})},
		{Name: "a schema that there is not", Make: scrapedHistogram(math.MaxInt32, 1)},
		{Name: "a schema below all", Make: scrapedHistogram(math.MinInt32, 1)},
		{Name: "buckets", Make: scrapedHistogram(3, 1<<40)},
		{Name: "values of a scrape", Make: seriesOf(func(b *recordtest.Block) {
			b.Kind(recordtest.SeriesRef).Uint(0, 0, 1).Kind(recordtest.Scrape).Uint(0).Int(5, 5).Uint(1, 1<<60, 0)
		})},
	}
}

// seriesOf has a target, which is text 0, and a name, which is text 1, before what
// else there is.
func seriesOf(more func(b *recordtest.Block)) func(record.Dir, string) error {
	return streamOf(runOf(func(b *recordtest.Block) {
		b.Kind(recordtest.Text).Text("etcd").Kind(recordtest.Text).Text("m")
		more(b)
	}))
}

// scrapedHistogram is a native histogram.
func scrapedHistogram(schema int64, buckets uint64) func(record.Dir, string) error {
	return seriesOf(func(b *recordtest.Block) {
		b.Kind(recordtest.SeriesRef).Uint(0, 0, 1).Kind(recordtest.Scrape).Uint(0).Int(5, 5).Uint(1, 0, 1, 0)
		b.Kind(0).Int(schema).Float(0).Uint(1, 0).Float(1).Uint(buckets).Int(1).Uint(1).Uint(0).Uint(0)
	})
}

package parquet_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	library "github.com/parquet-go/parquet-go"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/interop/parquet"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/rows"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// flown writes a run directory with n calls and phases and records of all other kinds.
func flown(t testing.TB, n int) string {
	t.Helper()
	dir := repotest.Must(record.CreateDir(filepath.Join(t.TempDir(), "run")))(t)
	m := record.Manifest{Format: record.Format, Scenario: "small", Started: time.Date(2026, 5, 1, 12, 0, 0, 7, time.UTC)}
	repotest.NoError(t, dir.WriteJSON(record.ManifestFile, m))
	w := repotest.Must(record.Create(dir.File(record.StreamFile)))(t)
	ops := []record.OpID{
		w.Op(record.Op{Source: "load", Step: "fill", Verb: "create", Resource: "pods", Scope: "resource"}),
		w.Op(record.Op{Source: "observe", Verb: "list", Resource: "nodes", Scope: "cluster"}),
	}
	for i := range n {
		due := clock.Time(i) * 1_000_003
		w.Call(record.Call{Op: ops[i%2], Due: due, Sent: due + clock.Time(i%977), Done: due + clock.Time(5_000_000+i%1009), Code: uint16(i % 2 * 200),
			Outcome: record.Outcome(i % 3), Attempt: uint8(i % 4), RetryAfter: time.Duration(i%3) * time.Second, SentBytes: uint32(i), ReceivedBytes: 900})
	}
	for i := range n / 10 {
		id := w.Object(record.Object{Resource: "pods", Namespace: "n", Name: "p-" + strconv.Itoa(i), UID: strconv.Itoa(i * i), Group: "g"})
		w.Phase(record.Phase{Object: id, Phase: "created", At: clock.Time(i), Within: []time.Duration{0, 7, record.Ever}[i%3]})
	}
	code := w.Series(record.Series{Target: "kube-apiserver", Name: "requests", Labels: []record.Label{{Name: "code", Value: "200"}}})
	native := w.Series(record.Series{Target: "kube-apiserver", Name: "latency"})
	h := &record.Histogram{Schema: 3, Count: 3, Sum: 2.5, Positive: []record.Bucket{{Index: -2, Count: 1}, {Index: 5, Count: 2}}}
	w.Scrape(&record.Scrape{Target: "kube-apiserver", At: 30, Took: 4, Points: 2, Values: []record.Value{{Series: code, Value: 0}},
		Histograms: []record.HistogramValue{{Series: native, Value: h}}})
	w.Scrape(&record.Scrape{Target: "kube-apiserver", At: 40, Took: 5, Gone: []record.SeriesID{code}})
	w.Event(record.Event{At: 50, Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Broken, Step: "fill", Count: 7, Rate: 2.5, Parallel: 3, For: 4}})
	repotest.NoError(t, w.Close())
	return string(dir)
}

// read returns all rows of a table and its file's metadata.
func read[T any](t *testing.T, folder, name string) ([]T, *library.File) {
	t.Helper()
	path := filepath.Join(folder, name+".parquet")
	all, err := library.ReadFile[T](path)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	file := repotest.Must(os.Open(path))(t)
	t.Cleanup(func() { _ = file.Close() })
	info := repotest.Must(file.Stat())(t)
	opened := repotest.Must(library.OpenFile(file, info.Size()))(t)
	return all, opened
}

// kept collects rows in memory.
type kept[T any] struct{ rows *[]T }

func (k kept[T]) Write(rows []T) (int, error) {
	*k.rows = append(*k.rows, rows...)
	return len(rows), nil
}
func (kept[T]) Close() error { return nil }

// What is read back from the files is what the records say, row by row.
func TestRowsSurvive(t *testing.T) {
	run, folder := flown(t, 5000), t.TempDir()
	files := repotest.Must(parquet.Write(run, folder))(t)
	var calls []rows.Call
	var lives []rows.Phase
	var samples []rows.Sample
	var histograms []rows.Histogram
	var scrapes []rows.Scrape
	var events []rows.Event
	count := repotest.Must(rows.Fill(filepath.Join(run, record.StreamFile), 0, rows.Sinks{
		Calls: kept[rows.Call]{&calls}, Lifecycles: kept[rows.Phase]{&lives}, Samples: kept[rows.Sample]{&samples},
		Histograms: kept[rows.Histogram]{&histograms}, Scrapes: kept[rows.Scrape]{&scrapes}, Events: kept[rows.Event]{&events},
	}))(t)
	same(t, folder, "calls", calls)
	same(t, folder, "lifecycles", lives)
	same(t, folder, "samples", samples)
	same(t, folder, "histograms", histograms)
	same(t, folder, "scrapes", scrapes)
	same(t, folder, "events", events)
	for i, f := range files {
		name := rows.Tables()[i]
		if f.Rows != count[name] || f.Rows == 0 || f.Path != filepath.Join(folder, name+".parquet") || f.Bytes == 0 {
			t.Errorf("%s: %+v, want %d rows", name, f, count[name])
		}
	}
}

func same[T any](t *testing.T, folder, name string, want []T) {
	t.Helper()
	got, file := read[T](t, folder, name)
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", name, len(got), len(want))
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want[i]) && fmt.Sprintf("%#v", deref(got[i])) != fmt.Sprintf("%#v", deref(want[i])) {
			t.Fatalf("%s: row %d is %+v, want %+v", name, i, got[i], want[i])
		}
	}
	if at, _ := file.Lookup("windtunnel.started"); at != "2026-05-01T12:00:00.000000007Z" {
		t.Errorf("%s: started %q", name, at)
	}
	var columns []string
	for _, c := range rows.Columns[T]() {
		columns = append(columns, c.Name)
	}
	var stored []string
	for _, f := range file.Schema().Fields() {
		stored = append(stored, f.Name())
	}
	if !reflect.DeepEqual(stored, columns) {
		t.Errorf("%s: columns %v, want %v", name, stored, columns)
	}
}

// deref makes rows with empty lists and with none print alike.
func deref(row any) any {
	if h, ok := row.(rows.Histogram); ok {
		if len(h.NegativeIndex) == 0 {
			h.NegativeIndex, h.NegativeCount = nil, nil
		}
		return h
	}
	return row
}

// What is empty is null, and what is 0 is not.
func TestEmptyIsNull(t *testing.T) {
	folder := t.TempDir()
	if _, err := parquet.Write(flown(t, 20), folder); err != nil {
		t.Fatal(err)
	}
	nulls := func(name, column string, file *library.File) int64 {
		n := int64(0)
		leaf, ok := file.Schema().Lookup(column)
		if !ok {
			t.Fatalf("%s has no column %s", name, column)
		}
		for _, g := range file.Metadata().RowGroups {
			n += g.Columns[leaf.ColumnIndex].MetaData.Statistics.NullCount
		}
		return n
	}
	_, calls := read[rows.Call](t, folder, "calls")
	_, samples := read[rows.Sample](t, folder, "samples")
	_, lives := read[rows.Phase](t, folder, "lifecycles")
	for _, c := range []struct {
		name, column string
		file         *library.File
		want         int64
	}{
		{"calls", "step", calls, 10}, {"calls", "code", calls, 10}, {"calls", "retry_after_s", calls, 7}, {"calls", "attempt", calls, 0},
		{"samples", "value", samples, 1}, {"lifecycles", "within_ns", lives, 0}, {"lifecycles", "lifecycle", lives, 2},
	} {
		if got := nulls(c.name, c.column, c.file); got != c.want {
			t.Errorf("%s.%s: %d nulls, want %d", c.name, c.column, got, c.want)
		}
	}
}

func TestFaults(t *testing.T) {
	if _, err := parquet.Write(t.TempDir(), t.TempDir()); !errors.Is(err, record.ErrNotRun) {
		t.Errorf("no run: %v, want ErrNotRun", err)
	}
	run := flown(t, 10)
	repotest.NoError(t, os.Remove(filepath.Join(run, record.StreamFile)))
	folder := t.TempDir()
	if _, err := parquet.Write(run, folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no stream: %v, want ErrNotExist", err)
	}
	if left, _ := filepath.Glob(folder + "/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func BenchmarkWrite(b *testing.B) {
	const calls = 200_000
	run, folder := flown(b, calls), b.TempDir()
	for b.Loop() {
		if _, err := parquet.Write(run, folder); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(calls)*float64(b.N)/b.Elapsed().Seconds(), "calls/sec")
}

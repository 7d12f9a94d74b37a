package record_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// collected is everything that a reader saw.
type collected struct {
	calls   []record.Call
	phases  []record.Phase
	samples []record.Sample
	events  []record.Event
}

func collect(t testing.TB, path string) (*record.Stream, collected) {
	t.Helper()
	var c collected
	s := repotest.Must(record.Read(path, func(*record.Stream) record.Visitor {
		return record.Visitor{
			Call:   func(v record.Call) { c.calls = append(c.calls, v) },
			Phase:  func(v record.Phase) { c.phases = append(c.phases, v) },
			Sample: func(v record.Sample) { c.samples = append(c.samples, v) },
			Event:  func(v record.Event) { c.events = append(c.events, v) },
		}
	}))(t)
	return s, c
}

func write(t testing.TB, path string, n int) collected {
	t.Helper()
	w := repotest.Must(record.Create(path))(t)
	var c collected
	op := w.Op(record.Op{Source: "load", Step: "fill", Verb: "create", Resource: "pods", Scope: "resource"})
	series := w.Series(record.Series{Target: "etcd", Name: "cpu", Labels: []record.Label{{"a", `x"y\`}}})
	for i := range n {
		at := clock.Time(i) * clock.Time(time.Millisecond)
		call := record.Call{Op: op, Due: at, Sent: at + 1000, Done: at + 5_000_000, Code: 201,
			Outcome: record.Outcome(i % 3), RetryAfter: time.Duration(i%2) * time.Second, SentBytes: 300, ReceivedBytes: uint32(i), Attempt: uint8(i % 4), Again: i%5 == 4, Reached: i%7 == 6}
		w.Call(call)
		life := []string{"", "job"}[i%2]
		phase := record.Phase{Object: w.Object(record.Object{Resource: "pods", Namespace: "n", Name: "p", UID: "u", Group: "g", Lifecycle: life}), Phase: "running",
			At: at + 7, Within: []time.Duration{0, time.Millisecond, record.Ever}[i%3]}
		w.Phase(phase)
		sample := record.Sample{Series: series, At: at, Value: float64(i) / 2}
		w.Sample(sample)
		event := record.Event{At: at, Type: record.EventScraped, Name: "etcd", Text: "t"}
		w.Event(event)
		c.calls, c.phases = append(c.calls, call), append(c.phases, phase)
		c.samples, c.events = append(c.samples, sample), append(c.events, event)
	}
	repotest.NoError(t, w.Close())
	return c
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.wt")
	want := write(t, path, 20_000)
	stream, got := collect(t, path)
	if !reflect.DeepEqual(got, want) {
		t.Error("records differ from what was written")
	}
	if stream.CutOff || len(stream.Ops) != 1 || len(stream.Objects) != 20_000 || stream.Objects[1].Lifecycle != "job" ||
		stream.Series[0].Key() != `cpu{target="etcd",a="x\"y\\"}` {
		t.Errorf("stream = cut %v, %d ops, %d objects, %v", stream.CutOff, len(stream.Ops), len(stream.Objects), stream.Series)
	}
}

// What is in a member says so; what is on the plane is written as it was before there
// were members.
func TestMembersAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.wt")
	w := repotest.Must(record.Create(path))(t)
	op := record.Op{Source: "load", Step: "fill", Verb: "create", Resource: "pods", Scope: "resource"}
	there := op
	there.Cluster = "edge-1"
	call := record.Call{Op: w.Op(there), Due: 1, Sent: 2, Done: 3, Code: 201}
	w.Call(call)
	w.Call(record.Call{Op: w.Op(op), Due: 4, Sent: 5, Done: 6, Code: 201})
	anew, anewThere := op, there
	anew.Connection, anewThere.Connection = record.NewConnection, record.NewConnection
	byAgents, held := anewThere, record.Call{Due: 4, Sent: 9, Done: 12, Code: 201, Attempt: 1, Again: true, Throttled: 3}
	byAgents.Clients = "agents"
	for _, o := range []record.Op{anew, anewThere} {
		w.Call(record.Call{Op: w.Op(o), Due: 4, Sent: 5, Done: 6, Code: 201})
	}
	held.Op = w.Op(byAgents)
	w.Call(held)
	objects := []record.Object{
		{Resource: "pods", Name: "p", Cluster: "edge-1"}, {Resource: "jobs.batch", Name: "j", Lifecycle: "job", Cluster: "edge-2"}, {Resource: "pods", Name: "q"},
	}
	for _, o := range objects {
		w.Object(o)
	}
	repotest.NoError(t, w.Close())
	stream, got := collect(t, path)
	if !reflect.DeepEqual(stream.Ops, []record.Op{there, op, anew, anewThere, byAgents}) || !reflect.DeepEqual(stream.Objects, objects) || got.calls[0] != call || got.calls[1].Op != 1 || got.calls[4] != held || held.Lateness() != 2 {
		t.Errorf("operations %+v, objects %+v, calls %+v", stream.Ops, stream.Objects, got.calls)
	}
}

// A kill at any byte leaves a stream that can be read up to its last block.
func TestEveryCutCanBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.wt")
	want := write(t, path, 8_000)
	raw := repotest.Must(os.ReadFile(path))(t)
	cut := filepath.Join(t.TempDir(), "cut.wt")
	for _, size := range []int{len(raw) - 1, len(raw) - 7, len(raw) / 2, len(raw) / 3, 30, 22} {
		repotest.NoError(t, os.WriteFile(cut, raw[:size], 0o600))
		stream, got := collect(t, cut)
		if !reflect.DeepEqual(got.calls, want.calls[:len(got.calls)]) && len(got.calls) > 0 {
			t.Errorf("cut at %d: the calls read are not the first ones written", size)
		}
		if !stream.CutOff && size > 25 {
			t.Errorf("cut at %d: not reported as cut", size)
		}
	}
}

func TestForeignFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	repotest.NoError(t, os.WriteFile(path, []byte("something else, long enough to hold a header"), 0o600))
	_, err := record.Read(path, func(*record.Stream) record.Visitor { return record.Visitor{} })
	if !errors.Is(err, record.ErrNotRecords) {
		t.Errorf("err = %v, want ErrNotRecords", err)
	}
}

func TestFullDiskStopsTheStreamAtAWholeBlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.wt")
	w := repotest.Must(record.Create(path))(t)
	w.Event(record.Event{Type: record.EventRunBegan, Name: "a"})
	record.BreakFile(w)
	w.Event(record.Event{Type: record.EventRunEnded, Name: "b"})
	select {
	case <-w.Failed():
	case <-time.After(5 * time.Second):
		t.Fatal("the failure was not announced")
	}
	if w.Close() == nil {
		t.Error("Close hid the failure")
	}
	stream, got := collect(t, path)
	if stream.CutOff || len(got.events) != 1 {
		t.Errorf("read %d marks, cut %v; want the one before the failure, whole", len(got.events), stream.CutOff)
	}
}

func FuzzRead(f *testing.F) {
	path := filepath.Join(f.TempDir(), "r.wt")
	write(f, path, 3)
	raw := repotest.Must(os.ReadFile(path))(f)
	f.Add(raw[len("windtunnel records 1\n")+8:])
	f.Fuzz(func(t *testing.T, block []byte) { record.DecodeBlock(block) })
}

func BenchmarkCall(b *testing.B) {
	w := repotest.Must(record.Create(filepath.Join(b.TempDir(), "r.wt")))(b)
	defer w.Close()
	op := w.Op(record.Op{Source: "load", Verb: "create", Resource: "pods"})
	var i clock.Time
	for b.Loop() {
		i += 100_000
		w.Call(record.Call{Op: op, Due: i, Sent: i + 30_000, Done: i + 5_000_000, Code: 201, SentBytes: 700, ReceivedBytes: 900})
	}
	b.ReportMetric(float64(w.Size())/float64(b.N), "B/call")
}

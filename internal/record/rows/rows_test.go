package rows_test

import (
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/rows"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// flown writes a run directory with a record of every kind.
func flown(t *testing.T, calls int) string {
	t.Helper()
	dir := repotest.Must(record.CreateDir(filepath.Join(t.TempDir(), "run")))(t)
	m := record.Manifest{Format: record.Format, Scenario: "small", Started: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	repotest.NoError(t, dir.WriteJSON(record.ManifestFile, m))
	w := repotest.Must(record.Create(dir.File(record.StreamFile)))(t)
	create := w.Op(record.Op{Source: "load", Step: "fill", Verb: "create", Resource: "pods", Subresource: "binding", Scope: "resource"})
	list := w.Op(record.Op{Source: "observe", Verb: "list", Resource: "nodes", Scope: "cluster"})
	for i := range clock.Time(calls) {
		w.Call(record.Call{Op: create, Due: i * 1000, Sent: i*1000 + 7, Done: i*1000 + 5_000_000, Code: 201, SentBytes: 300, ReceivedBytes: 900})
	}
	w.Call(record.Call{Op: list, Due: 5, Sent: 6, Done: 7, Outcome: record.Unknown, Attempt: 2, RetryAfter: 3 * time.Second})
	w.Phase(record.Phase{Object: w.Object(record.Object{Resource: "pods", Namespace: "n", Name: `a "quoted", name`, UID: "u", Group: "g"}), Phase: "created", At: 11, Within: 5})
	w.Phase(record.Phase{Object: w.Object(record.Object{Resource: "nodes", Name: "x", Lifecycle: "node"}), Phase: "created", At: 12, Within: record.Ever})
	up := w.Series(record.Series{Target: "etcd", Name: "up"})
	code := w.Series(record.Series{Target: "kube-apiserver", Name: "requests", Labels: []record.Label{{Name: "code", Value: "200"}, {Name: "verb", Value: `G"T`}}})
	w.Sample(record.Sample{Series: up, At: 20, Value: 0})
	native := w.Series(record.Series{Target: "kube-apiserver", Name: "latency"})
	h := &record.Histogram{Schema: 3, ZeroThreshold: 1e-9, ZeroCount: 1, Count: 4, Sum: 2.5, Positive: []record.Bucket{{Index: -2, Count: 1}, {Index: 5, Count: 2}}}
	w.Scrape(&record.Scrape{Target: "kube-apiserver", At: 30, Took: 4, Points: 2, Values: []record.Value{{Series: code, Value: 1.5}},
		Histograms: []record.HistogramValue{{Series: native, Value: h}}})
	w.Scrape(&record.Scrape{Target: "kube-apiserver", At: 40, Took: 5, Gone: []record.SeriesID{code}})
	w.Event(record.Event{At: 50, Type: record.EventRunEnded, Text: "broken,\nand badly", Detail: record.Detail{Reason: record.Broken, Step: "fill"}})
	repotest.NoError(t, w.Close())
	return string(dir)
}

func TestCSV(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "out")
	files := repotest.Must(rows.WriteCSV(flown(t, 1), folder))(t)
	want := map[string]string{
		"calls.csv": `due_ns,sent_ns,done_ns,source,step,verb,resource,subresource,scope,outcome,code,attempt,again,retry_after_s,sent_bytes,received_bytes,cluster,connection,clients,throttled_ns
0,7,5000000,load,fill,create,pods,binding,resource,ok,201,0,0,,300,900,,,,0
5,6,7,observe,,list,nodes,,cluster,unknown,,2,0,3,0,0,,,,0
`,
		"lifecycles.csv": `object,resource,namespace,name,uid,group,lifecycle,phase,at_ns,within_ns,cluster
0,pods,n,"a ""quoted"", name",u,g,,created,11,5,
1,nodes,,x,,,node,created,12,,
`,
		"samples.csv": `series,target,name,labels,at_ns,value
0,etcd,up,,20,0
1,kube-apiserver,requests,"{""code"":""200"",""verb"":""G\""T""}",30,1.5
1,kube-apiserver,requests,"{""code"":""200"",""verb"":""G\""T""}",40,
`,
		"histograms.csv": `series,target,name,labels,at_ns,count,sum,schema,zero_threshold,zero_count,positive_index,positive_count,negative_index,negative_count
2,kube-apiserver,latency,,30,4,2.5,3,1e-09,1,-2 5,1 2,,
`,
		"scrapes.csv": "target,at_ns,took_ns,points\nkube-apiserver,30,4,2\nkube-apiserver,40,5,0\n",
		"events.csv":  "at_ns,type,name,text,reason,step,count,rate_per_s,parallel,for_ns,verb,resource,subresource,code,status_reason,object,retried\n50,run-end,,\"broken,\nand badly\",failed,fill,,,,,,,,,,,\n",
	}
	if len(files) != len(want) {
		t.Errorf("%d files, want %d: %v", len(files), len(want), files)
	}
	for _, f := range files {
		got := repotest.Must(os.ReadFile(f.Path))(t)
		name := filepath.Base(f.Path)
		if string(got) != want[name] {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want[name])
		}
		lines, err := csv.NewReader(strings.NewReader(string(got))).ReadAll()
		if err != nil || len(lines) != f.Rows+1 || f.Bytes != int64(len(got)) {
			t.Errorf("%s: %d lines, %v; told %d rows, %d bytes", name, len(lines), err, f.Rows, f.Bytes)
		}
	}
}

// More rows than are handed over at a time all arrive, in their order.
func TestBatches(t *testing.T) {
	files := repotest.Must(rows.WriteCSV(flown(t, 2000), t.TempDir()))(t)
	file := repotest.Must(os.Open(files[0].Path))(t)
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil || len(lines) != 2002 || lines[1501][1] != "1500007" {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

// A sink that fails is an error of the export, which then leaves no file.
func TestFailureLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	broken := errors.New("broken")
	_, err := rows.Export(flown(t, 2000), folder, ".csv", func(f *rows.Files) rows.Sinks {
		return rows.Sinks{
			Calls: failing[rows.Call]{broken}, Lifecycles: rows.NewCSV[rows.Phase](f.Create("lifecycles")),
			Samples: rows.NewCSV[rows.Sample](io.Discard), Histograms: rows.NewCSV[rows.Histogram](io.Discard),
			Scrapes: rows.NewCSV[rows.Scrape](io.Discard), Events: rows.NewCSV[rows.Event](io.Discard),
		}
	})
	if !errors.Is(err, broken) {
		t.Errorf("err = %v, want the sink's", err)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := rows.WriteCSV(t.TempDir(), folder); !errors.Is(err, record.ErrNotRun) {
		t.Errorf("err = %v, want ErrNotRun", err)
	}
}

type failing[T any] struct{ err error }

func (f failing[T]) Write([]T) (int, error) { return 0, f.err }
func (failing[T]) Close() error             { return nil }

func TestColumns(t *testing.T) {
	got := rows.Columns[rows.Scrape]()
	if len(got) != 4 || got[1].Name != "at_ns" || got[1].Unit != "ns" || got[1].Optional {
		t.Errorf("columns of scrapes: %+v", got)
	}
	if reflect.DeepEqual(got, rows.Columns[rows.Event]()) {
		t.Error("two tables have the same columns")
	}
}

// Calls of workers are rows, too, at the times of the run.
func TestCallsOfWorkers(t *testing.T) {
	dir := record.Dir(flown(t, 1))
	repotest.NoError(t, os.Mkdir(dir.File(record.WorkersFolder), 0o700))
	w := repotest.Must(record.Create(dir.File(record.WorkerFile(1))))(t)
	op := w.Op(record.Op{Source: "load", Step: "fill", Verb: "get", Resource: "pods", Scope: "resource"})
	w.Call(record.Call{Op: op, Due: clock.Time(time.Hour) + 1000, Sent: clock.Time(time.Hour) + 2000, Done: clock.Time(time.Hour) + 3000, Code: 200, Number: 2})
	repotest.NoError(t, w.Close())
	leader := repotest.Must(os.ReadFile(dir.File(record.StreamFile)))(t)
	more := repotest.Must(record.Create(dir.File("more.wt")))(t)
	more.Event(record.Event{At: 500, Type: record.EventWorkerClock, Detail: record.Detail{Worker: 1, Offset: -time.Hour}})
	repotest.NoError(t, more.Close())
	clocks := repotest.Must(os.ReadFile(dir.File("more.wt")))(t)
	head := len("windtunnel records 2\n")
	repotest.NoError(t, os.WriteFile(dir.File(record.StreamFile), append(leader, clocks[head:]...), 0o600))
	m := record.Manifest{Format: record.Format, Scenario: "small", Workers: &record.WorkersFact{Count: 2}}
	repotest.NoError(t, dir.WriteJSON(record.ManifestFile, m))
	folder := t.TempDir()
	if _, err := rows.WriteCSV(string(dir), folder); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(folder, "calls.csv"))
	if lines := strings.Split(strings.TrimSpace(string(raw)), "\n"); err != nil || len(lines) != 4 || !strings.HasPrefix(lines[3], "1000,2000,3000,") {
		t.Errorf("%v\n%s", err, raw)
	}
}

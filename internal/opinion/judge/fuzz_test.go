package judge_test

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/judge"
	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/recordtest"
	"github.com/windtunnel/windtunnel/internal/record/rows"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// everySLI asks for all that is judged.
const everySLI = `scenario: fuzzed
bodies: {pod: {text: "{apiVersion: v1, kind: Pod, metadata: {name: x}}"}}
steps:
- {name: g, create: {body: pod, count: 3, pace: {constant: 1000}}}
lifecycles:
- use: node
objectives:
- {slo: kubernetes}
- {sli: pod-startup, statistic: p99, max: 5}
- {sli: pod-deletion, statistic: max, max: 5}
- {sli: pods-running-rate, statistic: mean, min: 1}
- {sli: pods-bound-rate, statistic: p50, labels: {window: 1ms}, min: 1}
- {sli: call-latency, statistic: p99, per: [verb], max: 1}
- {sli: server-latency, statistic: p50, max: 1}
- {sli: api-availability, min: 0.9}
- {sli: lifecycle, labels: {lifecycle: node, phase: created..ready}, statistic: p99, max: 5}
- {name: asked, query: "max(rate(m_total[1m])) or histogram_quantile(0.9, rate(m[1m]))", max: 1}
measures:
- {name: all of it}
- {name: of g, query: "sum(m)", unit: calls}
`

// Whatever a run directory holds can be judged, drawn and exported, or is refused;
// what was not measured does not pass.
func FuzzJudge(f *testing.F) {
	d, m, err := reporttest.Write(f.TempDir(), reporttest.Shape{Pods: 8, Nodes: 2, Latency: 2, Gave: true, Machines: 2})
	repotest.NoError(f, err)
	raw := repotest.Must(os.ReadFile(d.File(record.StreamFile)))(f)
	manifest := repotest.Must(json.Marshal(m))(f)
	payload := recordtest.Payloads(raw)[0]
	f.Add(payload[:min(len(payload), 2000)], manifest, []byte(everySLI), false)
	f.Add([]byte("\x02\x03\x05\x07\x0b\x0d\x11\x13\x17\x1d\x1f\x25\x29\x2b\x2f\x35\x3b\x3d\x43\x47\x49\x4f\x53\x59\x61\x65\x67\x6b"), manifest, []byte(everySLI), true)
	for _, seed := range []uint64{1, 2, 3, 4, 5, 6} {
		var program []byte
		for i := range uint64(120) {
			program = binary.AppendUvarint(program, (i*i+seed)*0x9e3779b97f4a7c15>>(seed*8))
		}
		f.Add(program, manifest, []byte(everySLI), true)
	}
	f.Fuzz(func(t *testing.T, records, manifest, scenario []byte, program bool) {
		dir, err := record.CreateDir(filepath.Join(t.TempDir(), "run"))
		repotest.NoError(t, err)
		stream := recordtest.Append([]byte(recordtest.Header), records)
		if program {
			if stream, err = played(filepath.Join(t.TempDir(), "r.wt"), records); err != nil {
				t.Fatal(err)
			}
		}
		for name, raw := range map[string][]byte{record.StreamFile: stream, record.ManifestFile: manifest, record.ScenarioFile: scenario} {
			repotest.NoError(t, os.WriteFile(dir.File(name), raw, 0o600))
		}
		look(t, dir)
	})
}

// look has all opinions on a run directory.
func look(t *testing.T, dir record.Dir) {
	t.Helper()
	j, err := judge.Write(string(dir))
	for _, o := range j.Objectives {
		if err == nil && (o.Value == nil || o.Samples == 0) && o.Verdict == slo.Pass {
			t.Errorf("nothing was measured, but %+v", o)
		}
	}
	if built, err := judge.Shown(string(dir)); err == nil {
		_ = report.WriteMarkdown(io.Discard, built)
		_, _ = report.NewPage(built)
	}
	for _, format := range []string{"clusterloader2", "kube-burner"} {
		_, _ = judge.Export(string(dir), format, filepath.Join(t.TempDir(), format))
	}
	_, _ = rows.WriteCSV(string(dir), filepath.Join(t.TempDir(), "csv"))
}

// play writes records that a program of bytes asks for, at times of the whole range
// that a stream can hold.
type play struct {
	w    *record.Writer
	left []byte
}

func played(path string, program []byte) ([]byte, error) {
	w, err := record.Create(path)
	if err != nil {
		return nil, err
	}
	p := &play{w: w, left: program}
	for len(p.left) > 0 {
		p.step()
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func (p *play) byte() byte {
	if len(p.left) == 0 {
		return 0
	}
	b := p.left[0]
	p.left = p.left[1:]
	return b
}

// at is a moment: of a common run, of a year that a reader takes, or of none.
func (p *play) at() clock.Time {
	const year = int64(366 * 24 * time.Hour)
	a, b := p.byte(), int64(p.byte())
	switch a % 16 {
	default:
		return clock.Time((int64(a)<<8 | b) * int64(10*time.Millisecond))
	case 13:
		return clock.Time(year - b)
	case 14:
		return clock.Time(b - year)
	case 15:
		return clock.Time([]int64{math.MaxInt64, math.MinInt64, year + 1, 0}[b%4])
	}
}

func pick[T any](p *play, of ...T) T { return of[int(p.byte())%len(of)] }

func (p *play) step() {
	w := p.w
	switch p.byte() % 9 {
	case 0:
		op := w.Op(record.Op{Source: pick(p, "load", "fleet", "observe"), Step: pick(p, "g", "", "\x1b[2J"), Verb: pick(p, "create", "get", "list", "update", "delete"),
			Resource: pick(p, "pods", "leases.coordination.k8s.io", "=1+1"), Scope: pick(p, "resource", "namespace", "cluster")})
		w.Call(record.Call{Op: op, Due: p.at(), Sent: p.at(), Done: p.at(), Code: uint16(p.byte()) * 4, Outcome: record.Outcome(p.byte() % 3),
			Attempt: p.byte() % 3, Again: p.byte()%2 == 0, SentBytes: math.MaxUint32, ReceivedBytes: uint32(p.byte())})
	case 1, 2:
		o := w.Object(record.Object{Resource: pick(p, "pods", "nodes"), Name: "x", Group: pick(p, "g", "", "h"), Lifecycle: pick(p, "", "node", "z")})
		for range p.byte() % 6 {
			w.Phase(record.Phase{Object: o, Phase: pick(p, "created", "bound", "running", "ready", "deleting", "deleted", "unknown", ""), At: p.at(),
				Within: pick(p, 0, 0, record.Ever, time.Hour, 366*24*time.Hour)})
		}
	case 3, 4:
		s := record.Series{Target: pick(p, "kube-apiserver", "etcd", "windtunnel", ""), Name: pick(p, "m_total", "m", "process_cpu_seconds_total",
			"apiserver_request_sli_duration_seconds_bucket", "etcd_disk_wal_fsync_duration_seconds_bucket", "workqueue_depth", "")}
		if v := pick(p, "", "1", "+Inf", "x"); v != "" {
			s.Labels = []record.Label{{Name: "le", Value: v}}
		}
		w.Sample(record.Sample{Series: w.Series(s), At: p.at(), Value: pick(p, 0, 1, -5, 1e300, math.NaN(), math.Inf(1), float64(p.byte()))})
	case 5:
		p.scrape()
	default:
		w.Event(record.Event{At: p.at(), Name: pick(p, "g", "kube-apiserver", "", "h"), Text: pick(p, "", "why: not", "\x1b]0;x\a"),
			Type: pick(p, record.EventRunBegan, record.EventRunEnded, record.EventStepBegan, record.EventStepEnded, record.EventLoadAsked, record.EventCallsFailed,
				record.EventScraped, record.EventScrapeFailed, record.EventWatchGap, record.EventDied, record.EventFault, record.EventFleetReady, record.EventProfiled),
			Detail: record.Detail{Reason: pick(p, record.Done, record.Broken, record.Aborted, record.Interrupted, ""), Count: int(int8(p.byte())) << (p.byte() % 56),
				Rate: pick(p, 0, 1e308, -1, 5), Parallel: int(p.byte()) % 3, For: time.Duration(p.at())}})
	}
}

// scrape is a reading of a target with a native histogram in it.
func (p *play) scrape() {
	id := p.w.Series(record.Series{Target: "kube-apiserver", Name: "m"})
	h := &record.Histogram{Schema: pick[int32](p, 0, 3, -4, 8), ZeroThreshold: pick(p, 0, 1e-9, 1e300), Count: uint64(p.byte()), Sum: pick(p, 1, math.NaN(), 1e300)}
	index := pick[int32](p, 0, math.MinInt32, math.MaxInt32-9, -9)
	for range p.byte() % 5 {
		h.Positive = append(h.Positive, record.Bucket{Index: index, Count: pick[uint64](p, 1, math.MaxUint64, 1<<63)})
		index += int32(p.byte()%2) + 1
	}
	s := &record.Scrape{Target: "kube-apiserver", At: p.at(), Took: time.Duration(p.at()), Histograms: []record.HistogramValue{{Series: id, Value: h}}}
	if p.byte()%2 == 0 {
		s.Gone = []record.SeriesID{id}
	}
	p.w.Scrape(s)
}

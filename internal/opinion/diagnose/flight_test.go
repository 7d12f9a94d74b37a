package diagnose_test

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// quiet is a plane of which nothing limits anything: 20 requests a second of 10 ms
// each, on a machine of which a quarter is busy. A line is a target, a series and
// by how much it grows in a second: from long before the run (+) or from its begin,
// when it appears (*); or what it is all the time (=). Later lines win over earlier
// ones.
const quiet = `
	host                    host_cpu_seconds_total{mode="idle"} +1.5
	host                    host_cpu_seconds_total{mode="user"} +0.5
	windtunnel              process_cpu_seconds_total +0.1
	kube-apiserver          process_cpu_seconds_total +0.2
	kube-apiserver          process_resident_memory_bytes =4e8
	kube-apiserver          go_cpu_classes_total_cpu_seconds_total +2
	kube-apiserver          go_cpu_classes_idle_cpu_seconds_total +1.8
	kube-apiserver          go_cpu_classes_gc_total_cpu_seconds_total +0.03
	kube-apiserver          go_sync_mutex_wait_total_seconds_total +0.001
	kube-apiserver          apiserver_request_duration_seconds_sum{component="apiserver",verb="POST"} +0.2
	kube-apiserver          apiserver_request_duration_seconds_count{component="apiserver",verb="POST"} +20
	kube-apiserver          apiserver_request_duration_seconds_sum{component="apiserver",verb="WATCH"} +30
	kube-apiserver          apiserver_request_duration_seconds_count{component="apiserver",verb="WATCH"} +1
	kube-apiserver          apiserver_flowcontrol_request_wait_duration_seconds_sum{execute="true",priority_level="workload-low"} +0.001
	kube-apiserver          apiserver_flowcontrol_dispatched_requests_total{priority_level="workload-low"} +20
	kube-apiserver          apiserver_flowcontrol_current_limit_seats{priority_level="workload-low"} =245
	kube-apiserver          etcd_request_duration_seconds_sum{operation="create"} +0.08
	kube-apiserver          etcd_request_duration_seconds_count{operation="create"} +20
	kube-apiserver          etcd_request_duration_seconds_bucket{operation="create",le="0.005"} +18
	kube-apiserver          etcd_request_duration_seconds_bucket{operation="create",le="0.1"} +20
	kube-apiserver          etcd_request_duration_seconds_bucket{operation="create",le="+Inf"} +20
	kube-apiserver          apiserver_watch_cache_read_wait_seconds_sum{resource="pods"} +0.001
	kube-apiserver          apiserver_watch_cache_read_wait_seconds_count{resource="pods"} +1
	etcd                    etcd_disk_wal_fsync_duration_seconds_sum +0.02
	etcd                    etcd_disk_wal_fsync_duration_seconds_count +20
	etcd                    etcd_disk_backend_commit_duration_seconds_sum +0.03
	etcd                    etcd_disk_backend_commit_duration_seconds_count +10
	etcd                    etcd_mvcc_db_total_size_in_bytes =1e8
	etcd                    etcd_server_quota_backend_bytes =2e9
	kube-controller-manager rest_client_rate_limiter_duration_seconds_sum{verb="POST"} +0.001
	kube-controller-manager rest_client_rate_limiter_duration_seconds_count{verb="POST"} +10
	kube-controller-manager rest_client_request_duration_seconds_sum{verb="POST"} +0.1
	kube-controller-manager workqueue_queue_duration_seconds_sum{name="replicaset"} +0.002
	kube-controller-manager workqueue_work_duration_seconds_sum{name="replicaset"} +0.1
	kube-controller-manager workqueue_depth{name="replicaset"} =0
	kube-controller-manager workqueue_unfinished_work_seconds{name="replicaset"} =0
	kube-controller-manager workqueue_unfinished_work_seconds{name="namespace"} =0
	kube-scheduler          scheduler_scheduling_algorithm_duration_seconds_sum +0.02
	kube-scheduler          scheduler_scheduling_algorithm_duration_seconds_count +10
	kube-scheduler          scheduler_pending_pods{queue="active"} =0
`

// The run begins at 10 s and ends at 70 s of its clock; the load is sent from 10 s
// on, 20 calls a second of 10 ms.
const (
	begin = clock.Time(10 * time.Second)
	end   = clock.Time(70 * time.Second)
)

var lineForm = regexp.MustCompile(`^(\S+)\s+([a-z_]+)(?:\{(.*)\})?\s+([+=*])(\S+)$`)

// one is one series of a flight.
type one struct {
	record.Series
	rate, value float64
	appears     bool
}

func lines(t *testing.T, text string) []one {
	t.Helper()
	var out []one
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		m := lineForm.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("no series: %q", line)
		}
		s := one{Series: record.Series{Target: m[1], Name: m[2]}}
		for _, pair := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(m[3], -1) {
			s.Labels = append(s.Labels, record.Label{Name: pair[1], Value: pair[2]})
		}
		slices.SortFunc(s.Labels, func(a, b record.Label) int { return strings.Compare(a.Name, b.Name) })
		v := repotest.Must(strconv.ParseFloat(m[5], 64))(t)
		switch m[4] {
		case "=":
			s.value = v
		case "+":
			s.rate, s.value = v, 1000 // what it has counted before the run
		case "*":
			s.rate, s.value, s.appears = v, -v*begin.Seconds(), true
		}
		same := slices.IndexFunc(out, func(o one) bool { return o.Key() == s.Key() })
		if same >= 0 {
			out[same] = s
		} else {
			out = append(out, s)
		}
	}
	return out
}

// made is a flight that never was.
type made struct {
	series   string // beside those of quiet
	manifest record.Manifest
	late     map[string]time.Duration // by source of calls, how much later than due they are sent
	death    string
	dies     string // whose death it is; kube-apiserver's where it is empty
}

// fly writes the flight's records and diagnoses them.
func (m made) fly(t *testing.T) []diagnose.Finding {
	t.Helper()
	f, _ := m.facts(t)
	return diagnose.Findings(f)
}

// facts writes the flight's records and asks them.
func (m made) facts(t *testing.T) (*diagnose.Facts, *promql.DB) {
	t.Helper()
	m.manifest.Started = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	m.manifest.Machine.Cores = 2
	r := read(t, m.manifest, func(w *record.Writer) { m.write(t, w) })
	f := diagnose.Collect(r)
	db := repotest.Must(promql.Open(r.Facts.Series, promql.Default(m.manifest.Started)))(t)
	repotest.NoError(t, f.Ask(t.Context(), db))
	return f, db
}

// read writes records and reads them.
func read(t *testing.T, m record.Manifest, write func(*record.Writer)) *run.Run {
	t.Helper()
	path := filepath.Join(t.TempDir(), record.StreamFile)
	w := repotest.Must(record.Create(path))(t)
	write(w)
	repotest.NoError(t, w.Close())
	facts := repotest.Must(run.Collect(path, m))(t)
	return &run.Run{Manifest: m, Facts: facts}
}

func (m made) write(t *testing.T, w *record.Writer) {
	all := lines(t, quiet+m.series)
	ids := map[string]record.SeriesID{}
	for _, s := range all {
		ids[s.Key()] = w.Define(s.Series)
	}
	for at := clock.Time(5 * time.Second); at <= end; at += clock.Time(5 * time.Second) {
		if at == begin {
			w.Event(record.Event{At: at, Type: record.EventRunBegan})
			calls(w, "load", m.late["load"])
			if late, ok := m.late["fleet"]; ok {
				calls(w, "fleet", late)
			}
		}
		byTarget := map[string]*record.Scrape{}
		for _, s := range all {
			if byTarget[s.Target] == nil {
				byTarget[s.Target] = &record.Scrape{Target: s.Target, At: at}
			}
			if s.appears && at <= begin {
				continue
			}
			v := s.value + s.rate*at.Seconds()
			byTarget[s.Target].Values = append(byTarget[s.Target].Values, record.Value{Series: ids[s.Key()], Value: v})
		}
		for name, scrape := range byTarget {
			w.Scrape(scrape)
			w.Event(record.Event{At: at, Type: record.EventScraped, Name: name})
		}
	}
	if m.death != "" {
		w.Event(record.Event{At: end, Type: record.EventDied, Name: cmp.Or(m.dies, "kube-apiserver"), Text: m.death})
	}
	w.Event(record.Event{At: end, Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Done}})
}

// calls writes the calls of a source, each late by so much and answered in 10 ms.
func calls(w *record.Writer, source string, late time.Duration) {
	op := w.Op(record.Op{Source: source, Verb: "create", Resource: "pods"})
	for due := begin; due < end-clock.Time(5*time.Second); due += clock.Time(50 * time.Millisecond) {
		sent := due.Add(late)
		w.Call(record.Call{Op: op, Due: due, Sent: sent, Done: sent.Add(10 * time.Millisecond), Code: 201})
	}
}

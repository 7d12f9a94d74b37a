package summary

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// startupSummary is how long the pods of a group took from phase to phase. A
// percentile that nothing bounds, because pods did not get there, is left out,
// and so is a stretch without any.
func (r results) startupSummary(group string) []Item {
	var out []Item
	for _, m := range []struct{ name, from, to string }{
		{"create_to_schedule", record.PhaseCreated, record.PhaseBound},
		{"schedule_to_run", record.PhaseBound, record.PhaseRunning},
		{"schedule_to_watch", record.PhaseBound, record.PhaseRunning},
		{"create_to_run", record.PhaseCreated, record.PhaseRunning},
		{"pod_startup", record.PhaseCreated, record.PhaseRunning},
	} {
		d := r.Facts.Took(r.Facts.Pods([]string{group}), m.from, m.to)
		item := Item{Data: map[string]float64{}, Unit: "ms", Labels: map[string]string{"Metric": m.name}}
		for name, q := range listPercentiles() {
			if e := d.Quantile(q); e.Samples > 0 && isFinite(e.High) && e.Exact() {
				item.Data[name] = toMilliseconds(e.Value)
			}
		}
		if len(item.Data) > 0 {
			out = append(out, item)
		}
	}
	return out
}

// The histogram that calls are read from, and its target.
const (
	apiServer = "kube-apiserver"
	family    = "apiserver_request_sli_duration_seconds"
)

// callsSummary returns the API server's own latencies by resource, subresource, verb and
// scope, of everybody's calls, slowest first.
func (r results) callsSummary() []Item {
	streams := []string{"log", "exec", "portforward", "attach", "proxy"}
	groups, _ := r.Facts.Series.Histograms(series.HistogramQuery{
		Target: apiServer, Family: family, By: []string{"resource", "scope", "subresource", "verb"},
		From: r.Facts.Begin, To: r.Facts.End,
		Keep: func(s *series.Series) bool {
			return s.Label("verb") != "WATCH" && !slices.Contains(streams, s.Label("subresource"))
		},
	})
	var out []Item
	for _, g := range groups {
		h := make(stats.Histogram, len(g.UpTo))
		for i := range h {
			h[i] = stats.Bucket{UpTo: g.UpTo[i], Count: g.Counts[i]}
		}
		h, _ = h.Mended()
		if h.Count() < 0.5 {
			continue
		}
		labels := map[string]string{}
		for _, l := range g.Labels {
			labels[strings.ToUpper(l.Name[:1])+l.Name[1:]] = l.Value
		}
		labels["Count"] = roundText(h.Count())
		labels["SlowCount"] = roundText(h.Count() - upTo(h, slowAbove(labels)))
		item := Item{Data: map[string]float64{}, Unit: "ms", Labels: labels}
		for name, q := range listPercentiles() {
			item.Data[name] = toMilliseconds(h.Quantile(q).Value)
		}
		out = append(out, item)
	}
	slices.SortStableFunc(out, func(a, b Item) int { return -cmp.Compare(a.Data["Perc99"], b.Data["Perc99"]) })
	return out
}

// slowAbove is when ClusterLoader2 calls a request slow, in seconds.
func slowAbove(labels map[string]string) float64 {
	switch {
	case labels["Verb"] != "LIST":
		return 1
	case labels["Scope"] == "cluster":
		return 30
	}
	return 5
}

// upTo is how many values of a histogram are known to be at most v.
func upTo(h stats.Histogram, v float64) float64 {
	n := 0.0
	for _, b := range h {
		if b.UpTo <= v {
			n = b.Count
		}
	}
	return n
}

func roundText(v float64) string { return strconv.Itoa(int(math.Round(v))) }

// throughput is how many pods the scheduler bound per second.
type throughput struct {
	Perc50 float64 `json:"perc50"`
	Perc90 float64 `json:"perc90"`
	Perc99 float64 `json:"perc99"`
	Max    float64 `json:"max"`
}

// throughputSummary is that of the group that an objective bounds, in stretches of the
// objective's length; without one that of all groups in stretches of 5 s.
func (r results) throughputSummary() (throughput, bool) {
	window, groups := 5*time.Second, []string(nil)
	for _, o := range r.Scenario.Objectives {
		if o.SLI != "pods-bound-rate" {
			continue
		}
		if d, err := time.ParseDuration(o.Labels["window"]); err == nil && d > 0 {
			window = d
		}
		if g := o.Labels["group"]; g != "" {
			groups = []string{g}
		}
		break
	}
	rates := slo.BoundRates(r.Facts, groups, window)
	if len(rates) == 0 {
		return throughput{}, false
	}
	at := func(q float64) float64 { return rates[stats.Rank(len(rates), q)-1] }
	return throughput{at(0.5), at(0.9), at(0.99), rates[len(rates)-1]}, true
}

// usage is what a component used at a percentile of the times when it was looked at.
type usage struct {
	Name string  // COMPONENT/COMPONENT: its pod and its container, were it one
	CPU  float64 `json:"Cpu"` // cores
	Mem  uint64  // bytes
}

// usageSummary gives CPU and memory of the plane's components, by percentile. CPU is
// the mean between two samples.
func (r results) usageSummary() map[string][]usage {
	out := map[string][]usage{}
	names := r.Facts.Series.Targets(run.CPUSeries)
	for _, name := range names {
		if name == run.Instrument {
			continue
		}
		cpu := ratesOf(r.sampleValues(name, run.CPUSeries))
		var memory []float64
		for _, p := range r.sampleValues(name, "process_resident_memory_bytes") {
			memory = append(memory, p.value)
		}
		if len(cpu) == 0 || len(memory) == 0 {
			continue
		}
		slices.Sort(cpu)
		slices.Sort(memory)
		for text, q := range map[string]float64{"50": 0.5, "90": 0.9, "99": 0.99, "100": 1} {
			out[text] = append(out[text], usage{name + "/" + name,
				math.Round(cpu[stats.Rank(len(cpu), q)-1]*1e6) / 1e6, uint64(memory[stats.Rank(len(memory), q)-1])})
		}
	}
	return out
}

// point is one value of a series.
type point struct {
	at    clock.Time
	value float64
}

// sampleValues returns the samples of one metric of a target during the run.
func (r results) sampleValues(target, name string) []point {
	var out []point
	for _, s := range r.Facts.Series.Select(target, name, nil) {
		for i := range s.Len() {
			if at, v := s.Sample(i); at >= r.Facts.Begin && at <= r.Facts.End {
				out = append(out, point{at, v})
			}
		}
	}
	return out
}

// ratesOf returns the rises per second between neighbours.
func ratesOf(points []point) []float64 {
	var out []float64
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		if s := b.at.Sub(a.at).Seconds(); s > 0 && b.value >= a.value {
			out = append(out, (b.value-a.value)/s)
		}
	}
	return out
}

// etcd has etcd's own histograms as they rose during the run.
type etcd struct {
	BackendCommitDuration     []histogram `json:"backendCommitDuration"`
	SnapshotSaveTotalDuration []histogram `json:"snapshotSaveTotalDuration"`
	PeerRoundTripTime         []histogram `json:"peerRoundTripTime"`
	WalFsyncDuration          []histogram `json:"walFsyncDuration"`
	MaxDatabaseSize           float64     `json:"maxDatabaseSize"` // bytes
}

type histogram struct {
	Labels  map[string]string `json:"labels"`
	Buckets map[string]int    `json:"buckets"` // by upper bound in seconds, cumulative
}

func (r results) etcdSummary() (etcd, bool) {
	e := etcd{}
	any := false
	for _, f := range []struct {
		family string
		to     *[]histogram
	}{
		{"etcd_disk_backend_commit_duration_seconds", &e.BackendCommitDuration},
		{"etcd_debugging_snap_save_total_duration_seconds", &e.SnapshotSaveTotalDuration},
		{"etcd_network_peer_round_trip_time_seconds", &e.PeerRoundTripTime},
		{"etcd_disk_wal_fsync_duration_seconds", &e.WalFsyncDuration},
	} {
		*f.to = []histogram{}
		groups, _ := r.Facts.Series.Histograms(series.HistogramQuery{Target: "etcd", Family: f.family, From: r.Facts.Begin, To: r.Facts.End})
		for _, g := range groups {
			h := histogram{Labels: map[string]string{}, Buckets: map[string]int{}}
			for i, le := range g.UpTo {
				name := strconv.FormatFloat(le, 'g', -1, 64)
				if math.IsInf(le, 1) {
					name = "+Inf"
				}
				h.Buckets[name] = int(math.Round(g.Counts[i]))
			}
			*f.to = append(*f.to, h)
			any = true
		}
	}
	for _, p := range r.sampleValues("etcd", "etcd_mvcc_db_total_size_in_bytes") {
		e.MaxDatabaseSize = max(e.MaxDatabaseSize, p.value)
		any = true
	}
	return e, any
}

// timerSummary returns the scenario's stretches of time between steps, in seconds.
func (r results) timerSummary() []Item {
	item := Item{Data: map[string]float64{}, Unit: "s", Labels: map[string]string{"test": "phases"}}
	for _, m := range r.Scenario.Measures {
		if got, ok := r.Judgement.Measures[slo.Key(m.Name, "seconds")]; ok && m.Query == "" {
			item.Data[m.Name] = got.Value
		}
	}
	if len(item.Data) == 0 {
		return nil
	}
	return []Item{item}
}

// querySummaries returns the answers of PromQL. METRIC: QUERY names the query QUERY of
// the metric METRIC; each set of labels is an item of its own.
func (r results) querySummaries() map[string]any {
	asked := map[string]bool{}
	for _, o := range r.Scenario.Objectives {
		asked[o.Name] = o.Query != ""
	}
	out := map[string]any{}
	add := func(name, unit string, labels map[string]string, value float64) {
		metric, query, ok := strings.Cut(name, ": ")
		if !ok || strings.HasPrefix(metric, "APIResponsiveness") {
			return
		}
		file := "GenericPrometheusQuery " + metric
		d, _ := out[file].(Data)
		d.Version = callVersion
		i := slices.IndexFunc(d.Items, func(i Item) bool { return sameLabels(i.Labels, labels) && i.Unit == unit })
		if i < 0 {
			i = len(d.Items)
			d.Items = append(d.Items, Item{Data: map[string]float64{}, Unit: unit, Labels: labels})
		}
		d.Items[i].Data[query] = value
		out[file] = d
	}
	for _, o := range r.Judgement.Objectives {
		if asked[o.Name] && o.Value != nil {
			add(o.Name, o.Unit, o.Labels, *o.Value)
		}
	}
	for _, m := range r.Scenario.Measures {
		if got, ok := r.Judgement.Measures[slo.Key(m.Name)]; ok && m.Query != "" {
			add(m.Name, got.Unit, nil, got.Value)
		}
	}
	return out
}

func sameLabels(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

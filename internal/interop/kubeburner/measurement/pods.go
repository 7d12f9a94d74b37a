package measurement

import (
	"fmt"
	"maps"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// latency is the document of a pod. Its times are in whole milliseconds from
// the pod's creation, by the receipt times of windtunnel's own watch; what
// kube-burner takes from other places (Initialized, PodReadyToStartContainers,
// node, iteration, replica) is not in it.
type latency struct {
	Timestamp                time.Time         `json:"timestamp"`
	SchedulingLatency        *int64            `json:"schedulingLatency,omitempty"`
	ContainersStartedLatency *int64            `json:"containersStartedLatency,omitempty"`
	ContainersReadyLatency   *int64            `json:"containersReadyLatency,omitempty"`
	PodReadyLatency          *int64            `json:"podReadyLatency,omitempty"`
	MetricName               string            `json:"metricName"`
	UUID                     string            `json:"uuid"`
	JobName                  string            `json:"jobName"`
	Namespace                string            `json:"namespace"`
	PodName                  string            `json:"podName"`
	ChurnMetric              bool              `json:"churnMetric,omitempty"`
	Metadata                 map[string]string `json:"metadata,omitempty"`
}

// quantiles is the document of one condition of a job's pods, in whole
// milliseconds.
type quantiles struct {
	QuantileName string            `json:"quantileName"`
	UUID         string            `json:"uuid"`
	P99          int64             `json:"P99"`
	P95          int64             `json:"P95"`
	P50          int64             `json:"P50"`
	Min          int64             `json:"min"`
	Max          int64             `json:"max"`
	Avg          float64           `json:"avg"`
	Timestamp    time.Time         `json:"timestamp"`
	MetricName   string            `json:"metricName"`
	JobName      string            `json:"jobName"`
	Metadata     map[string]string `json:"metadata,omitempty"`
}

// facts is when steps began and ended.
type facts struct {
	begin, end map[string]clock.Time
	last       clock.Time
}

func readFacts(f *run.Facts) *facts {
	out := &facts{begin: map[string]clock.Time{}, end: map[string]clock.Time{}, last: f.Last}
	for _, s := range f.Steps {
		out.begin[s.Name] = s.From
		if s.Ended {
			out.end[s.Name] = s.To
		}
	}
	return out
}

// pod is what was seen of one object.
type pod struct {
	record.Object
	phases map[string]clock.Time
}

// podsOf returns those of a group, in the order in which they were first seen.
func (r results) podsOf(group string) []pod {
	var out []pod
	for _, l := range r.Facts.Lifecycles {
		if l.Resource != "pods" || l.Name != "" || l.Group != group {
			continue
		}
		for row := range l.Len() {
			p := pod{l.Object(row), map[string]clock.Time{}}
			for _, phase := range l.Phases() {
				if at, ok := l.At(row, phase); ok {
					p.phases[phase] = at
				}
			}
			out = append(out, p)
		}
	}
	return out
}

// spanOf returns when a job began and ended; a job that was cut short ended with
// the run.
func (f *facts) spanOf(j job) (from, to clock.Time, ok bool) {
	from, ok = f.begin[j.since]
	to, done := f.end[j.till]
	if !done {
		to = f.last
	}
	return from, to, ok
}

// churnSpan returns when a job's churn began and ended.
func (f *facts) churnSpan(j job) (from, to clock.Time, ok bool) {
	for _, step := range j.churns {
		begin, began := f.begin[step]
		if !began {
			continue
		}
		end, done := f.end[step]
		if !done {
			end = f.last
		}
		if !ok {
			from = begin
		}
		to, ok = end, true
	}
	return from, to, ok
}

// podConditions returns what quantiles are of: a pod's condition, and the phase that
// shows it. Simulated containers are ready when their pod is.
func podConditions() [][2]string {
	return [][2]string{
		{"PodScheduled", record.PhaseBound}, {"ContainersStarted", record.PhaseRunning},
		{"ContainersReady", record.PhaseReady}, {"Ready", record.PhaseReady},
	}
}

// latencyDocuments makes the documents of a job's pods that came to be ready, and of
// their quantiles. How many did not, or not while they were watched, is in the
// latter's metadata.
func (r results) latencyDocuments(j job, f *facts) (lives, summaries []any) {
	uuid := r.runUUID()
	churnFrom, churnTo, churned := f.churnSpan(j)
	for _, g := range j.groups {
		metadata, behind := map[string]string{}, 0
		if len(j.groups) > 1 && g.run != "" {
			metadata["incrementalLoadUUID"] = g.run
		}
		samples := map[string]*stats.Durations{}
		for _, p := range r.podsOf(g.name) {
			created, ok := p.phases[record.PhaseCreated]
			_, ready := p.phases[record.PhaseReady]
			_, vague := p.phases[record.PhaseUnknown]
			if !ok || !ready || vague {
				behind++
				continue
			}
			for _, c := range podConditions() {
				if at, ok := p.phases[c[1]]; ok {
					if samples[c[0]] == nil {
						samples[c[0]] = &stats.Durations{}
					}
					samples[c[0]].Add(at.Sub(created))
				}
			}
			d := p.podDocument(created)
			d.UUID, d.JobName, d.Timestamp, d.Metadata = uuid, j.name, r.wallTime(created), metadata
			d.ChurnMetric = churned && created >= churnFrom && created <= churnTo
			lives = append(lives, d)
		}
		said := map[string]string{}
		maps.Copy(said, metadata)
		if behind > 0 {
			said["podsNotMeasured"] = fmt.Sprint(behind)
		}
		_, end, _ := f.spanOf(j)
		for _, c := range podConditions() {
			if s := samples[c[0]]; s != nil {
				q := summarizeSample(s)
				q.QuantileName, q.UUID, q.JobName, q.Timestamp, q.Metadata = c[0], uuid, j.name, r.wallTime(end), said
				summaries = append(summaries, q)
			}
		}
	}
	return lives, summaries
}

// podDocument is a pod's, without what it shares with others.
func (p pod) podDocument(created clock.Time) latency {
	since := func(phase string) *int64 {
		at, ok := p.phases[phase]
		if !ok {
			return nil
		}
		ms := at.Sub(created).Round(time.Millisecond).Milliseconds()
		return &ms
	}
	return latency{
		SchedulingLatency: since(record.PhaseBound), ContainersStartedLatency: since(record.PhaseRunning),
		ContainersReadyLatency: since(record.PhaseReady), PodReadyLatency: since(record.PhaseReady),
		MetricName: Latency, Namespace: p.Namespace, PodName: p.Name,
	}
}

// summarizeSample computes the quantiles of a sample that is not empty.
func summarizeSample(s *stats.Durations) quantiles {
	s.Sort()
	ms := func(seconds float64) int64 { return int64(seconds*1000 + 0.5) }
	return quantiles{
		MetricName: Quantiles, P99: ms(s.Quantile(0.99).Value), P95: ms(s.Quantile(0.95).Value), P50: ms(s.Quantile(0.5).Value),
		Min: time.Duration(s.Sorted()[0]).Round(time.Millisecond).Milliseconds(), Max: ms(s.Max().Value), Avg: float64(ms(s.Mean().Value)),
	}
}

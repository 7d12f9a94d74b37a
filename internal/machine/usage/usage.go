// Package usage samples what processes cost: CPU seconds, resident memory and,
// by their cgroups, how long they were throttled. It also says what machine
// this is (Machine).
//
// It reads /proc and cgroup v1 or v2 and changes nothing; package process sets
// limits. Package flight starts it, for every process of the plane and for
// windtunnel itself.
package usage

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// DefaultEvery is the interval of samples.
const DefaultEvery = time.Second

// Self is the target of windtunnel's own samples, Host that of the whole
// machine's.
const (
	Self = "windtunnel"
	Host = "host"
)

// Names of the samples. Those of processes are the names by which Prometheus'
// client libraries serve the same values.
const (
	CPUSeconds       = "process_cpu_seconds_total"          // user and system, seconds
	ResidentBytes    = "process_resident_memory_bytes"      // bytes
	PeakBytes        = "process_peak_resident_memory_bytes" // the most so far, bytes
	ThrottledSeconds = "cgroup_cpu_throttled_seconds_total" // time for which the cgroup's threads were held back
	ThrottledPeriods = "cgroup_cpu_throttled_periods_total" // periods in which they were
	Periods          = "cgroup_cpu_periods_total"           // periods in which they wanted to run
	HostSeconds      = "host_cpu_seconds_total"             // by label mode, of all cores together
	WaitSeconds      = "process_cpu_wait_seconds_total"     // time for which its threads were ready to run and had no core
	WorkingSet       = "cgroup_memory_working_set_bytes"    // bytes of the cgroup without files that nobody looked at lately
	LimitHits        = "cgroup_memory_limit_hits_total"     // times that the cgroup's memory came up against its limit
	Goroutines       = "go_goroutines"                      // of windtunnel itself
	OpenFiles        = "process_open_fds"                   // of windtunnel itself
)

// Process is one process to sample.
type Process struct {
	Name   string // the component's name; it becomes Series.Target
	PID    int    // 0: there is only its cgroup, with the processes in it
	Cgroup string // folder of its cgroup where one was made for it: the CPU controller's in v1; else empty
	Memory string // folder of the cgroup that limits its memory; empty without
}

// Options configure a sampler.
type Options struct {
	Every time.Duration // default DefaultEvery
}

// Sampler samples processes, windtunnel itself and the host. Its methods may
// be called from several goroutines.
type Sampler struct {
	records *record.Writer
	clock   clock.Clock
	every   time.Duration

	mu   sync.Mutex
	all  []*watched
	host *watched
}

// watched is one process and its series.
type watched struct {
	Process
	series map[string]record.SeriesID
	last   map[record.SeriesID]float64
	lost   error // why it is not sampled; nil: it is
}

// New returns a sampler of these processes and of windtunnel itself. It writes
// to w with times of c.
func New(w *record.Writer, c clock.Clock, processes []Process, o Options) *Sampler {
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	s := &Sampler{records: w, clock: c, every: o.Every, host: newWatched(Process{Name: Host})}
	for _, p := range append([]Process{{Name: Self, PID: os.Getpid()}}, processes...) {
		s.all = append(s.all, newWatched(p))
	}
	return s
}

func newWatched(p Process) *watched {
	return &watched{Process: p, series: map[string]record.SeriesID{}, last: map[record.SeriesID]float64{}}
}

// Run samples at once and then at the interval until ctx is done. Of a process that is not
// sampled any more by then, and that none has replaced, it writes a warning.
func (s *Sampler) Run(ctx context.Context) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		s.Sample()
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.warnOfLost()
			return
		}
	}
}

// warnOfLost says which processes were not sampled to the end. A component that a fault
// ends is missing only until it is started again, which nobody can know earlier.
func (s *Sampler) warnOfLost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all {
		if p.lost != nil {
			s.records.Event(record.Event{At: s.clock.Now(), Type: record.EventWarned, Name: p.Name,
				Text: fmt.Sprintf("the CPU and memory of %s were not measured to the end: %v", p.Name, p.lost)})
		}
	}
}

// Sample samples everything now. A process that has ended is sampled no more, unless
// another one replaces it.
func (s *Sampler) Sample() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all {
		if p.lost == nil {
			p.lost = s.sampleProcess(p)
		}
	}
	at := s.clock.Now()
	for mode, v := range hostSeconds() {
		s.writeIfChanged(s.host, at, record.Series{Name: HostSeconds, Labels: []record.Label{{Name: "mode", Value: mode}}}, v)
	}
}

func (s *Sampler) sampleProcess(p *watched) error {
	if p.PID == 0 {
		s.sampleCgroup(p, s.clock.Now())
		return nil
	}
	u, err := readUsage(p.PID, s.clock.Now)
	if err != nil {
		return err
	}
	s.writeIfChanged(p, u.at, record.Series{Name: CPUSeconds}, u.cpu)
	s.writeIfChanged(p, u.at, record.Series{Name: ResidentBytes}, float64(u.resident))
	s.writeIfChanged(p, u.at, record.Series{Name: PeakBytes}, float64(u.peak))
	if wait, ok := runQueueWait(p.PID); ok {
		s.writeIfChanged(p, u.at, record.Series{Name: WaitSeconds}, wait)
	}
	if p.Name == Self {
		s.sampleOwn(p, u.at)
	}
	s.sampleCgroup(p, u.at)
	return nil
}

// sampleOwn samples what shows that windtunnel itself leaks.
func (s *Sampler) sampleOwn(p *watched, at clock.Time) {
	s.writeIfChanged(p, at, record.Series{Name: Goroutines}, float64(runtime.NumGoroutine()))
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		s.writeIfChanged(p, at, record.Series{Name: OpenFiles}, float64(len(open)-1)) // without the folder itself
	}
}

// sampleCgroup samples what limits do to a process, or to all that share them.
func (s *Sampler) sampleCgroup(p *watched, at clock.Time) {
	if p.Memory != "" {
		if hits, ok := limitHits(p.Memory); ok {
			s.writeIfChanged(p, at, record.Series{Name: LimitHits}, hits)
		}
		if size, ok := workingSet(p.Memory); ok {
			s.writeIfChanged(p, at, record.Series{Name: WorkingSet}, size)
		}
	}
	if p.Cgroup == "" {
		return
	}
	if t, ok := readThrottling(p.Cgroup); ok {
		s.writeIfChanged(p, at, record.Series{Name: ThrottledSeconds}, t.seconds)
		s.writeIfChanged(p, at, record.Series{Name: ThrottledPeriods}, t.throttled)
		s.writeIfChanged(p, at, record.Series{Name: Periods}, t.periods)
	}
}

// writeIfChanged appends a sample unless the value is that of the last one. CPU time is
// always written: its rise is divided by the time since the sample before.
func (s *Sampler) writeIfChanged(p *watched, at clock.Time, series record.Series, v float64) {
	series.Target = p.Name
	key := series.Key()
	id, ok := p.series[key]
	if !ok {
		id = s.records.Series(series)
		p.series[key] = id
	}
	if last, ok := p.last[id]; ok && last == v && series.Name != CPUSeconds {
		return
	}
	p.last[id] = v
	s.records.Sample(record.Sample{Series: id, At: at, Value: v})
}

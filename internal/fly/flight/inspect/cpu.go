package inspect

import (
	"os"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
)

// CPU is what was used until a time.
type CPU struct {
	at   clock.Time
	used map[string]float64 // seconds, by component; "" is windtunnel
	host map[string]float64 // seconds of all cores, by what they did
}

// ReadCPU reads it now. All the CPU of a component that has not started yet (a
// nil plane: of all of them) counts as used after it.
func ReadCPU(c clock.Clock, p *plane.Plane) CPU {
	out := CPU{at: c.Now(), used: map[string]float64{}, host: usage.HostTimes()}
	read := func(name string, pid int) {
		if u, err := usage.Of(pid); err == nil {
			out.used[name] = u.CPUSeconds
		}
	}
	read("", os.Getpid())
	if p != nil {
		for _, c := range p.Components() {
			if c.PID > 0 {
				read(c.Name, c.PID)
			}
		}
	}
	return out
}

// RestartCPU lets CPU count from now on.
func (i *Inspector) RestartCPU() { i.cpu = ReadCPU(i.Clock, i.Plane) }

// minInterval is over how long a mean of CPU or of retries is worth anything.
const minInterval = 300 * time.Millisecond

// measureCPU measures CPU, unless it did so a moment ago.
func (i *Inspector) measureCPU() {
	if i.Clock.Now().Sub(i.cpu.at) < minInterval {
		return
	}
	before, now := i.cpu, ReadCPU(i.Clock, i.Plane)
	took := now.at.Sub(before.at).Seconds()
	s := preflight.State{CPU: map[string]float64{}}
	known := 0.0
	for name, seconds := range now.used {
		rise := seconds - before.used[name]
		if rise < 0 {
			rise = seconds // started again
		}
		if known += rise; name != "" {
			s.CPU[name] = rise / took
		}
	}
	total, busy := 0.0, 0.0
	for mode, seconds := range now.host {
		rise := seconds - before.host[mode]
		total += rise
		if usage.IsWork(mode) {
			busy += rise
		}
	}
	if total > 0 {
		s.Steal = (now.host["steal"] - before.host["steal"]) / total
		if i.Own { // of another plane it is not known whether it runs here
			s.Others = max(0, busy-known) / total
		}
	}
	i.cpu, i.usage = now, s
}

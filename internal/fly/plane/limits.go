package plane

import (
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// makeCgroup makes the control group that all components are started in, if it can be made.
func (p *Plane) makeCgroup(l scenario.Limits) {
	if l == (scenario.Limits{}) {
		return
	}
	p.facts.CPULimit, p.facts.MemoryLimit = l.CPU, uint64(l.Memory)
	group, err := process.NewGroup("the plane", process.Limits{CPU: l.CPU, Memory: uint64(l.Memory)}, p.reaper)
	if err != nil {
		p.noteUnlimited("the plane", fmt.Sprintf("the plane runs without its limits: %v", err))
		return
	}
	p.group, p.facts.Limited = group, true
}

// Unlimited is a process, or the plane as a whole, whose limits could not be set.
type Unlimited struct{ Name, Why string }

// Unlimited returns whose limits were asked for and are not in force; also those of what
// was started again since.
func (p *Plane) Unlimited() []Unlimited {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.withoutLimits)
}

// noteUnlimited takes note of limits that could not be set; why is empty where they are.
func (p *Plane) noteUnlimited(name, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := (Unlimited{name, why}); why != "" && !slices.Contains(p.withoutLimits, one) {
		p.withoutLimits = append(p.withoutLimits, one)
	}
}

// minThreads is as few as Go takes for a CPU limit by itself.
const minThreads = 2

// threadEnv tells a component how many cores it has where the plane's limit leaves fewer
// than the machine: Go looks at the limit of the innermost control group alone, and
// would run threads for all cores of the machine, which a machine of the plane's size
// does not have.
func threadEnv(of record.PlaneFacts, own scenario.Component) []string {
	_, told := own.Env["GOMAXPROCS"]
	n := max(minThreads, int(math.Ceil(of.CPULimit)))
	if !of.Limited || of.CPULimit == 0 || own.CPU > 0 || told || n >= runtime.NumCPU() {
		return nil
	}
	return []string{fmt.Sprintf("GOMAXPROCS=%d", n)}
}

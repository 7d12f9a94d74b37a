package plane

import (
	"fmt"
	"math"
	"runtime"

	"github.com/windtunnel/windtunnel/internal/plane/process"
	"github.com/windtunnel/windtunnel/scenario"
)

// limit makes the control group that all components are started in, or a warning.
func (p *Plane) limit(l scenario.Limits) {
	if l == (scenario.Limits{}) {
		return
	}
	p.facts.CPULimit, p.facts.MemoryLimit = l.CPU, uint64(l.Memory)
	group, err := process.NewGroup("the plane", process.Limits{CPU: l.CPU, Memory: uint64(l.Memory)}, p.reaper)
	if err != nil {
		p.warn(fmt.Sprintf("the plane runs without its limits: %v", err))
		return
	}
	p.group, p.facts.Limited = group, true
}

// leastThreads is as few as Go takes for a CPU limit by itself.
const leastThreads = 2

// threads tells a component how many cores it has where the plane's limit leaves fewer
// than the machine: Go looks at the limit of the innermost control group alone, and
// would run threads for all cores of the machine, which a machine of the plane's size
// does not have.
func (p *Plane) threads(own scenario.Component) []string {
	_, told := own.Env["GOMAXPROCS"]
	n := max(leastThreads, int(math.Ceil(p.facts.CPULimit)))
	if !p.facts.Limited || p.facts.CPULimit == 0 || own.CPU > 0 || told || n >= runtime.NumCPU() {
		return nil
	}
	return []string{fmt.Sprintf("GOMAXPROCS=%d", n)}
}

package plan

import (
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Population is the clients that send the calls of a step.
type Population struct {
	Step string
	scenario.Clients
	Rate float64 // calls per second that the step's pace asks for at its highest
}

// estimateClients adds the clients of a step, whose times are estimated: their connections,
// and the time that their limiters take.
func (e *estimator) estimateClients(s *scenario.Step, one *Step) {
	c := s.Clients
	if c == nil {
		return
	}
	e.out.Clients = append(e.out.Clients, Population{s.Name, *c, one.Rate})
	e.now.connections += c.Connections
	e.top = e.top.max(e.now)
	e.now.connections -= c.Connections
	if l := c.Limiter; l != nil && l.QPS > 0 {
		if free := float64(one.Calls - c.Count*l.Burst); free > 0 {
			one.Duration = max(one.Duration, time.Duration(free/(float64(c.Count)*l.QPS)*float64(time.Second)))
		}
	}
}

// String says what the clients are, and whether their limiters hold the step back.
func (p Population) String() string {
	text := fmt.Sprintf("%s (step %s): %s with %s", p.Name, p.Step, unit.Count(p.Count, "clients"), unit.Count(p.Connections, "connections"))
	l := p.Limiter
	if l == nil {
		return text
	}
	all := float64(p.Count) * l.QPS
	text += fmt.Sprintf(", each limited to %s/s (burst %d), %s/s in all", unit.Number(l.QPS), l.Burst, unit.Number(all))
	if p.Rate > all {
		text += ", less than the pace asks for"
	}
	return text
}

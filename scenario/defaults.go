package scenario

import (
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/unit"
)

// Default returns a scenario as an empty file would give it.
func Default() Scenario {
	s := Scenario{Seed: DefaultSeed}
	s.Plane.setDefaults()
	s.Fleet.setDefaults()
	s.Namespaces.setDefaults()
	return s
}

func (s *Scenario) setDefaults()   { *s = Default() }
func (p *Plane) setDefaults()      { p.Durability = "memory" }
func (n *Namespaces) setDefaults() { n.Count = 1 }
func (s *Step) setDefaults()       { s.OnFailure = "stop" }
func (c *Create) setDefaults()     { c.Timeout = unit.Duration(DefaultCallTimeout) }
func (w *Wait) setDefaults()       { w.Within = unit.Duration(DefaultWaitWithin) }

func (d *Delete) setDefaults() {
	d.Propagation, d.Timeout = "background", unit.Duration(DefaultCallTimeout)
}

func (f *Fleet) setDefaults() {
	f.Rate = DefaultNodeRate
	f.Lease, f.Within = unit.Duration(DefaultLease), unit.Duration(DefaultFleetWithin)
	f.Capacity = map[string]string{"cpu": "32", "memory": "256Gi", "pods": "110"}
}

// complete fills what follows from other fields: names, groups, statistics.
func (s *Scenario) complete() {
	if s.Namespaces.Prefix == "" {
		s.Namespaces.Prefix = s.Name
	}
	for name, b := range s.Bodies {
		b.Line = max(1, s.line("bodies."+name+".text"))
		if b.File != "" {
			b.Line = max(1, s.line("bodies."+name+".file"))
		}
		s.Bodies[name] = b
	}
	for i := range s.Steps {
		s.Steps[i].complete(i)
	}
	for i := range s.Objectives {
		s.Objectives[i].complete()
	}
}

func (s *Step) complete(i int) {
	if s.Name == "" {
		s.Name = fmt.Sprintf("%s-%d", append(s.verbs(), "step")[0], i+1)
	}
	if c := s.Create; c != nil {
		if c.Name == "" {
			c.Name = s.Name
		}
		if c.Group == "" {
			c.Group = s.Name
		}
	}
}

// verbs are the fields of the step that say what it does.
func (s *Step) verbs() []string {
	var out []string
	if s.Create != nil {
		out = append(out, "create")
	}
	if s.Wait != nil {
		out = append(out, "wait")
	}
	if s.Delete != nil {
		out = append(out, "delete")
	}
	if s.Pause != 0 {
		out = append(out, "pause")
	}
	return out
}

func (o *Objective) complete() {
	if sli, ok := findSLI(o.SLI); ok && o.Statistic == "" {
		o.Statistic = sli.Statistics[0]
	}
	if o.Name != "" {
		return
	}
	if o.SLO == "" { // its statistic and labels are said beside it
		o.Name = strings.ReplaceAll(o.SLI, "-", " ")
	}
}

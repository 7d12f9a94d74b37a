package scenario

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Default returns a scenario as an empty file would give it.
func Default() Scenario {
	s := Scenario{Seed: DefaultSeed, FailedCalls: FailRun}
	s.Plane.setDefaults()
	s.Fleet.setDefaults()
	s.Namespaces.setDefaults()
	s.Preflight.setDefaults()
	return s
}

func (s *Scenario) setDefaults()   { *s = Default() }
func (n *Namespaces) setDefaults() { n.Count = 1 }
func (g *Preflight) setDefaults()  { g.Dirty = "tag" }
func (m *Members) setDefaults() {
	m.Name, m.Count, m.Kind, m.Etcd, m.OnDeath = "member", 1, RealMember, "shared", "continue"
}
func (b *Body) setDefaults()    { b.Dialect = Dialects()[0] }
func (a *AbortOn) setDefaults() { a.For = unit.Duration(DefaultAbortFor) }
func (s *Step) setDefaults()    { s.OnFailure = "stop" }
func (c *Create) setDefaults()  { c.Timeout = unit.Duration(DefaultCallTimeout) }
func (c *Churn) setDefaults()   { c.Timeout = unit.Duration(DefaultCallTimeout) }
func (r *Requests) setDefaults() {
	r.Timeout, r.Connection = unit.Duration(DefaultCallTimeout), KeptConnections
}
func (p *Probe) setDefaults() {
	p.Keys, p.Timeout, p.Connection = 20, unit.Duration(DefaultCallTimeout), KeptConnections
}
func (w *Wait) setDefaults()    { w.Within, w.Unmet = unit.Duration(DefaultWaitWithin), UnknownRun }
func (c *Settle) setDefaults()  { c.Within = unit.Duration(DefaultSettleWithin) }
func (u *Upgrade) setDefaults() { u.Batch = 10 }
func (e *Exec) setDefaults()    { e.Timeout = unit.Duration(DefaultExecTimeout) }
func (r *Retry) setDefaults()   { r.Delay = unit.Duration(DefaultRetryDelay) }
func (c *Call) setDefaults()    { c.Weight = 1 }
func (i *Item) setDefaults()    { i.Replicas, i.Every = 1, 1 }

func (s *Scale) setDefaults() {
	s.Propagation, s.Timeout = "background", unit.Duration(DefaultCallTimeout)
}

func (u *Update) setDefaults() {
	u.Method, u.Timeout = "merge", unit.Duration(DefaultCallTimeout)
}

func (d *Delete) setDefaults() {
	d.Propagation, d.Timeout = "background", unit.Duration(DefaultCallTimeout)
}

func (f *Fleet) setDefaults() {
	f.Rate = DefaultNodeRate
	f.Lease, f.Within = unit.Duration(DefaultLease), unit.Duration(DefaultFleetWithin)
	f.Capacity = map[string]string{"cpu": "32", "memory": "256Gi", "pods": "110"}
}

// Complete fills, in a scenario that was made by a program, what a file's
// silence would have set: timeouts, weights, names, groups, statistics. Zero is
// taken for silence but in Fleet and Namespaces, whose zeros have a meaning:
// begin with Default for those. Load and Parse have done all this.
func (s *Scenario) Complete() {
	if s.Seed == 0 {
		s.Seed = DefaultSeed
	}
	s.FailedCalls = cmp.Or(s.FailedCalls, FailRun)
	for name, b := range s.Bodies {
		fillDefaults(reflect.ValueOf(&b).Elem())
		s.Bodies[name] = b
	}
	fillDefaults(reflect.ValueOf(&s.AbortOn).Elem())
	fillDefaults(reflect.ValueOf(&s.Plane).Elem())
	fillDefaults(reflect.ValueOf(&s.Preflight).Elem())
	fillDefaults(reflect.ValueOf(&s.Subjects).Elem())
	fillDefaults(reflect.ValueOf(&s.Members).Elem())
	fillDefaults(reflect.ValueOf(&s.Steps).Elem())
	s.fillDerived()
}

// fillDefaults gives each field of a step that is zero its default.
func fillDefaults(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fillDefaults(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			fillDefaults(v.Index(i))
		}
	case reflect.Struct:
		fresh := reflect.New(v.Type())
		if x, ok := fresh.Interface().(defaulter); ok {
			x.setDefaults()
		}
		for _, f := range strictyaml.Fields(v.Type()) {
			if to := v.Field(f.Index); !to.IsZero() {
				fillDefaults(to)
			} else {
				to.Set(fresh.Elem().Field(f.Index))
			}
		}
	}
}

// fillDerived fills what follows from other fields: names, groups, statistics.
func (s *Scenario) fillDerived() {
	if s.Namespaces.Prefix == "" {
		s.Namespaces.Prefix = s.Name
	}
	for name, b := range s.Bodies {
		b.Line = max(1, s.lineOf("bodies."+name+".text"))
		switch {
		case b.File != "":
			b.Line = max(1, s.lineOf("bodies."+name+".file"))
		case b.Exemplar != "":
			b.Line = max(1, s.lineOf("bodies."+name+".exemplar"))
		}
		s.Bodies[name] = b
	}
	for _, x := range s.Subjects {
		if x.Build != nil && x.Build.Main != "" {
			x.Build.Folder = filepath.Dir(s.File)
		}
	}
	completeSteps(s.Steps, "")
	for i := range s.Objectives {
		s.Objectives[i].takeMeasure(s.Measures)
		s.Objectives[i].fillDerived()
	}
}

// completeSteps names the steps of a list; number is that of the step which
// holds them, such as "3-1", or empty.
func completeSteps(steps []Step, number string) {
	for i := range steps {
		s, n := &steps[i], fmt.Sprintf("%s%d", number, i+1)
		s.fillDerived(n)
		completeSteps(s.Parallel, n+"-")
		completeSteps(s.Sequence, n+"-")
	}
}

func (s *Step) fillDerived(number string) {
	if s.Name == "" {
		s.Name = s.defaultName(number)
	}
	if s.Clients != nil {
		s.Clients.fillDerived(s.Name)
	}
	if c := s.Create; c != nil {
		if c.Name == "" {
			c.Name = s.Name
		}
		if c.Group == "" {
			c.Group = s.Name
		}
		for i := range c.Objects {
			if c.Objects[i].Name == "" {
				c.Objects[i].Name = c.Objects[i].Body
			}
		}
	}
	if s.Requests != nil {
		for i := range s.Requests.Mix {
			call := &s.Requests.Mix[i]
			d := call.defaultsFor(s.Name)
			for _, f := range []struct{ to, text *string }{
				{&call.Pick, &d.Pick}, {&call.Patch, &d.Patch}, {&call.Propagation, &d.Propagation}, {&call.Name, &d.Name},
			} {
				if *f.to == "" {
					*f.to = *f.text
				}
			}
			if call.Hold == 0 {
				call.Hold = d.Hold
			}
		}
	}
}

// defaultsFor are what a call has when a file is silent, which depends on its verb.
func (c *Call) defaultsFor(step string) Call {
	var d Call
	if c.Of != "" {
		d.Pick = "turn"
	}
	switch {
	case c.Verb == "patch":
		d.Patch = "merge"
	case c.Verb == "watch":
		d.Hold = unit.Duration(DefaultHold)
	case c.Verb == "delete", c.Verb == "deletecollection":
		d.Propagation = "background"
	case c.Verb == "create" && c.Subresource == "":
		d.Name = step
	}
	return d
}

func (s *Step) defaultName(number string) string {
	return append(s.setVerbs(), "step")[0] + "-" + number
}

// Verb is the field that says what the step does, such as create.
func (s *Step) Verb() string { return append(s.setVerbs(), "pause")[0] }

// setVerbs are the fields of the step that say what it does.
func (s *Step) setVerbs() []string {
	var out []string
	v := reflect.ValueOf(s).Elem()
	for _, f := range strictyaml.Fields(v.Type()) {
		if slices.Contains(stepVerbs(), f.Name) && !v.Field(f.Index).IsZero() {
			out = append(out, f.Name)
		}
	}
	return out
}

// stepVerbs are the fields of which a step has exactly one.
func stepVerbs() []string {
	return slices.DeleteFunc(strictyaml.Names(strictyaml.Fields(reflect.TypeFor[Step]())), func(name string) bool {
		return slices.Contains([]string{"name", "cluster", "beside", "expects", "clients", "onFailure", "when"}, name)
	})
}

// takeMeasure takes the query of the measure that the objective names.
func (o *Objective) takeMeasure(all []Measure) {
	i := slices.IndexFunc(all, func(m Measure) bool { return m.Name == o.Measure && m.Query != "" })
	if o.Measure == "" || i < 0 { // validation says what is wrong
		return
	}
	m := all[i]
	o.Name, o.Query, o.Unit, o.Since, o.Until = cmp.Or(o.Name, m.Name), m.Query, m.Unit, m.Since, m.Until
}

func (o *Objective) fillDerived() {
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

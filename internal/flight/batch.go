package flight

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/load/pace"
	"github.com/windtunnel/windtunnel/internal/load/template"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// batch is the objects that a step goes through, in order. Its pace is of
// units, which are indices unless the step says otherwise.
type batch struct {
	m     *made
	count int
	units int
	at    func(i int) spot
	unit  func(i int) int
}

// between is the objects with an index of at least from and below to.
func (m *made) between(l layout, from, to int) batch {
	b := batch{m: m, count: l.count(from, to), units: l.spaces * (to - from)}
	b.at = func(i int) spot { return l.at(i, from, to) }
	b.unit = func(i int) int { s := b.at(i); return s.space*(to-from) + s.index - from }
	return b
}

// reversed is the same objects, the last one first.
func (b batch) reversed() batch {
	out := b
	out.at = func(i int) spot { return b.at(b.count - 1 - i) }
	out.unit = func(i int) int { return b.units - 1 - b.unit(b.count-1-i) }
	return out
}

// first is the objects of the first so many units.
func (b batch) first(units int) batch {
	if units >= b.units {
		return b
	}
	n := 0
	for n < b.count && b.unit(n) < units {
		n++
	}
	b.count, b.units = n, units
	return b
}

// listed is a list of objects, in the order of their units.
func (m *made) listed(spots []spot, units []int) batch {
	b := batch{m: m, count: len(spots)}
	if len(units) > 0 {
		b.units = units[len(units)-1] + 1
	}
	b.at = func(i int) spot { return spots[i] }
	b.unit = func(i int) int { return units[i] }
	return b
}

// pacing is a pace of units, as load wants it of calls.
type pacing struct {
	*pace.Pace
	unit  func(i int) int
	shift func(i int) time.Duration // later by so much; nil: not at all
	calls float64                   // of a unit, on average
}

func (p pacing) Due(i int) time.Duration {
	due := p.Pace.Due(p.unit(i))
	if p.shift != nil && due != pace.Never {
		due += p.shift(i)
	}
	return due
}

func (p pacing) Rate() float64 { return p.Pace.Rate() * p.calls }

// paced returns the batch's pace for a step.
func (r *run) paced(step string, b batch, p scenario.Pace) pacing {
	return pacing{Pace: r.pacer(step, p, b.units), unit: b.unit, calls: float64(b.count) / float64(max(1, b.units))}
}

func retries(r scenario.Retry) load.Retry {
	return load.Retry{Times: r.Times, Codes: r.Codes, Delay: time.Duration(r.Delay)}
}

// forms makes a form for each kind of a step's objects, and their operations.
func (m *made) forms(step string, t load.Target) ([]*load.Form, []record.Op, error) {
	var forms []*load.Form
	var ops []record.Op
	for k := range m.kinds {
		f, err := load.NewForm(m.kinds[k].resource, t)
		if err != nil {
			return nil, nil, err
		}
		forms, ops = append(forms, f), append(ops, f.Op(step))
	}
	return forms, ops, nil
}

// creation is the plan of making a batch: the same requests in the same order
// for the same scenario, parameters and seed (rule of measurement 6).
func (r *run) creation(step string, b batch, timeout time.Duration) (load.Plan, error) {
	m := b.m
	forms, ops, err := m.forms(step, load.Target{Verb: "create"})
	if err != nil {
		return load.Plan{}, err
	}
	return load.Plan{
		Step: step, Ops: ops, Count: b.count,
		Build: func(i int, req *load.Request) (bool, error) {
			s := b.at(i)
			k := &m.kinds[s.item]
			v := m.vars(s)
			body, media, err := k.render(req.Body, v)
			if err != nil {
				if k.optional && errors.Is(err, template.ErrEmpty) {
					return false, nil
				}
				return false, err
			}
			namespace, name := v.Namespace, v.Name
			if k.own {
				// A name that the server makes up is none to remember.
				if at, _, err := m.own(s, body); err == nil {
					namespace = at
				}
			}
			forms[s.item].Fill(req, namespace, name)
			req.Op, req.Body, req.ContentType, req.Timeout = s.item, body, media, timeout
			return true, nil
		},
		Done: func(a load.Result) {
			again := a.Attempt > 0 && a.Response.Code == http.StatusConflict // an attempt before it had reached the server
			if a.Last && (a.Outcome != record.Failed || again) {
				m.set(b.at(a.Index), true)
			}
		},
	}, nil
}

// deletion is the plan of deleting a batch; what is not there is left out.
func (r *run) deletion(step string, b batch, propagation string, timeout time.Duration) (load.Plan, error) {
	m := b.m
	forms, ops, err := m.forms(step, load.Target{Verb: "delete", Propagation: propagation})
	if err != nil {
		return load.Plan{}, err
	}
	return load.Plan{
		Step: step, Ops: ops, Count: b.count,
		Build: func(i int, req *load.Request) (bool, error) {
			s := b.at(i)
			req.Op = s.item
			if !m.has(s) {
				return false, nil
			}
			namespace, name, err := m.address(s)
			if err != nil {
				return false, err
			}
			forms[s.item].Fill(req, namespace, name)
			req.Timeout = timeout
			return true, nil
		},
		Done: func(a load.Result) {
			if a.Outcome == record.OK || a.Response.Code == http.StatusNotFound {
				m.set(b.at(a.Index), false)
			}
		},
	}, nil
}

// send runs a plan; one without calls is done.
func (r *run) send(ctx context.Context, p load.Plan) error {
	if p.Count == 0 && p.For == 0 {
		return nil
	}
	return r.generator.Run(ctx, p)
}

func (r *run) createObjects(ctx context.Context, step string, c *scenario.Create) error {
	m, err := r.prepare(ctx, step, c)
	if err != nil {
		return err
	}
	m.setUpTo(max(c.Count, c.PerNamespace))
	b := m.between(m.layout, 0, m.upTo())
	if c.PerObject {
		b.unit, b.units = func(i int) int { return i }, b.count
	}
	p, err := r.creation(step, b, time.Duration(c.Timeout))
	if err != nil {
		return err
	}
	pace := r.paced(step, b, c.Pace)
	if c.Pause > 0 {
		pace.shift = m.pauses()
	}
	p.Pace, p.Retry = pace, retries(c.Retry)
	return r.send(ctx, p)
}

// pauses is how much later objects are due because of the pauses before them.
func (m *made) pauses() func(i int) time.Duration {
	indices := m.between(m.layout, 0, m.upTo())
	return func(i int) time.Duration { return time.Duration(indices.unit(i)) * time.Duration(m.create.Pause) }
}

func (r *run) deleteObjects(ctx context.Context, step string, d *scenario.Delete) error {
	m := r.known(d.Step)
	if m == nil {
		return nil // its step was not reached
	}
	b := m.between(m.layout, 0, m.upTo())
	p, err := r.deletion(step, b, d.Propagation, time.Duration(d.Timeout))
	if err != nil {
		return err
	}
	p.Pace = r.paced(step, b, d.Pace)
	if err := r.send(ctx, p); err != nil {
		return err
	}
	if m.empty() {
		m.setUpTo(0)
	}
	return nil
}

// empty tells whether nothing is there any more.
func (m *made) empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.ContainsFunc(m.there, func(word uint64) bool { return word != 0 })
}

// known returns what a create step made; nil when it was not reached.
func (r *run) known(step string) *made {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.made[step]
}

// scale makes the indices that are missing, or deletes the highest ones.
func (r *run) scale(ctx context.Context, step string, x *scenario.Scale) error {
	m := r.known(x.Step)
	if m == nil {
		return nil
	}
	from, to := m.upTo(), max(x.To, x.PerNamespace)
	var b batch
	var p load.Plan
	var err error
	if to >= from {
		m.setUpTo(to)
		b = m.between(m.layout, from, to)
		p, err = r.creation(step, b, time.Duration(x.Timeout))
	} else {
		b = m.between(m.layout, to, from).reversed()
		p, err = r.deletion(step, b, x.Propagation, time.Duration(x.Timeout))
	}
	if err != nil {
		return err
	}
	p.Pace = r.paced(step, b, x.Pace)
	err = r.send(ctx, p)
	m.setUpTo(to)
	return err
}

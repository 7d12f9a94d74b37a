package flight

import (
	"context"
	"time"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/load/template"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// change is what an update step sends to each object of one kind.
type change struct {
	form *load.Form
	get  *load.Form         // before it, for put
	body *template.Template // nil: that of the object
	with map[string]any
	part bool // the body is a patch, not a whole object
}

func (r *run) update(ctx context.Context, step string, x *scenario.Update) error {
	m := r.known(x.Step)
	if m == nil {
		return nil
	}
	l := m.layout.only(func(i scenario.Item) bool { return x.Object == "" || i.Body == x.Object })
	b := m.between(l, 0, m.upTo())
	if x.First > 0 {
		b = b.first(x.First)
	}
	p, err := r.updating(step, b, x)
	if err != nil {
		return err
	}
	p.Pace, p.Retry = r.paced(step, b, x.Pace), retries(x.Retry)
	return r.send(ctx, p)
}

// updating is the plan of an update step. Of each kind there are two
// operations: the change, and the GET that goes before a PUT.
func (r *run) updating(step string, b batch, x *scenario.Update) (load.Plan, error) {
	m := b.m
	changes, ops, err := r.changes(step, m, x)
	if err != nil {
		return load.Plan{}, err
	}
	p := load.Plan{Step: step, Ops: ops, Count: b.count, Build: func(i int, req *load.Request) (bool, error) {
		s := b.at(i)
		c := &changes[s.item]
		req.Op, req.Timeout = 2*s.item, time.Duration(x.Timeout)
		if !m.has(s) {
			return false, nil
		}
		namespace, name, err := m.address(s)
		if err != nil {
			return false, err
		}
		if c.get != nil {
			c.get.Fill(req, namespace, name)
			req.Op, req.Discard = 2*s.item+1, false
			return true, nil
		}
		c.form.Fill(req, namespace, name)
		req.Body, err = c.render(m, s, req.Body)
		return err == nil, err
	}}
	if x.Method == "put" {
		p.Then = func(a load.Result, req *load.Request) (bool, error) {
			if a.Chain > 0 {
				return false, nil
			}
			s := b.at(a.Index)
			req.Op, req.Timeout = 2*s.item, time.Duration(x.Timeout)
			return true, changes[s.item].put(m, s, a, req)
		}
	}
	return p, nil
}

func (r *run) changes(step string, m *made, x *scenario.Update) ([]change, []record.Op, error) {
	var out []change
	var ops []record.Op
	for k := range m.kinds {
		kind := &m.kinds[k]
		c := change{with: merged(kind.with, x.With)}
		if x.Body != "" {
			c.body, c.part = r.bodies[x.Body], x.Method != "put" && x.Method != "apply"
		}
		target := load.Target{Verb: "patch", Patch: x.Method}
		if x.Method == "put" {
			target = load.Target{Verb: "update"}
		}
		var err error
		if c.form, err = load.NewForm(kind.resource, target); err != nil {
			return nil, nil, err
		}
		get, err := load.NewForm(kind.resource, load.Target{Verb: "get"})
		if err != nil {
			return nil, nil, err
		}
		if x.Method == "put" {
			c.get = get
		}
		out, ops = append(out, c), append(ops, c.form.Op(step), get.Op(step))
	}
	return out, ops, nil
}

// render appends the body of an object's change.
func (c *change) render(m *made, s spot, dst []byte) ([]byte, error) {
	body := c.body
	if body == nil {
		body = m.kinds[s.item].body
	}
	if c.part {
		return body.RenderPatch(dst, m.varsWith(s, c.with))
	}
	return body.Render(dst, m.varsWith(s, c.with))
}

// put fills the PUT that follows a GET.
func (c *change) put(m *made, s spot, got load.Result, req *load.Request) error {
	version := load.ResourceVersion(got.Response.Body)
	namespace, name, err := m.address(s)
	if err != nil {
		return err
	}
	object, err := c.render(m, s, nil)
	if err != nil {
		return err
	}
	c.form.Fill(req, namespace, name)
	req.Body, err = load.AppendVersioned(req.Body, object, version)
	return err
}

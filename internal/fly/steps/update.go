package steps

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// change is what an update step sends to each object of one item.
type change struct {
	form   *load.Form
	get    *load.Form         // before it, for put
	body   *template.Template // nil: that of the object
	with   map[string]any
	part   bool // the body is a patch, not a whole object
	strict bool // as of an item
}

// Update changes each object that a create step made.
type Update struct {
	Step string
	Spec *scenario.Update
}

// Do changes them; of a step that was not reached there are none.
func (x Update) Do(ctx context.Context, s *Session) error { return s.sendPlanned(ctx, x) }

func (x Update) paceOf() scenario.Pace { return x.Spec.Pace }

func (x Update) planCalls(_ context.Context, s *Session) (planned, error) {
	o, err := s.Created.findUsable(x.Spec.Step)
	if o == nil || err != nil {
		return planned{}, err
	}
	l := o.layout.Filter(func(i scenario.Item) bool { return x.Spec.Object == "" || i.Body == x.Spec.Object })
	b := o.batchBetween(l, 0, o.UpTo())
	lacksUnits := x.Spec.First > b.units
	if x.Spec.First > 0 {
		b = b.firstUnits(x.Spec.First)
	}
	var leftOut atomic.Int64 // since they have been deleted meanwhile
	p, err := x.planUpdate(s.Workload, b, &leftOut)
	if err != nil {
		return planned{}, err
	}
	lacks := o.lacks("changed", b)
	if lacksUnits {
		lacks = append(lacks, fmt.Sprintf("update.first is %d, and step %q has only %d", x.Spec.First, o.step, b.units))
	}
	p.Pace, p.Retry = pacingOf(s.Workload, x.Step, b, x.Spec.Pace), workload.RetryOf(x.Spec.Retry)
	return planned{Plan: p, lacks: lacks, after: func(_ context.Context, sent error) error {
		if n := int(leftOut.Load()); n > 0 && len(lacks) == 0 {
			s.noteLacks(x.Step, []string{fmt.Sprintf("%s of step %s %v before they were to change", unit.Count(n, "objects"), o.step, errDeleted)})
		}
		return sent
	}}, nil
}

// planUpdate are what the step sends. Of each item there are two
// operations: the change, and the GET that goes before a PUT.
func (x Update) planUpdate(w *workload.Workload, b batch, leftOut *atomic.Int64) (load.Plan, error) {
	o := b.objects
	changes, ops, err := x.newChanges(w, o)
	if err != nil {
		return load.Plan{}, err
	}
	p := load.Plan{Step: x.Step, Ops: ops, Count: b.count, Object: b.describeObject, Build: func(i int, req *load.Request) (bool, error) {
		n := b.ordinal(i)
		c := &changes[n.Item]
		req.Op, req.Timeout = 2*n.Item, time.Duration(x.Spec.Timeout)
		if !o.isThere(n) {
			o.countLeftOut(n, leftOut)
			return false, nil
		}
		namespace, name, err := o.addressOf(n)
		if err != nil {
			return false, err
		}
		if c.get != nil {
			c.get.Fill(req, namespace, name)
			req.Op, req.Discard = 2*n.Item+1, false
			return true, nil
		}
		c.fillRequest(req, namespace, name)
		req.Body, err = c.renderChange(o, n, req.Body)
		return err == nil, err
	}}
	if x.Spec.Method == "put" {
		p.Then = func(a load.Result, req *load.Request) (bool, error) {
			if a.Chain > 0 {
				return false, nil
			}
			n := b.ordinal(a.Index)
			req.Op, req.Timeout = 2*n.Item, time.Duration(x.Spec.Timeout)
			return true, changes[n.Item].fillPut(o, n, a, req)
		}
	}
	return p, nil
}

func (x Update) newChanges(w *workload.Workload, o *Objects) ([]change, []record.Op, error) {
	var out []change
	var ops []record.Op
	for k := range o.items {
		it := &o.items[k]
		c := change{with: workload.MergeVariables(it.with, x.Spec.With), strict: w.IsStrict(cmp.Or(x.Spec.Body, it.Body))}
		if x.Spec.Body != "" {
			c.body, c.part = w.Bodies[x.Spec.Body], x.Spec.Method != "put" && x.Spec.Method != "apply"
		}
		target := load.Target{Verb: "patch", Patch: x.Spec.Method}
		if x.Spec.Method == "put" {
			target = load.Target{Verb: "update"}
		}
		var err error
		if c.form, err = load.NewForm(it.resource, target); err != nil {
			return nil, nil, err
		}
		get, err := load.NewForm(it.resource, load.Target{Verb: "get"})
		if err != nil {
			return nil, nil, err
		}
		if x.Spec.Method == "put" {
			c.get = get
		}
		out, ops = append(out, c), append(ops, c.form.Op(x.Step), get.Op(x.Step))
	}
	return out, ops, nil
}

// fillRequest makes req the change of an object; its body is to be added.
func (c *change) fillRequest(req *load.Request, namespace, name string) {
	c.form.Fill(req, namespace, name)
	if c.strict {
		req.Strict()
	}
}

// renderChange appends the body of an object's change.
func (c *change) renderChange(o *Objects, n inventory.Ordinal, dst []byte) ([]byte, error) {
	body := c.body
	if body == nil {
		body = o.items[n.Item].body
	}
	if c.part {
		return body.RenderPatch(dst, o.varsWith(n, c.with, 0))
	}
	return body.Render(dst, o.varsWith(n, c.with, 0))
}

// fillPut fills the PUT that follows a GET.
func (c *change) fillPut(o *Objects, n inventory.Ordinal, got load.Result, req *load.Request) error {
	version := load.ResourceVersion(got.Response.Body)
	namespace, name, err := o.addressOf(n)
	if err != nil {
		return err
	}
	object, err := c.renderChange(o, n, nil)
	if err != nil {
		return err
	}
	c.fillRequest(req, namespace, name)
	req.Body, err = load.AppendVersioned(req.Body, object, version)
	return err
}

package steps

import (
	"errors"
	"net/http"
	"sort"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/template"
)

// batch is the objects that a step goes through, in order. Its pace is of
// units, which are indices unless the step says otherwise.
type batch struct {
	objects *Objects
	count   int
	units   int
	ordinal func(i int) inventory.Ordinal
	unit    func(i int) int
	shift   func(i int) time.Duration // due later by so much; nil: not at all
}

// batchBetween is the objects with an index of at least from and below to.
func (o *Objects) batchBetween(l inventory.Layout, from, to int) batch {
	b := batch{objects: o, count: l.Count(from, to), units: l.Spaces * (to - from)}
	b.ordinal = func(i int) inventory.Ordinal { return l.Ordinal(i, from, to) }
	b.unit = func(i int) int { n := b.ordinal(i); return n.Space*(to-from) + n.Index - from }
	return b
}

// batchOfAll is all objects.
func (o *Objects) batchOfAll() batch { return o.batchBetween(o.layout, 0, o.UpTo()) }

// batchOfListed is a list of objects, in the order of their units.
func (o *Objects) batchOfListed(ordinals []inventory.Ordinal, units []int) batch {
	b := batch{objects: o, count: len(ordinals)}
	if len(units) > 0 {
		b.units = units[len(units)-1] + 1
	}
	b.ordinal = func(i int) inventory.Ordinal { return ordinals[i] }
	b.unit = func(i int) int { return units[i] }
	return b
}

// perObject is the same objects, with a pace of objects.
func (b batch) perObject() batch {
	b.unit, b.units = func(i int) int { return i }, b.count
	return b
}

// inReverse is the same objects, the last one first.
func (b batch) inReverse() batch {
	out := b
	out.ordinal = func(i int) inventory.Ordinal { return b.ordinal(b.count - 1 - i) }
	out.unit = func(i int) int { return b.units - 1 - b.unit(b.count-1-i) }
	return out
}

// firstUnits is the objects of the first so many units.
func (b batch) firstUnits(units int) batch {
	if units >= b.units {
		return b
	}
	b.count, b.units = sort.Search(b.count, func(n int) bool { return b.unit(n) >= units }), units
	return b
}

// describeObject names an object for messages.
func (b batch) describeObject(i int) string {
	namespace, name, err := b.objects.addressOf(b.ordinal(i))
	if err != nil {
		return ""
	}
	return namespace + "/" + name
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

// planCreation is the plan of making a batch: the same requests in the same order
// for the same scenario, parameters and seed (rule of measurement 6).
func (b batch) planCreation(step string, timeout time.Duration) (load.Plan, error) {
	o := b.objects
	forms, ops, err := o.newForms(step, load.Target{Verb: "create"})
	if err != nil {
		return load.Plan{}, err
	}
	return load.Plan{
		Step: step, Ops: ops, Count: b.count,
		Build: func(i int, req *load.Request) (bool, error) {
			n := b.ordinal(i)
			it := &o.items[n.Item]
			v := o.varsOf(n)
			body, media, err := it.renderBody(req.Body, v)
			if err != nil {
				if it.optional && errors.Is(err, template.ErrEmpty) {
					return false, nil
				}
				return false, err
			}
			namespace, name := v.Namespace, v.Name
			if it.namesSelf {
				// A name that the server makes up is none to remember.
				if in, _, err := o.ownAddress(n, body); err == nil {
					namespace = in
				}
			}
			forms[n.Item].Fill(req, namespace, name)
			req.Op, req.Body, req.ContentType, req.Timeout = n.Item, body, media, timeout
			if it.strict && media == load.JSON { // one in protobuf was decoded strictly when it was packed
				req.Strict()
			}
			req.Discard = !o.isShared() // else its UID is read
			return true, nil
		},
		Object: b.describeObject,
		Done: func(a load.Result) {
			o.noteAnswer(b.ordinal(a.Index), a, o.expects(step, a.Response.Code))
		},
	}, nil
}

// requireUID lets a deletion be of the object that was made, and of no other that has its
// name by now. False: it is not known which one was made, so none is deleted.
func (o *Objects) requireUID(n inventory.Ordinal, req *load.Request) bool {
	if !o.isShared() {
		return true
	}
	uid := o.UID(o.layout.NumberOf(n))
	req.Body = load.AppendPrecondition(req.Body, uid)
	return uid != ""
}

// planDeletion is the plan of deleting a batch; what is not there is left out.
func (b batch) planDeletion(step, propagation string, timeout time.Duration) (load.Plan, error) {
	o := b.objects
	forms, ops, err := o.newForms(step, load.Target{Verb: "delete", Propagation: propagation})
	if err != nil {
		return load.Plan{}, err
	}
	return load.Plan{
		Step: step, Ops: ops, Count: b.count,
		Build: func(i int, req *load.Request) (bool, error) {
			n := b.ordinal(i)
			req.Op = n.Item
			if !o.isThere(n) {
				return false, nil
			}
			namespace, name, err := o.addressOf(n)
			if err != nil {
				return false, err
			}
			forms[n.Item].Fill(req, namespace, name)
			req.Timeout = timeout
			return o.requireUID(n, req), nil
		},
		Object: b.describeObject,
		Done: func(a load.Result) {
			if a.Outcome == record.OK || a.Response.Code == http.StatusNotFound {
				o.setThere(b.ordinal(a.Index), false)
			}
		},
	}, nil
}

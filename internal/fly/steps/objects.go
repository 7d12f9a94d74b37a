package steps

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/internal/template/protobuf"
	"github.com/windtunnel/windtunnel/scenario"
)

// Objects is what a create step makes. Of each object one bit is kept: whether it
// is there. Names follow from the ordinal, or from rendering the body again where
// it names its objects by itself.
type Objects struct {
	step       string
	create     *scenario.Create
	layout     inventory.Layout
	namespaces []string // that it goes through
	items      []item   // of the layout
	seed       uint64
	expects    func(step string, code int) bool // tells calls that fail as they should
	stamp      object.Stamp                     // of what it makes in a cluster that is not the run's own; else zero
	inventory.Presence
}

// noteAnswer remembers how the last attempt to make an object ended.
func (o *Objects) noteAnswer(n inventory.Ordinal, a load.Result, expected bool) {
	switch {
	case !a.Last:
	case a.Outcome != record.Failed || a.Reached:
		o.noteMade(n, a)
	case !expected:
		o.Refuse(o.layout.NumberOf(n), load.Answer(a))
	}
}

// isShared tells that the objects are in a cluster that is not the run's own: they
// are known by their UIDs.
func (o *Objects) isShared() bool { return o.stamp.Run != "" }

// noteMade remembers an object that is there, or may be.
func (o *Objects) noteMade(n inventory.Ordinal, a load.Result) {
	if !o.isShared() {
		o.setThere(n, true)
		return
	}
	uid := ""
	if a.Outcome == record.OK {
		uid = load.UID(a.Response.Body)
	}
	if uid == "" {
		o.MarkUnconfirmed(n)
		return
	}
	o.SetUID(o.layout.NumberOf(n), uid)
}

// item is one of the bodies that a create step makes objects of.
type item struct {
	scenario.Item
	body      *template.Template
	with      map[string]any
	resource  discovery.Resource
	namesSelf bool               // its body names the objects, not the scenario
	packed    *protobuf.Template // the body's protobuf form; nil: its name has to be read from its JSON
	optional  bool               // the body may leave an object out
	strict    bool               // a field that its kind does not have is refused: the tools of other dialects let it pass
}

// errNameless says that an object cannot be addressed.
var errNameless = errors.New("its body gives it no name of its own")

// tryItem renders the first object of an item, and sees whether its body names it.
func (o *Objects) tryItem(number int) error {
	it, n := &o.items[number], inventory.Ordinal{Item: number, Replica: 1}
	for range workload.MaxTries {
		raw, err := it.body.Render(nil, o.varsOf(n))
		if err == nil {
			about, _ := object.ReadMetadata(raw) // of what is no JSON: nameless
			it.namesSelf = it.namesSelf || about.Name != o.nameOf(n) || about.Namespace != "" && about.Namespace != o.namespaceOf(n)
			return nil
		}
		if !it.optional || !errors.Is(err, template.ErrEmpty) {
			return err
		}
		n.Index += inventory.Every(it.Item)
	}
	return nil
}

// errNotMade says that objects which a step depends on could not be made.
var errNotMade = errors.New("could not be made")

// allMade is an error where some of the objects could not be made, though their
// step did not expect that.
func (o *Objects) allMade() error {
	if refused, of, why := o.Refusals(); refused > 0 {
		return fmt.Errorf("%d of %d objects of step %q %w: %s", refused, of, o.step, errNotMade, why)
	}
	return nil
}

// madeNone is an error where none of them could be.
func (o *Objects) madeNone() error {
	if refused, of, _ := o.Refusals(); refused < of {
		return nil
	}
	return o.allMade()
}

// noneThere tells that no object is there, though some were to be: what another tool's
// template may leave out was not.
func (o *Objects) noneThere() bool {
	return o.Empty() && slices.ContainsFunc(o.items, func(i item) bool { return !i.optional })
}

// lacks says which of the objects that a step works on it does not find, because they could
// not be made or are gone, and what that step did with the others.
func (o *Objects) lacks(did string, b batch) (out []string) {
	if o.noneThere() {
		return []string{fmt.Sprintf("none of the objects of step %s is there: it %s none", o.step, did)}
	}
	if err := o.allMade(); err != nil {
		out = append(out, fmt.Sprintf("it %s only those that are there: %v", did, err))
	}
	if err := o.noneGone(b); err != nil {
		out = append(out, fmt.Sprintf("it %s only those that are there: %v", did, err))
	}
	return out
}

// noneGone is an error where some of a batch were there and were deleted.
func (o *Objects) noneGone(b batch) error {
	if n := o.CountGone(b.count, func(i int) int { return o.layout.NumberOf(b.ordinal(i)) }); n > 0 {
		return fmt.Errorf("%d of %d objects of step %q %w", n, b.count, o.step, errDeleted)
	}
	return nil
}

// countLeftOut counts a call that is left out since its object has been deleted.
func (o *Objects) countLeftOut(n inventory.Ordinal, out *atomic.Int64) {
	if to := o.UpTo(); to == 0 && o.UpToEver() > 0 || to > 0 && o.CountGone(1, func(int) int { return o.layout.NumberOf(n) }) > 0 {
		out.Add(1)
	}
}

// errDeleted says that objects which a step works on are gone.
var errDeleted = errors.New("had been deleted")

// isThere tells whether an object is there, as far as the answers say.
func (o *Objects) isThere(n inventory.Ordinal) bool { return o.Has(o.layout.NumberOf(n)) }

// setThere remembers whether an object is there.
func (o *Objects) setThere(n inventory.Ordinal, there bool) { o.Set(o.layout.NumberOf(n), there) }

// namespaceOf returns the namespace of an object.
func (o *Objects) namespaceOf(n inventory.Ordinal) string {
	count := len(o.namespaces)
	switch c := o.create; {
	case c.PerNamespace > 0:
		return o.namespaces[n.Space]
	case c.Namespaces != nil && c.Namespaces.Each > 0:
		return o.namespaces[n.Index/c.Namespaces.Each%count]
	}
	return o.namespaces[n.Index%count]
}

// nameOf returns the name that the scenario gives an object.
func (o *Objects) nameOf(n inventory.Ordinal) string {
	return inventory.NameOf(o.items[n.Item].Item, n)
}

// renderBody appends an object's body, as protobuf where that gives the same object
// for less of the server's CPU, and returns its media type.
func (it *item) renderBody(dst []byte, v template.Vars) (body []byte, mediaType string, err error) {
	if it.packed != nil {
		return it.packed.Render(dst, v)
	}
	body, err = it.body.Render(dst, v)
	return body, load.JSON, err
}

func (o *Objects) varsOf(n inventory.Ordinal) template.Vars {
	return o.varsWith(n, o.items[n.Item].with, 0)
}

func (o *Objects) varsWith(n inventory.Ordinal, with map[string]any, call int) template.Vars {
	return template.Vars{
		Name: o.nameOf(n), Namespace: o.namespaceOf(n), Group: o.create.Group, Index: n.Index, Replica: n.Replica, Call: call,
		Seed: o.seed, With: with,
	}
}

// addressOf returns where an object is.
func (o *Objects) addressOf(n inventory.Ordinal) (namespace, name string, err error) {
	it := &o.items[n.Item]
	if !it.namesSelf {
		return o.namespaceOf(n), o.nameOf(n), nil
	}
	raw, err := it.body.Render(nil, o.varsOf(n))
	if err != nil {
		return "", "", err
	}
	return o.ownAddress(n, raw)
}

// ownAddress returns where an object is that names itself.
func (o *Objects) ownAddress(n inventory.Ordinal, raw []byte) (namespace, name string, err error) {
	about, _ := object.ReadMetadata(raw) // of what is no JSON: nameless
	namespace, name = about.Namespace, about.Name
	if namespace == "" {
		namespace = o.namespaceOf(n)
	}
	if name == "" {
		return "", "", fmt.Errorf("object %d of step %q: %w", n.Index, o.step, errNameless)
	}
	return namespace, name, nil
}

// makes tells whether objects of a resource are among those of the step. Bodies that leave
// out all of their objects may be of any.
func (o *Objects) makes(resource discovery.Resource) bool {
	return slices.ContainsFunc(o.items, func(i item) bool { return i.resource == resource || i.resource.Name == "" })
}

// countResource returns how many of the objects of a resource are there.
func (o *Objects) countResource(resource discovery.Resource) int {
	count, to := 0, o.UpTo()
	for i := range o.layout.Count(0, to) {
		if n := o.layout.Ordinal(i, 0, to); o.items[n.Item].resource == resource && o.isThere(n) {
			count++
		}
	}
	return count
}

// newMatcher returns what tells whether an object of a resource is one that the step
// made; with deleted, also one that was deleted since then, whose finalizers may
// keep it.
func (o *Objects) newMatcher(resource discovery.Resource, deleted bool) (func(namespace, name string) bool, error) {
	known := map[[2]string]bool{} // of those that name themselves
	to, counts := o.UpTo(), o.isThere
	if deleted {
		to, counts = o.UpToEver(), func(inventory.Ordinal) bool { return true }
	}
	for i := range o.layout.Count(0, to) {
		n := o.layout.Ordinal(i, 0, to)
		if it := &o.items[n.Item]; it.resource == resource && it.namesSelf && counts(n) {
			namespace, name, err := o.addressOf(n)
			if err != nil {
				return nil, err
			}
			known[[2]string{namespace, name}] = true
		}
	}
	return func(namespace, name string) bool {
		for k := range o.items {
			if o.items[k].resource == resource && !o.items[k].namesSelf && o.isNamed(k, [2]string{namespace, name}, to, counts) {
				return true
			}
		}
		return known[[2]string{namespace, name}] || !resource.Namespaced && known[[2]string{o.namespaces[0], name}]
	}, nil
}

// isNamed tells whether a name is one that the scenario gave an object of an item,
// below an index and of those that count.
func (o *Objects) isNamed(number int, address [2]string, to int, counts func(inventory.Ordinal) bool) bool {
	namespace, it := address[0], &o.items[number]
	n, ok := inventory.ParseName(it.Item, address[1])
	if n.Item = number; !ok || n.Index >= to {
		return false
	}
	for n.Space = range o.layout.Spaces {
		if (o.namespaceOf(n) == namespace || !it.resource.Namespaced) && counts(n) {
			return true
		}
	}
	return false
}

// newForms makes a form for each item of a step's objects, and their operations.
func (o *Objects) newForms(step string, t load.Target) ([]*load.Form, []record.Op, error) {
	var forms []*load.Form
	var ops []record.Op
	for k := range o.items {
		f, err := load.NewForm(o.items[k].resource, t)
		if err != nil {
			return nil, nil, err
		}
		forms, ops = append(forms, f), append(ops, f.Op(step))
	}
	return forms, ops, nil
}

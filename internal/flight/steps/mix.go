package steps

import (
	"context"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/load/template"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// mixed is one kind of call of a mix. What the i-th call is follows from i and
// the seed alone, so that it can be made again.
type mixed struct {
	call       *scenario.Call
	form       *load.Form
	get        *load.Form // before it, for an update
	op         int        // of the form; that of get is the next
	body       *template.Template
	with       map[string]any // of the body
	objects    *Objects       // with of: those of its step
	layout     layout         // of these, those that are meant: all of one item
	namespaces []string       // in turn, without of
	found      [][2]string    // objects that the labels selected: namespace and name
	rounds     bool           // the index counts rounds through what was found
	seed       uint64
}

// target is what one call is about.
type target struct {
	namespace, name string
	vars            template.Vars
	missing         bool    // it is not there
	ordinal         ordinal // with of
}

// newMixed makes one kind of a mix ready: where it goes to, and to what.
func (s *Session) newMixed(ctx context.Context, step string, c *scenario.Call) (*mixed, error) {
	k := &mixed{call: c, body: s.Workload.bodies[c.Body], with: c.With, namespaces: s.Workload.namespaces(&scenario.Create{Namespace: c.Namespace})}
	resource, err := s.mixedResource(ctx, step, k)
	if err != nil {
		return nil, err
	}
	k.form, err = load.NewForm(resource, load.Target{
		Verb: c.Verb, Subresource: c.Subresource, AllNamespaces: c.Namespace == "*", Patch: c.Patch, Selector: k.selector(),
		FieldSelector: c.FieldSelector, Limit: c.Limit, ResourceVersion: c.ResourceVersion, Hold: time.Duration(c.Hold), Propagation: c.Propagation,
	})
	if err != nil {
		return nil, err
	}
	if c.Verb == "update" {
		if k.get, err = load.NewForm(resource, load.Target{Verb: "get", Subresource: c.Subresource}); err != nil {
			return nil, err
		}
	}
	if k.selects() {
		k.found, err = s.listSelected(ctx, resource, c)
	}
	return k, err
}

// ofCollection tells whether a call is about a collection.
func (k *mixed) ofCollection() bool {
	return k.call.Verb == "list" || k.call.Verb == "watch" || k.call.Verb == "deletecollection"
}

// selects tells whether the call's objects are those that labels select.
func (k *mixed) selects() bool {
	return !k.ofCollection() && k.call.Resource != "" && k.call.Name == ""
}

func (k *mixed) selector() string {
	if k.ofCollection() {
		return k.call.Selector
	}
	return ""
}

// mixedResource returns what a kind of call is about.
func (s *Session) mixedResource(ctx context.Context, step string, k *mixed) (discovery.Resource, error) {
	c := k.call
	switch {
	case c.Of != "":
		var err error
		if k.objects, err = s.Created.reached(c.Of); err != nil {
			return discovery.Resource{}, err
		}
		k.layout = k.objects.layout.filter(func(i scenario.Item) bool { return c.Object == "" || i.Body == c.Object })
		it := &k.objects.items[k.layout.number[0]]
		k.with = merged(it.with, c.With)
		return it.resource, nil
	case c.Resource != "":
		return s.findServed(ctx, func() (discovery.Resource, error) { return s.Load.Resources().Named(ctx, c.Resource) })
	}
	vars := template.Vars{Name: c.Name + "-0", Namespace: k.namespaces[0], Group: step, Seed: s.Workload.Scenario.Seed, With: c.With}
	if _, err := k.body.Render(nil, vars); err != nil {
		return discovery.Resource{}, err
	}
	return s.findServed(ctx, func() (discovery.Resource, error) {
		return s.Load.Resources().Kind(ctx, k.body.APIVersion(), k.body.Kind())
	})
}

// listSelected lists the objects that a call's labels select, once: its calls go
// through them in turn.
func (s *Session) listSelected(ctx context.Context, resource discovery.Resource, c *scenario.Call) ([][2]string, error) {
	paths := []string{resource.All()}
	if resource.Namespaced && c.Namespace != "*" {
		paths = nil
		for _, space := range s.Workload.namespaces(&scenario.Create{Namespace: c.Namespace}) {
			paths = append(paths, resource.Collection(space))
		}
	}
	var out [][2]string
	for _, path := range paths {
		err := discovery.ListMetadata(ctx, s.Client, path, c.Selector, func(o discovery.Metadata) { out = append(out, [2]string{o.Namespace, o.Name}) })
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// target says what the n-th call is about.
func (k *mixed) target(n int) (target, error) {
	c := k.call
	inTurn := k.namespaces[n%len(k.namespaces)]
	v := template.Vars{Name: c.Name, Namespace: inTurn, Index: n, Seed: k.seed, With: k.with}
	switch {
	case k.ofCollection() && k.objects != nil:
		v.Namespace = k.objects.namespaces[n%len(k.objects.namespaces)]
	case k.ofCollection():
	case k.objects != nil:
		return k.pickObject(n)
	case k.selects():
		if len(k.found) == 0 {
			return target{missing: true}, nil
		}
		at := k.found[n%len(k.found)]
		if v.Namespace, v.Name = at[0], at[1]; k.rounds {
			v.Index = n / len(k.found)
		}
	case c.Verb == "create" && c.Subresource == "":
		v.Name = c.Name + "-" + strconv.Itoa(n)
	}
	return target{namespace: v.Namespace, name: v.Name, vars: v}, nil
}

// pickObject chooses one of those that a create step made.
func (k *mixed) pickObject(n int) (target, error) {
	to := k.objects.upTo()
	count := k.layout.count(0, to)
	if count == 0 {
		return target{missing: true}, nil
	}
	i := n % count
	if k.call.Pick == "random" {
		i = int(load.Draw(k.seed, n) % uint64(count))
	}
	at := k.layout.ordinal(i, 0, to)
	if !k.objects.isThere(at) {
		return target{missing: true}, nil
	}
	namespace, name, err := k.objects.address(at)
	return target{namespace: namespace, name: name, vars: k.objects.varsWith(at, k.with), ordinal: at}, err
}

// build fills the n-th call.
func (k *mixed) build(n int, req *load.Request) (bool, error) {
	t, err := k.target(n)
	if err != nil || t.missing {
		req.Op = k.op
		return false, err
	}
	if k.get != nil {
		k.get.Fill(req, t.namespace, t.name)
		req.Op, req.Discard = k.op+1, false
		return true, nil
	}
	return k.fill(t, req)
}

// fill makes the call itself.
func (k *mixed) fill(t target, req *load.Request) (bool, error) {
	req.Op = k.op
	k.form.Fill(req, t.namespace, t.name)
	if k.body == nil {
		return true, nil
	}
	var err error
	if k.call.Verb == "patch" || k.call.Subresource != "" {
		req.Body, err = k.body.RenderPatch(req.Body, t.vars)
	} else {
		req.Body, err = k.body.Render(req.Body, t.vars)
	}
	return err == nil, err
}

// put fills the PUT that follows a GET.
func (k *mixed) put(n int, got load.Result, req *load.Request) error {
	t, err := k.target(n)
	if err != nil {
		return err
	}
	version := load.ResourceVersion(got.Response.Body)
	if _, err := k.fill(t, req); err != nil {
		return err
	}
	object := req.Body
	req.Body, err = load.AppendVersioned(nil, object, version)
	return err
}

// done remembers what a call of the mix deleted.
func (k *mixed) done(n int, a load.Result) {
	if k.objects == nil || k.call.Verb != "delete" || a.Outcome != record.OK {
		return
	}
	if t, err := k.target(n); err == nil && !t.missing {
		k.objects.setThere(t.ordinal, false)
	}
}

package flight

import (
	"context"
	"fmt"
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
	call   *scenario.Call
	form   *load.Form
	get    *load.Form // before it, for an update
	op     int        // of the form; that of get is the next
	body   *template.Template
	with   map[string]any // of the body
	m      *made          // with of: its objects
	layout layout         // of these, those that are meant: all of one kind
	spaces []string       // namespaces in turn, without of
	found  [][2]string    // objects that the labels selected: namespace and name
	rounds bool           // the index counts rounds through what was found
	seed   uint64
}

// target is what one call is about.
type target struct {
	namespace, name string
	vars            template.Vars
	gone            bool // it is not there
	spot            spot // with of
}

func (r *run) requests(ctx context.Context, step string, x *scenario.Requests) error {
	p, err := r.mix(ctx, step, x)
	if err != nil || p.Count == 0 && p.For == 0 {
		return err
	}
	return r.send(ctx, p)
}

// mix is the plan of a requests step.
func (r *run) mix(ctx context.Context, step string, x *scenario.Requests) (load.Plan, error) {
	var kinds []*mixed
	var ops []record.Op
	var weights []float64
	for i := range x.Mix {
		k, err := r.mixedCall(ctx, step, &x.Mix[i])
		if err != nil {
			return load.Plan{}, err
		}
		k.op, k.seed, k.rounds = len(ops), r.seed(fmt.Sprint(step, i)), x.Rounds > 0
		ops = append(ops, k.form.Op(step))
		if k.get != nil {
			ops = append(ops, k.get.Op(step))
		}
		kinds, weights = append(kinds, k), append(weights, x.Mix[i].Weight)
	}
	choose := chooser(kinds, load.NewMix(weights, r.seed(step)), x.Rounds > 0)
	p := load.Plan{Step: step, Ops: ops, Count: x.Count, For: time.Duration(x.For), Retry: retries(x.Retry)}
	if x.Rounds > 0 {
		for _, k := range kinds {
			p.Count += x.Rounds * len(k.found)
		}
	}
	pace := r.pacer(step, x.Pace, p.Count)
	if n := pace.Count(); n > 0 && (p.Count == 0 || n < p.Count) {
		p.Count = n
	}
	p.Pace = pace
	p.Build = func(i int, req *load.Request) (bool, error) {
		k, n := choose(i)
		req.Timeout = time.Duration(x.Timeout)
		return kinds[k].build(n, req)
	}
	p.Then = func(a load.Result, req *load.Request) (bool, error) {
		k, n := choose(a.Index)
		if kinds[k].get == nil || a.Chain > 0 {
			return false, nil
		}
		req.Timeout = time.Duration(x.Timeout)
		return true, kinds[k].put(n, a, req)
	}
	p.Done = func(a load.Result) {
		k, n := choose(a.Index)
		kinds[k].done(n, a)
	}
	return p, nil
}

// chooser returns what says which kind the i-th call is, and its number there.
// In rounds each round goes through all that the kinds have found.
func chooser(kinds []*mixed, m load.Mix, rounds bool) func(i int) (kind, n int) {
	if !rounds {
		return func(i int) (int, int) { return m.Pick(i), i }
	}
	all := 0
	for _, k := range kinds {
		all += len(k.found)
	}
	return func(i int) (int, int) {
		round, rest := i/max(1, all), i%max(1, all)
		for k := range kinds {
			n := len(kinds[k].found)
			if rest < n {
				return k, round*n + rest
			}
			rest -= n
		}
		return 0, 0
	}
}

// mixedCall makes one kind of a mix ready: where it goes to, and to what.
func (r *run) mixedCall(ctx context.Context, step string, c *scenario.Call) (*mixed, error) {
	k := &mixed{call: c, body: r.bodies[c.Body], with: c.With, spaces: r.spaces(&scenario.Create{Namespace: c.Namespace})}
	resource, err := r.resourceOf(ctx, step, k)
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
		k.found, err = r.find(ctx, resource, c)
	}
	return k, err
}

// whole tells whether a call is about a collection.
func (k *mixed) whole() bool {
	return k.call.Verb == "list" || k.call.Verb == "watch" || k.call.Verb == "deletecollection"
}

// selects tells whether the call's objects are those that labels select.
func (k *mixed) selects() bool {
	return !k.whole() && k.call.Resource != "" && k.call.Name == ""
}

func (k *mixed) selector() string {
	if k.whole() {
		return k.call.Selector
	}
	return ""
}

// resourceOf returns what a kind of call is about.
func (r *run) resourceOf(ctx context.Context, step string, k *mixed) (discovery.Resource, error) {
	c := k.call
	switch {
	case c.Of != "":
		if k.m = r.known(c.Of); k.m == nil {
			return discovery.Resource{}, fmt.Errorf("step %q was not reached: it made nothing", c.Of)
		}
		k.layout = k.m.layout.only(func(i scenario.Item) bool { return c.Object == "" || i.Body == c.Object })
		kind := &k.m.kinds[k.layout.number[0]]
		k.with = merged(kind.with, c.With)
		return kind.resource, nil
	case c.Resource != "":
		return r.served(ctx, func() (discovery.Resource, error) { return r.generator.Resources().Named(ctx, c.Resource) })
	}
	vars := template.Vars{Name: c.Name + "-0", Namespace: k.spaces[0], Group: step, Seed: r.scenario.Seed, With: c.With}
	if _, err := k.body.Render(nil, vars); err != nil {
		return discovery.Resource{}, err
	}
	return r.served(ctx, func() (discovery.Resource, error) {
		return r.generator.Resources().Kind(ctx, k.body.APIVersion(), k.body.Kind())
	})
}

// find lists the objects that a call's labels select, once: its calls go
// through them in turn.
func (r *run) find(ctx context.Context, resource discovery.Resource, c *scenario.Call) ([][2]string, error) {
	paths := []string{resource.All()}
	if resource.Namespaced && c.Namespace != "*" {
		paths = nil
		for _, space := range r.spaces(&scenario.Create{Namespace: c.Namespace}) {
			paths = append(paths, resource.Collection(space))
		}
	}
	var out [][2]string
	for _, path := range paths {
		err := discovery.ListMetadata(ctx, r.watcher, path, c.Selector, func(o discovery.Metadata) { out = append(out, [2]string{o.Namespace, o.Name}) })
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// target says what the n-th call is about.
func (k *mixed) target(n int) (target, error) {
	c := k.call
	inTurn := k.spaces[n%len(k.spaces)]
	v := template.Vars{Name: c.Name, Namespace: inTurn, Index: n, Seed: k.seed, With: k.with}
	switch {
	case k.whole() && k.m != nil:
		v.Namespace = k.m.spaces[n%len(k.m.spaces)]
	case k.whole():
	case k.m != nil:
		return k.object(n)
	case k.selects():
		if len(k.found) == 0 {
			return target{gone: true}, nil
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

// object chooses one of those that a create step made.
func (k *mixed) object(n int) (target, error) {
	to := k.m.upTo()
	count := k.layout.count(0, to)
	if count == 0 {
		return target{gone: true}, nil
	}
	i := n % count
	if k.call.Pick == "random" {
		i = int(load.Draw(k.seed, n) % uint64(count))
	}
	s := k.layout.at(i, 0, to)
	if !k.m.has(s) {
		return target{gone: true}, nil
	}
	namespace, name, err := k.m.address(s)
	return target{namespace: namespace, name: name, vars: k.m.varsWith(s, k.with), spot: s}, err
}

// build fills the n-th call.
func (k *mixed) build(n int, req *load.Request) (bool, error) {
	t, err := k.target(n)
	if err != nil || t.gone {
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
	if k.m == nil || k.call.Verb != "delete" || a.Outcome != record.OK {
		return
	}
	if t, err := k.target(n); err == nil && !t.gone {
		k.m.set(t.spot, false)
	}
}

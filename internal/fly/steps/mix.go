package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// mixEntry is one entry of a mix. What the i-th call is follows from i and
// the seed alone, so that it can be made again.
type mixEntry struct {
	call       *scenario.Call
	form       *load.Form
	get        *load.Form // before it, for an update
	op         int        // of the form; that of get is the next
	body       *template.Template
	with       map[string]any   // of the body
	strict     bool             // as of an item
	objects    *Objects         // with of: those of its step
	layout     inventory.Layout // of these, those that are meant: all of one item
	namespaces []string         // in turn, without of
	empty      bool             // there is nothing that its deletion of a collection would delete
	found      [][2]string      // objects that the labels selected: namespace and name
	rounds     bool             // the index counts rounds through what was found
	seed       uint64
	clients    int // of the step, when the call is another one for each; otherwise 0
	stamp      object.Stamp
	lacking    bool         // it was told before it began that some of its objects are not there
	leftOut    atomic.Int64 // calls, since their objects had been deleted
}

// target is what one call is about.
type target struct {
	namespace, name string
	vars            template.Vars
	missing         bool              // it is not there
	ordinal         inventory.Ordinal // with of
}

// newMixEntry makes one entry of a mix ready: where it goes to, and to what. Number
// is its place in the mix.
func (s *Session) newMixEntry(ctx context.Context, step string, c *scenario.Call, number int) (*mixEntry, error) {
	e := &mixEntry{call: c, body: s.Workload.Bodies[c.Body], with: c.With, strict: s.Workload.IsStrict(c.Body), namespaces: s.Workload.NamespacesOf(&scenario.Create{Namespace: c.Namespace}), stamp: s.Workload.Stamp}
	resource, err := s.resourceOf(ctx, step, e)
	if err != nil {
		return nil, err
	}
	selector := s.Workload.NarrowSelector(resource, c)
	e.form, err = load.NewForm(resource, workload.TargetOf(c, e.selectorFor(selector)))
	if err != nil {
		return nil, err
	}
	if c.Verb == "update" {
		if e.get, err = load.NewForm(resource, load.Target{Verb: "get", Subresource: c.Subresource}); err != nil {
			return nil, err
		}
	}
	switch {
	case e.selectsObjects() && number < len(s.found):
		e.found = s.found[number]
	case e.selectsObjects():
		e.found, err = s.listSelected(ctx, resource, c, selector)
	case c.Verb == "deletecollection" && c.Resource != "" && !c.Optional && s.found == nil:
		e.empty, err = s.selectsNone(ctx, resource, c, selector)
	}
	return e, err
}

// selectsNone tells whether there is nothing that a deletion of collections would delete.
func (s *Session) selectsNone(ctx context.Context, resource discovery.Resource, c *scenario.Call, selector string) (bool, error) {
	for _, path := range s.collectionsOf(resource, c) {
		query := url.Values{"limit": {"1"}, "labelSelector": {selector}, "fieldSelector": {c.FieldSelector}}
		answer, err := s.Client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path + "?" + query.Encode()})
		if err != nil || !answer.Success() {
			return false, err // its own calls will say so
		}
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(answer.Body, &list); err != nil || len(list.Items) > 0 {
			return false, err
		}
	}
	return true, nil
}

// ofCollection tells whether a call is about a collection.
func (e *mixEntry) ofCollection() bool {
	return e.call.Verb == "list" || e.call.Verb == "watch" || e.call.Verb == "deletecollection"
}

// selectsObjects tells whether the call's objects are those that labels select.
func (e *mixEntry) selectsObjects() bool {
	return !e.ofCollection() && e.call.Resource != "" && e.call.Name == ""
}

// selectorFor returns the labels that stand in the call itself.
func (e *mixEntry) selectorFor(labels string) string {
	if e.ofCollection() {
		return labels
	}
	return ""
}

// resourceOf returns what an entry is about.
func (s *Session) resourceOf(ctx context.Context, step string, e *mixEntry) (discovery.Resource, error) {
	c := e.call
	switch {
	case c.Of != "":
		var err error
		if e.objects, err = s.Created.findReached(c.Of); err != nil {
			return discovery.Resource{}, err
		}
		e.layout = e.objects.layout.Filter(func(i scenario.Item) bool { return c.Object == "" || i.Body == c.Object })
		it := &e.objects.items[e.layout.Numbers[0]]
		e.with = workload.MergeVariables(it.with, c.With)
		return it.resource, nil
	case c.Resource != "":
		return s.findNamed(ctx, c.Resource)
	}
	vars := template.Vars{Name: c.Name + "-0", Namespace: e.namespaces[0], Group: step, Seed: s.Workload.Scenario.Seed, With: c.With}
	if _, err := e.body.Render(nil, vars); err != nil {
		return discovery.Resource{}, err
	}
	return s.findKind(ctx, e.body)
}

// listSelected lists the objects that a call's labels select, once: its calls go
// through them in turn.
func (s *Session) listSelected(ctx context.Context, resource discovery.Resource, c *scenario.Call, selector string) ([][2]string, error) {
	var out [][2]string
	for _, path := range s.collectionsOf(resource, c) {
		err := discovery.ListMetadata(ctx, s.Client, path, selector, func(o discovery.Metadata) { out = append(out, [2]string{o.Namespace, o.Name}) })
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// collectionsOf returns the paths of the collections that a call's objects are in.
func (s *Session) collectionsOf(resource discovery.Resource, c *scenario.Call) (paths []string) {
	if !resource.Namespaced || c.Namespace == "*" {
		return []string{resource.All()}
	}
	for _, space := range s.Workload.NamespacesOf(&scenario.Create{Namespace: c.Namespace}) {
		paths = append(paths, resource.Collection(space))
	}
	return paths
}

// whyLacking says why an entry's calls cannot be sent, none or not all of them; empty where
// all can.
func (e *mixEntry) whyLacking() string {
	c := e.call
	switch {
	case c.Optional:
		return ""
	case e.selectsObjects() && len(e.found) == 0:
		return fmt.Sprintf("no %s have the labels %s: its calls of %s were not sent", c.Resource, c.Selector, c.Verb)
	case e.empty:
		return fmt.Sprintf("no %s%s are there: its calls of deletecollection delete none; if that is as good, set optional", c.Resource, withLabels(c.Selector))
	case e.objects != nil && (!e.ofCollection() || c.Verb == "deletecollection") && e.objects.noneThere():
		return fmt.Sprintf("none of the objects of step %s is there: its calls of %s were not sent", c.Of, c.Verb)
	case e.objects != nil && !e.ofCollection() && e.objects.allMade() != nil:
		return fmt.Sprintf("its calls of %s were sent only for those that are there: %v", c.Verb, e.objects.allMade())
	}
	if e.objects != nil && !e.ofCollection() {
		if err := e.objects.noneGone(e.objects.batchBetween(e.layout, 0, e.objects.UpTo())); err != nil {
			return fmt.Sprintf("its calls of %s were sent only for those that are there: %v", c.Verb, err)
		}
	}
	return ""
}

// whyLeftOut says how many of the entry's calls were not sent, since their objects had been
// deleted while the step was under way; empty where all were.
func (e *mixEntry) whyLeftOut() string {
	n := e.leftOut.Load()
	if n == 0 || e.lacking || e.call.Optional { // it has been told, or is as good
		return ""
	}
	return fmt.Sprintf("%s of %s %s not sent: their objects of step %s %v; if that is as good, set optional", unit.Count(int(n), "calls"), e.call.Verb, unit.Verb(int(n), "was", "were"), e.call.Of, errDeleted)
}

// targetOf says what the n-th call is about.
func (e *mixEntry) targetOf(n int) (target, error) {
	c := e.call
	inTurn := e.namespaces[n%len(e.namespaces)]
	v := template.Vars{Name: c.Name, Namespace: inTurn, Index: n, Call: n, Seed: e.seed, With: e.with}
	switch {
	case e.ofCollection() && e.objects != nil:
		v.Namespace = e.objects.namespaces[n%len(e.objects.namespaces)]
	case e.ofCollection():
	case e.objects != nil:
		return e.pickObject(n)
	case e.selectsObjects():
		if len(e.found) == 0 {
			return target{missing: true}, nil
		}
		at := e.found[n%len(e.found)]
		if v.Namespace, v.Name = at[0], at[1]; e.rounds {
			v.Index = n / len(e.found)
		}
	case c.Verb == "create" && c.Subresource == "":
		v.Name = c.Name + "-" + strconv.Itoa(n)
	}
	return target{namespace: v.Namespace, name: v.Name, vars: v}, nil
}

// pickObject chooses one of those that a create step made.
func (e *mixEntry) pickObject(n int) (target, error) {
	to := e.objects.UpTo()
	count := e.layout.Count(0, to)
	if count == 0 {
		return target{missing: true}, nil
	}
	i := n % count
	if e.call.Pick == "random" {
		i = int(load.Draw(e.seed, n) % uint64(count))
	}
	at := e.layout.Ordinal(i, 0, to)
	if !e.objects.isThere(at) {
		return target{missing: true, ordinal: at}, nil
	}
	namespace, name, err := e.objects.addressOf(at)
	return target{namespace: namespace, name: name, vars: e.objects.varsWith(at, e.with, n), ordinal: at}, err
}

// buildCall fills the n-th call.
func (e *mixEntry) buildCall(n int, req *load.Request) (bool, error) {
	t, err := e.targetOf(n)
	if err == nil && t.missing && e.objects != nil {
		e.objects.countLeftOut(t.ordinal, &e.leftOut)
	}
	if err != nil || t.missing {
		req.Op = e.op
		return false, err
	}
	if e.get != nil {
		e.get.Fill(req, t.namespace, t.name)
		req.Op, req.Discard = e.op+1, false
		return true, nil
	}
	return e.fillRequest(t, req)
}

// fillRequest makes the call itself.
func (e *mixEntry) fillRequest(t target, req *load.Request) (bool, error) {
	req.Op = e.op
	e.form.Fill(req, t.namespace, t.name)
	if req.Informer != informer.None {
		req.ListOp = e.op + 1
	}
	if e.clients > 0 {
		req.Path = workload.FillClient(req.Path, t.vars.Index%e.clients)
	}
	if e.call.Verb == "delete" && e.objects != nil {
		return e.objects.requireUID(t.ordinal, req), nil
	}
	if e.body == nil {
		return true, nil
	}
	if e.strict {
		req.Strict()
	}
	var err error
	if e.call.Verb == "patch" || e.call.Subresource != "" {
		req.Body, err = e.renderPatch(req.Body, t)
	} else {
		req.Body, err = e.body.Render(req.Body, t.vars)
	}
	return err == nil, err
}

// renderPatch appends the body of a patch. One that is applied may make its object.
func (e *mixEntry) renderPatch(dst []byte, t target) ([]byte, error) {
	if e.call.Patch != "apply" || e.call.Subresource != "" {
		return e.body.RenderPatch(dst, t.vars)
	}
	patch, err := e.body.RenderPatch(nil, t.vars)
	if err == nil {
		patch, err = e.stamp.MarkJSON(patch)
	}
	return append(dst, patch...), err
}

// fillPut fills the PUT that follows a GET.
func (e *mixEntry) fillPut(n int, got load.Result, req *load.Request) error {
	t, err := e.targetOf(n)
	if err != nil {
		return err
	}
	version := load.ResourceVersion(got.Response.Body)
	if _, err := e.fillRequest(t, req); err != nil {
		return err
	}
	object := req.Body
	req.Body, err = load.AppendVersioned(nil, object, version)
	return err
}

// describeTarget names what the n-th call is about, for messages.
func (e *mixEntry) describeTarget(n int) string {
	t, err := e.targetOf(n)
	if err != nil || t.name == "" {
		return ""
	}
	return t.namespace + "/" + t.name
}

// noteDeleted remembers what a call of the mix deleted.
func (e *mixEntry) noteDeleted(n int, a load.Result) {
	if e.objects == nil || e.call.Verb != "delete" || a.Outcome != record.OK {
		return
	}
	if t, err := e.targetOf(n); err == nil && !t.missing {
		e.objects.setThere(t.ordinal, false)
	}
}

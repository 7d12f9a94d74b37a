package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/fleet/player"
	"github.com/windtunnel/windtunnel/internal/fleet/stage"
	"github.com/windtunnel/windtunnel/internal/fleet/stage/machine"
	"github.com/windtunnel/windtunnel/internal/fleet/stage/render"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
)

func nodeKind() machine.Resource { return machine.Resource{APIVersion: "v1", Kind: "Node"} }
func podKind() machine.Resource  { return machine.Resource{APIVersion: "v1", Kind: "Pod"} }

// typed returns the stages of nodes and pods that need no player, and whether
// those of nodes and those of pods are among them.
func typed(m *machine.Machine) (set *stage.Set, nodes, pods bool) {
	if m == nil {
		return stage.Fast(), true, true
	}
	typedNodes, nodes := stage.TypedNodes(m.Stages(nodeKind()))
	typedPods, pods := stage.TypedPods(m.Stages(podKind()))
	return stage.Join(typedPods, typedNodes), nodes, pods
}

// play starts a player for each resource that needs one.
func (f *Fleet) play(ctx context.Context, o Options, c *wire.Client) error {
	if o.Stages == nil {
		return nil
	}
	for _, finding := range o.Stages.Findings() {
		f.warn(finding.String())
	}
	served := discovery.New(c)
	var faults []error
	for _, d := range o.Objects {
		faults = append(faults, f.provide(ctx, served, d))
	}
	for _, r := range o.Stages.Resources() {
		if r == podKind() && f.typedPods || r == nodeKind() && f.typedNodes {
			continue
		}
		p, err := player.Start(ctx, player.Options{
			Client: c, Served: served, Records: o.Records, Clock: o.Clock, Log: o.Log, Seed: o.Seed, Version: o.Version,
			Resource: r, Stages: o.Stages.Stages(r), Selector: f.selector(r), Mine: f.mine(r),
			Functions: f.functions(r), Gone: f.releaseIP, Slower: f.slower(r), Held: f.held(r),
		})
		if err != nil {
			faults = append(faults, fmt.Errorf("fleet: stage %s: %w", o.Stages.Stages(r)[0].Name(), err))
			continue
		}
		f.mu.Lock()
		f.players = append(f.players, p)
		f.mu.Unlock()
	}
	return errors.Join(faults...)
}

// provide creates an object that stages need, unless it exists.
func (f *Fleet) provide(ctx context.Context, served *discovery.Cache, d kwok.Document) error {
	r, err := served.Kind(ctx, d.APIVersion, d.Kind)
	if err != nil {
		return fmt.Errorf("fleet: %s:%d: %w", d.Path, d.Line, err)
	}
	if r.Namespaced {
		return fmt.Errorf("fleet: %s:%d: %s %s belongs into a namespace: create it yourself", d.Path, d.Line, d.Kind, d.Name)
	}
	answer, err := f.client.Do(ctx, &wire.Request{Method: http.MethodPost, Path: r.All(), ContentType: "application/json", Body: d.JSON})
	switch {
	case err != nil:
		return fmt.Errorf("fleet: %s:%d: %w", d.Path, d.Line, err)
	case answer.Code >= http.StatusBadRequest && answer.Code != http.StatusConflict:
		return fmt.Errorf("fleet: %s:%d: create %s %s: %w", d.Path, d.Line, d.Kind, d.Name, answer.Refusal())
	}
	return nil
}

// selector is what the server can leave out.
func (f *Fleet) selector(r machine.Resource) string {
	for _, s := range f.allSources() {
		if r == nodeKind() && s.id == sourceNodes || r == podKind() && s.id == sourcePods {
			return s.query.Encode()
		}
	}
	return ""
}

// nodeNameOf returns the name of the node that an object is, or runs on.
func nodeNameOf(r machine.Resource, o player.Object) string {
	switch r {
	case nodeKind():
		meta, _ := o["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		return name
	case podKind():
		spec, _ := o["spec"].(map[string]any)
		name, _ := spec["nodeName"].(string)
		return name
	}
	return ""
}

// mine says which objects are played: nodes and pods of the fleet, and
// everything of other kinds.
func (f *Fleet) mine(r machine.Resource) func(player.Object) bool {
	if r != nodeKind() && r != podKind() {
		return nil
	}
	return func(o player.Object) bool {
		name := nodeNameOf(r, o)
		f.mu.Lock()
		defer f.mu.Unlock()
		n := f.byName[name]
		if n == nil && f.manage != nil && r == podKind() && name != "" {
			if f.manage.All && f.manage.Shards > 1 {
				meta, _ := o["metadata"].(map[string]any)
				uid, _ := meta["uid"].(string)
				return f.manage.owns([]byte(uid))
			}
			f.orphans[name] = true
		}
		return n != nil && n.state == nodeAlive && !f.manage.disregards(o)
	}
}

// disregards says that an object's status is not to be touched.
func (m *Manage) disregards(o player.Object) bool {
	if m == nil || m.DisregardLabels == nil && m.DisregardAnnotations == nil {
		return false
	}
	meta, _ := o["metadata"].(map[string]any)
	set := func(field string) textSet {
		values, _ := meta[field].(map[string]any)
		return values
	}
	return m.DisregardLabels != nil && m.DisregardLabels.Matches(set("labels")) ||
		m.DisregardAnnotations != nil && m.DisregardAnnotations.Matches(set("annotations"))
}

// textSet is a decoded map of labels or annotations.
type textSet map[string]any

// Has implements labels.Labels.
func (s textSet) Has(key string) bool { _, ok := s[key]; return ok }

// Get implements labels.Labels.
func (s textSet) Get(key string) string { v, _ := s[key].(string); return v }

// Lookup implements labels.Labels.
func (s textSet) Lookup(key string) (string, bool) { v, ok := s[key].(string); return v, ok }

func (f *Fleet) slower(r machine.Resource) func(player.Object) time.Duration {
	return func(o player.Object) time.Duration {
		f.mu.Lock()
		defer f.mu.Unlock()
		if n := f.byName[nodeNameOf(r, o)]; n != nil {
			return n.fault.slower()
		}
		return 0
	}
}

func (f *Fleet) held(r machine.Resource) func(player.Object) bool {
	return func(o player.Object) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		n := f.byName[nodeNameOf(r, o)]
		return n != nil && (n.fault.silent() || r == nodeKind() && n.fault.hides())
	}
}

// functions answers for what templates ask of the fleet (kwok's names).
func (f *Fleet) functions(r machine.Resource) func(player.Object) map[string]render.Function {
	return func(o player.Object) map[string]render.Function {
		name := nodeNameOf(r, o)
		host := func(name string) string {
			f.mu.Lock()
			defer f.mu.Unlock()
			if n := f.byName[name]; n != nil {
				return n.host.String()
			}
			if f.nodeIP.IsValid() {
				return f.nodeIP.String()
			}
			return ""
		}
		meta, _ := o["metadata"].(map[string]any)
		spec, _ := o["spec"].(map[string]any)
		status, _ := o["status"].(map[string]any)
		uid, _ := meta["uid"].(string)
		shared, _ := spec["hostNetwork"].(bool)
		return map[string]render.Function{
			"NodeIP":      func(...any) (any, error) { return host(name), nil },
			"NodeName":    func(...any) (any, error) { return name, nil },
			"NodePort":    func(...any) (any, error) { return f.model.port, nil },
			"NodeIPWith":  func(a ...any) (any, error) { return host(word(a, 0)), nil },
			"NodeIPsWith": func(a ...any) (any, error) { return []any{host(word(a, 0))}, nil },
			"PodIP":       func(...any) (any, error) { return f.podIP(name, uid, shared, status["podIP"]), nil },
			"PodIPWith":   func(a ...any) (any, error) { return f.podIPWith(a), nil },
			"PodIPsWith":  func(a ...any) (any, error) { return []any{f.podIPWith(a)}, nil },
		}
	}
}

func word(args []any, i int) string {
	if i >= len(args) {
		return ""
	}
	s, _ := args[i].(string)
	return s
}

// podIPWith answers PodIPWith(nodeName, hostNetwork, uid, name, namespace).
func (f *Fleet) podIPWith(a []any) string {
	shared := false
	if len(a) > 1 {
		shared, _ = a[1].(bool)
	}
	return f.podIP(word(a, 0), word(a, 2), shared, nil)
}

// podIP returns a pod's address: the one that it has, its node's, or a new one.
func (f *Fleet) podIP(node, uid string, shared bool, has any) string {
	if s, ok := has.(string); ok && s != "" {
		return s
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.byName[node]
	if n == nil {
		n = &f.elsewhere
	}
	if shared {
		return n.host.String()
	}
	given, ok := f.ips[uid]
	if !ok {
		given = lent{f.takeAddress(n), n}
		f.ips[uid] = given
	}
	if given.ip == 0 {
		return ""
	}
	return address(given.ip).String()
}

// lent is an address of a pod that a player plays, and the node whose it is.
type lent struct {
	ip   uint32
	node *node
}

// releaseIP takes the address of a pod back that is gone.
func (f *Fleet) releaseIP(uid string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if given, ok := f.ips[uid]; ok {
		delete(f.ips, uid)
		given.node.freeAddress(given.ip)
	}
}

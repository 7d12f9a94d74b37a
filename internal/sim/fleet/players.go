package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/share"
	"github.com/windtunnel/windtunnel/internal/sim/player"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/internal/sim/stage/render"
)

// players play the stages that the fleet does not play itself: one player for
// each resource. What they ask of the fleet's nodes and addresses they ask under
// the driver's lock.
type players struct {
	driver    *driver
	nodes     *nodes
	stages    *stages
	addresses *addresses
	readiness *readiness

	stamp      object.Stamp
	namespaces func(string) bool // nil: all that there is is played
	share      share.Share

	all      []*player.Player       // guarded by the driver's lock
	borrowed map[string]lentAddress // of pods that players play, by uid; guarded by it too
}

// startPlayers starts a player for each resource that needs one.
func (p *players) startPlayers(ctx context.Context, o Options, c *wire.Client) error {
	if o.Stages == nil {
		return nil
	}
	for _, finding := range o.Stages.Findings() {
		p.driver.noteWarning(finding.String())
	}
	served := discovery.New(c)
	var faults []error
	first := p.share.Index == 0 // of those who share the nodes: what belongs to no node is its own
	for _, d := range o.Objects {
		if first {
			faults = append(faults, p.provideObject(ctx, served, d))
		}
	}
	for _, r := range o.Stages.Resources() {
		if p.stages.playsWithoutPlayer(r) || !first && r != nodeKind() && r != podKind() {
			continue
		}
		how := player.Options{
			Client: c, Served: served, Records: o.Records, Cluster: o.Cluster, Clock: o.Clock, Log: o.Log, Seed: o.Seed, Version: o.Version,
			Resource: r, Stages: o.Stages.Stages(r), Selector: p.selectorOf(r), Mine: p.playedFilter(r),
			Functions: p.templateFunctions(r), Deleted: p.forgetPod, Slower: p.delaysOf(r), Held: p.heldFilter(r), Stamp: object.Stamp{Run: p.stamp.Run}, Own: p.ownFilter(),
		}
		if r == podKind() {
			how.Observed, how.Changed = p.observePlayed, p.changedPlayed
		}
		one, err := player.Start(ctx, how)
		if err != nil {
			faults = append(faults, fmt.Errorf("fleet: stage %s: %w", o.Stages.Stages(r)[0].Name(), err))
			continue
		}
		p.driver.mu.Lock()
		p.all = append(p.all, one)
		p.driver.mu.Unlock()
	}
	return errors.Join(faults...)
}

// allPlayers returns the players.
func (p *players) allPlayers() []*player.Player {
	p.driver.mu.Lock()
	defer p.driver.mu.Unlock()
	return p.all
}

// relistPods lets pods be listed again: some came before their nodes did. It is
// called in the driver's turn.
func (p *players) relistPods() {
	for _, one := range p.all {
		if one.Resource().Name == "pods" {
			one.Relist()
		}
	}
}

// provideObject creates an object that stages need, unless it exists.
func (p *players) provideObject(ctx context.Context, served *discovery.Cache, d kwok.Document) error {
	r, err := served.Kind(ctx, d.APIVersion, d.Kind)
	if err != nil {
		return fmt.Errorf("fleet: %s:%d: %w", d.Path, d.Line, err)
	}
	if r.Namespaced {
		return fmt.Errorf("fleet: %s:%d: %s %s belongs into a namespace: create it yourself", d.Path, d.Line, d.Kind, d.Name)
	}
	body, err := p.providedBody(d)
	if err != nil {
		return fmt.Errorf("fleet: %s:%d: %w", d.Path, d.Line, err)
	}
	answer, err := p.driver.client.Do(ctx, &wire.Request{Method: http.MethodPost, Path: r.All(), ContentType: "application/json", Body: body})
	switch {
	case err != nil:
		return fmt.Errorf("fleet: %s:%d: %w", d.Path, d.Line, err)
	case answer.Code == http.StatusConflict && p.stamp.Run != "":
		return p.claimObject(ctx, r.Object("", d.Name), d)
	case answer.Code >= http.StatusBadRequest && answer.Code != http.StatusConflict:
		return fmt.Errorf("fleet: %s:%d: create %s %s: %w", d.Path, d.Line, d.Kind, d.Name, answer.Refusal())
	}
	return nil
}

// defaultClass makes a StorageClass that of all claims which name none.
const defaultClass = "storageclass.kubernetes.io/is-default-class"

// providedBody is the body of an object that stages need. In a cluster that is not the
// run's own it is nobody's default.
func (p *players) providedBody(d kwok.Document) ([]byte, error) {
	if p.stamp.Run == "" {
		return d.JSON, nil
	}
	o, err := machine.Decode(d.JSON)
	if err != nil {
		return nil, err
	}
	if meta, ok := o["metadata"].(map[string]any); ok {
		if notes, ok := meta["annotations"].(map[string]any); ok {
			delete(notes, defaultClass)
		}
	}
	if err := p.stamp.Mark(o); err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// claimObject looks whose an object is that was there already: another's may mean
// something else.
func (p *players) claimObject(ctx context.Context, path string, d kwok.Document) error {
	there, err := p.driver.client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path})
	if err != nil {
		return fmt.Errorf("fleet: %s:%d: %w", d.Path, d.Line, err)
	}
	if about, _ := object.ReadMetadata(there.Body); about.Labels[object.RunLabel] != p.stamp.Run {
		return fmt.Errorf("fleet: %s:%d: %s %s: %w", d.Path, d.Line, d.Kind, d.Name, ErrForeignObject)
	}
	return nil
}

// selectorOf is what the server can leave out.
func (p *players) selectorOf(r machine.Resource) string {
	sources := sourcesOf(p.nodes.template.fleet, p.nodes.managed)
	switch r {
	case nodeKind():
		return sources[sourceNodes].query.Encode()
	case podKind():
		return sources[sourcePods].query.Encode()
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

// playedFilter says which objects are played: nodes and pods of the fleet, and of other
// kinds everything, or what is the run's.
func (p *players) playedFilter(r machine.Resource) func(player.Object) bool {
	if r != nodeKind() && r != podKind() {
		return p.ownFilter()
	}
	return func(o player.Object) bool {
		name := nodeNameOf(r, o)
		p.driver.mu.Lock()
		defer p.driver.mu.Unlock()
		n, managed := p.nodes.byName[name], p.nodes.managed
		if n == nil && managed != nil && r == podKind() && name != "" {
			if managed.sharesPods() {
				meta, _ := o["metadata"].(map[string]any)
				uid, _ := meta["uid"].(string)
				return managed.ownsUID([]byte(uid))
			}
			p.nodes.awaited[name] = true
		}
		// The watch may be faster than the answer to the node's creation.
		return n != nil && (n.state == nodeAlive || n.state == nodeCreating) && !managed.disregardsObject(o)
	}
}

// ownFilter tells what the run has made, and what others have made in its namespaces;
// nil where that makes no difference.
func (p *players) ownFilter() func(player.Object) bool {
	if p.namespaces == nil || p.stamp.Run == "" {
		return nil
	}
	return func(o player.Object) bool {
		meta, _ := o["metadata"].(map[string]any)
		labels, _ := meta["labels"].(map[string]any)
		namespace, _ := meta["namespace"].(string)
		return labels[object.RunLabel] == p.stamp.Run || p.namespaces(namespace)
	}
}

// disregardsObject says that an object's status is not to be touched.
func (m *ManagedNodes) disregardsObject(o player.Object) bool {
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

// delaysOf says how much later the stages of objects are due, by their nodes.
func (p *players) delaysOf(r machine.Resource) func(player.Object) time.Duration {
	return func(o player.Object) time.Duration {
		p.driver.mu.Lock()
		defer p.driver.mu.Unlock()
		if n := p.nodes.byName[nodeNameOf(r, o)]; n != nil {
			return n.fault.extraDelay()
		}
		return 0
	}
}

// heldFilter says which objects' stages wait: those of nodes that are silent.
func (p *players) heldFilter(r machine.Resource) func(player.Object) bool {
	return func(o player.Object) bool {
		p.driver.mu.Lock()
		defer p.driver.mu.Unlock()
		n := p.nodes.byName[nodeNameOf(r, o)]
		return n != nil && (n.fault.isSilent() || r == nodeKind() && n.fault.hidesStatus())
	}
}

// templateFunctions answers for what templates ask of the fleet (kwok's names).
func (p *players) templateFunctions(r machine.Resource) func(player.Object) map[string]render.Function {
	return func(o player.Object) map[string]render.Function {
		name := nodeNameOf(r, o)
		meta, _ := o["metadata"].(map[string]any)
		spec, _ := o["spec"].(map[string]any)
		status, _ := o["status"].(map[string]any)
		uid, _ := meta["uid"].(string)
		shared, _ := spec["hostNetwork"].(bool)
		return map[string]render.Function{
			"NodeIP":      func(...any) (any, error) { return p.nodeIP(name), nil },
			"NodeName":    func(...any) (any, error) { return name, nil },
			"NodePort":    func(...any) (any, error) { return p.nodes.template.port, nil },
			"NodeIPWith":  func(a ...any) (any, error) { return p.nodeIP(textArgument(a, 0)), nil },
			"NodeIPsWith": func(a ...any) (any, error) { return []any{p.nodeIP(textArgument(a, 0))}, nil },
			"PodIP":       func(...any) (any, error) { return p.podIP(name, uid, shared, status["podIP"]), nil },
			"PodIPWith":   func(a ...any) (any, error) { return p.podIPWith(a), nil },
			"PodIPsWith":  func(a ...any) (any, error) { return []any{p.podIPWith(a)}, nil },
		}
	}
}

func textArgument(args []any, i int) string {
	if i >= len(args) {
		return ""
	}
	s, _ := args[i].(string)
	return s
}

// nodeIP returns a node's address; empty where it is not known.
func (p *players) nodeIP(name string) string {
	p.driver.mu.Lock()
	defer p.driver.mu.Unlock()
	if host := p.addresses.hostOf(name); host.IsValid() {
		return host.String()
	}
	return ""
}

// podIPWith answers PodIPWith(nodeName, hostNetwork, uid, name, namespace).
func (p *players) podIPWith(a []any) string {
	shared := false
	if len(a) > 1 {
		shared, _ = a[1].(bool)
	}
	return p.podIP(textArgument(a, 0), textArgument(a, 2), shared, nil)
}

// podIP returns a pod's address: the one that it has, its node's, or a new one.
func (p *players) podIP(node, uid string, shared bool, has any) string {
	if s, ok := has.(string); ok && s != "" {
		return s
	}
	p.driver.mu.Lock()
	defer p.driver.mu.Unlock()
	n := p.nodes.byName[node]
	if n == nil {
		n = &p.nodes.elsewhere
	}
	if shared {
		return n.host.String()
	}
	lent, ok := p.borrowed[uid]
	if !ok {
		lent = lentAddress{p.addresses.takeAddress(n), n}
		p.borrowed[uid] = lent
	}
	if lent.ip == 0 {
		return ""
	}
	return addressFrom(lent.ip).String()
}

// lentAddress is an address of a pod that a player plays, and the node whose it is.
type lentAddress struct {
	ip   uint32
	node *node
}

// forgetPod takes the address of a deleted pod back, and forgets the pod.
func (p *players) forgetPod(uid string) {
	p.driver.mu.Lock()
	defer p.driver.mu.Unlock()
	if h := p.readiness.played[uid]; h != nil {
		p.readiness.forgetPod(h)
		delete(p.readiness.played, uid)
	}
	if lent, ok := p.borrowed[uid]; ok {
		delete(p.borrowed, uid)
		lent.node.freeAddress(lent.ip)
	}
}

// addStats adds what the players did to a fleet's state. Their locks are never
// taken under the driver's.
func (p *players) addStats(s *Stats) {
	for _, one := range p.allPlayers() {
		s.addPlayer(one.Stats())
	}
}

func (p *players) close() {
	for _, one := range p.allPlayers() {
		one.Close()
	}
}

package models

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
	"github.com/windtunnel/windtunnel/internal/sim/stage"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

// lookAtPod binds a pod that has no node, or plays the stages of one that has.
func (e *Engine) lookAtPod(s subject, o *store.Object) {
	if o == nil {
		e.cancelDelayed(s)
		if e.models.Binder {
			e.nodesOf(s.cluster).removePod(s.key)
		}
		return
	}
	var p object.Pod
	if object.DecodePod(o.Raw, &p) != nil {
		return
	}
	if len(p.NodeName) == 0 {
		if e.models.Binder && !p.Deleting {
			e.bindPod(s, o)
		}
		return
	}
	if e.models.Binder {
		e.nodesOf(s.cluster).setPlace(s.key, string(p.NodeName))
	}
	if e.typed == nil {
		return // only a kubelet ends it
	}
	if e.typed.SlowPods() != nil {
		e.playStages(s, o)
		return
	}
	if choice := e.typed.Pod(&p, e.rng); !choice.None() {
		e.playAfter(s, o, choice.Delay, func() { e.playPodStage(s, choice) })
	}
}

// playPodStage carries out what a stage asks for on a pod.
func (e *Engine) playPodStage(s subject, choice stage.Choice) {
	var p object.Pod
	o := s.table.Get(s.key)
	if o == nil || object.DecodePod(o.Raw, &p) != nil {
		return
	}
	effect, err := e.typed.RenderPod(e.buffer[:0], choice, &p, e.stageEnv())
	if err == nil {
		e.carryOut(s, effect)
	}
}

// playNodeStages plays the stages of a node.
func (e *Engine) playNodeStages(s subject, o *store.Object) {
	if e.typed == nil {
		return
	}
	if e.typed.SlowNodes() != nil {
		e.playStages(s, o)
		return
	}
	var n object.Node
	if object.DecodeNode(o.Raw, &n) != nil {
		return
	}
	choice := e.typed.Node(&n, e.rng)
	if choice.None() {
		return
	}
	e.playAfter(s, o, choice.Delay, func() {
		now := s.table.Get(s.key)
		if now == nil || object.DecodeNode(now.Raw, &n) != nil {
			return
		}
		if effect, err := e.typed.RenderNode(e.buffer[:0], choice, &n, e.stageEnv()); err == nil {
			e.carryOut(s, effect)
		}
	})
}

// playStages plays the stages of any kind, on its JSON.
func (e *Engine) playStages(s subject, o *store.Object) {
	k := s.kindNow()
	if o == nil || k == nil || e.stages == nil {
		e.cancelDelayed(s)
		return
	}
	raw, err := k.JSON(o.Raw)
	if err != nil {
		return
	}
	tree, err := machine.Decode(raw)
	if err != nil {
		return
	}
	choice, err := e.stages.Stages(e.resourceOf(s.cluster, s.table.Name)).Match(tree, e.wallTime(), e.rng)
	if err != nil || choice.Stage == nil {
		return
	}
	e.playAfter(s, o, choice.Delay, func() {
		for i := range choice.Stage.Steps() {
			effects, err := choice.Stage.Play(i, tree, e.machineEnv())
			if err != nil {
				return
			}
			for _, effect := range effects {
				e.carryOut(s, effect)
			}
		}
	})
}

// carryOut does what a stage asks for. Events are not made.
func (e *Engine) carryOut(s subject, effect machine.Effect) {
	t := s.targetOf(effect.Subresource)
	if t.Kind == nil { // it is served no more
		return
	}
	switch effect.Kind {
	case machine.Delete:
		t.Sub = ""
		_, _ = s.cluster.Delete(registry.Write{Target: t}, &metav1.DeleteOptions{GracePeriodSeconds: new(int64)}) // it may have gone already
	case machine.Apply:
		s.applyEffect(effect)
	case machine.Patch:
		body := append([]byte(nil), effect.Body...)
		w := registry.Write{Target: t, Manager: stageManager}
		_, _ = s.cluster.Change(registry.Change{Write: w, Replace: registry.PatchBy(types.PatchType(effect.Type), t, body, nil)}) // an object that has gone, or is another one by now, is left alone
	}
}

// stageManager is who manages the fields that stages write.
const stageManager = "stages"

// applyEffect creates the object that a stage applies, or changes the object where it exists. An
// object that cannot be created is left out: a stage of a hollow cluster has nobody to
// report it to.
func (s subject) applyEffect(effect machine.Effect) {
	u := &unstructured.Unstructured{}
	if u.UnmarshalJSON(effect.Body) != nil {
		return
	}
	k := s.cluster.Registry().Kinds().OfKind(u.GroupVersionKind())
	if k == nil {
		return
	}
	t := registry.Target{Kind: k, Name: u.GetName(), Sub: effect.Subresource}
	if k.Namespaced {
		if t.Namespace = u.GetNamespace(); t.Namespace == "" {
			t.Namespace, _ = kind.SplitKey(s.key)
		}
	}
	w := registry.Write{Target: t, Manager: stageManager}
	if effect.Subresource == "" {
		o, _, err := codec.Decode(k, effect.Body)
		if err != nil {
			return
		}
		if _, err := s.cluster.Create(w, o); !apierrors.IsAlreadyExists(err) {
			return
		}
	}
	patch := types.PatchType(effect.Type)
	if patch == types.ApplyPatchType {
		patch = types.MergePatchType // fields that others own are a stage's too
	}
	body := append([]byte(nil), effect.Body...)
	_, _ = s.cluster.Change(registry.Change{Write: w, Replace: registry.PatchBy(patch, t, body, nil)}) // it may have gone in the meantime
}

// stageEnv is what stages know besides their object.
func (e *Engine) stageEnv() stage.Env {
	return stage.Env{Now: e.wallTime(), Addresses: addresses{}, Version: kind.Version}
}

// addresses are made up of names: nobody sends packets to them.
type addresses struct{}

// Host returns the address of a node.
func (addresses) Host(node []byte) netip.Addr { return madeUp(10, 1, node) }

// Pod returns the address of a pod.
func (addresses) Pod(p *object.Pod) netip.Addr { return madeUp(10, 64, p.UID) }

// madeUp returns an address of a network, the same for the same name.
func madeUp(a, b byte, name []byte) netip.Addr {
	h := fnv.New32a()
	h.Write(name)
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], h.Sum32())
	if b == 64 {
		return netip.AddrFrom4([4]byte{a, b | sum[1]&63, sum[2], sum[3]})
	}
	return netip.AddrFrom4([4]byte{a, b | sum[1]&15, sum[2], sum[3]})
}

// machineEnv is env for stages that are played on JSON.
func (e *Engine) machineEnv() *machine.Env {
	return &machine.Env{Now: e.wallTime(), Start: e.clock.Epoch(), Version: kind.Version, Rand: e.rng}
}

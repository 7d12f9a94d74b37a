package fleet

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// pod is one that starts or ends; of one that runs the edge keeps a digest alone.
type pod struct {
	namespace, name string
	uid             string
	containers      []string
	received        clock.Time
	missing         int // ConfigMaps, Secrets and tokens that it waits for
	ending          bool
	patching        bool     // a status is on its way
	patches         []func() // that wait for its answer: the hub does not keep the order of requests
}

// applyLocked takes an object that the hub sent. false: it is not acknowledged.
func (e *edge) applyLocked(m *message.Message, r message.Resource) bool {
	k, ok := kindOf(r.Type)
	if !ok {
		return false
	}
	o := newObject(k)
	if json.Unmarshal(m.Content, o) != nil || o.GetUID() == "" {
		e.fleet.metrics.applied.WithLabelValues("malformed").Inc()
		return false
	}
	result := ""
	if m.Route.Operation == message.Delete {
		result = e.dropLocked(pack(string(o.GetUID())))
		delete(e.pods, string(o.GetUID()))
		delete(e.behind, string(o.GetUID()))
		delete(e.things, string(o.GetUID()))
	} else {
		result = e.holdLocked(held{uid: pack(string(o.GetUID())), sum: api.Sum(o), kind: k})
		switch x := o.(type) {
		case *corev1.Pod:
			e.podLocked(x, result)
		case *api.Device:
			e.thingLocked(x)
		}
	}
	e.fleet.metrics.applied.WithLabelValues(result).Inc()
	return true
}

func newObject(k kind) metav1.Object {
	switch k {
	case kindPod:
		return &corev1.Pod{}
	case kindConfigMap:
		return &corev1.ConfigMap{}
	case kindSecret:
		return &corev1.Secret{}
	case kindDevice:
		return &api.Device{}
	case kindModel:
		return &api.DeviceModel{}
	}
	return &corev1.Node{}
}

// keepNodeLocked keeps the edge's own node, as an answer has it.
func (e *edge) keepNodeLocked(raw json.RawMessage) {
	var n corev1.Node
	if json.Unmarshal(raw, &n) == nil && n.UID != "" {
		e.holdLocked(held{uid: pack(string(n.UID)), sum: api.Sum(&n), kind: kindNode})
	}
}

// podLocked starts a pod that is new, and ends one that is to be deleted. A pod that
// nobody has started and that is to be deleted is ended all the same: its API
// object waits for that.
func (e *edge) podLocked(p *corev1.Pod, result string) {
	uid := string(p.UID)
	own := e.pods[uid]
	if own == nil {
		if result != "new" && p.DeletionTimestamp == nil {
			e.comparedLocked(p)
			return
		}
		own = e.newPod(p)
		e.rememberLocked(own)
	}
	switch {
	case p.DeletionTimestamp != nil && !own.ending:
		own.ending = true
		e.fleet.schedule.in(e.draw(uid, e.fleet.o.PodStop), func() { e.endPod(own) })
	case p.DeletionTimestamp == nil && result == "new":
		e.startLocked(p, own)
	}
}

func (e *edge) newPod(p *corev1.Pod) *pod {
	own := &pod{namespace: p.Namespace, name: p.Name, uid: string(p.UID), received: e.fleet.now()}
	for _, c := range p.Spec.Containers {
		own.containers = append(own.containers, c.Name)
	}
	return own
}

func (e *edge) rememberLocked(p *pod) {
	if e.pods == nil {
		e.pods = map[string]*pod{}
	}
	e.pods[p.uid] = p
}

// comparedLocked says once more that a pod runs of which the API server has something
// older, as a kubelet does: what came twice to the hub, or hung there, may have undone
// the last status. Often it is on its way, and nothing is said.
func (e *edge) comparedLocked(p *corev1.Pod) {
	uid := string(p.UID)
	if p.Status.Phase != corev1.PodPending {
		delete(e.behind, uid)
		return
	}
	if e.behind[uid] != nil || e.fleet.o.CompareAfter == 0 {
		return
	}
	own := e.newPod(p)
	if e.behind == nil {
		e.behind = map[string]*pod{}
	}
	e.behind[uid] = own
	e.fleet.schedule.in(e.fleet.o.CompareAfter, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.behind[uid] != own {
			return
		}
		delete(e.behind, uid)
		if e.pods[uid] == nil {
			e.rememberLocked(own)
			e.runsLocked(own)
		}
	})
}

// startLocked says that a pod is there, fetches what it uses, and starts it.
func (e *edge) startLocked(p *corev1.Pod, own *pod) {
	e.patchLocked(own, corev1.PodPending, corev1.ConditionFalse, nil)
	for _, id := range api.References(p) {
		parts := strings.SplitN(id, "/", 3)
		e.fetchLocked(own, message.Resource{Namespace: parts[1], Type: parts[0], Name: parts[2]}, nil)
	}
	for _, v := range p.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if t := s.ServiceAccountToken; t != nil {
				e.fetchLocked(own, message.Resource{Namespace: p.Namespace, Type: message.TypeToken, Name: p.Spec.ServiceAccountName}, tokenRequest(p, t))
			}
		}
	}
	if own.missing == 0 {
		e.fetchedLocked(own)
	}
}

func tokenRequest(p *corev1.Pod, t *corev1.ServiceAccountTokenProjection) any {
	return map[string]any{"spec": map[string]any{
		"audiences": []string{}, "expirationSeconds": t.ExpirationSeconds,
		"boundObjectRef": map[string]any{"kind": "Pod", "apiVersion": "v1", "name": p.Name, "uid": p.UID},
	}}
}

// fetchLocked asks for what a pod uses, until it is there.
func (e *edge) fetchLocked(p *pod, r message.Resource, content any) {
	p.missing++
	var ask func()
	ask = func() {
		e.askLocked(message.Query, r, content, func(m *message.Message) {
			if m == nil || m.Route.Operation == message.Error {
				e.againLocked(func() {
					if e.pods[p.uid] == p && !p.ending {
						ask()
					}
				})
				return
			}
			p.missing--
			if p.missing == 0 {
				e.fetchedLocked(p)
			}
		})
	}
	ask()
}

func (e *edge) fetchedLocked(p *pod) {
	e.fleet.schedule.in(e.draw(p.uid, e.fleet.o.PodStart), func() { e.runPod(p) })
}

// draw returns a time around a median, the same for the same pod.
func (e *edge) draw(uid string, median time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid)) // a hash takes everything
	dice := rand.New(rand.NewPCG(e.fleet.o.Seed, h.Sum64()))
	return time.Duration(float64(median) * math.Exp(0.25*dice.NormFloat64()))
}

// runPod says that a pod runs.
func (e *edge) runPod(p *pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pods[p.uid] != p || p.ending {
		return
	}
	e.fleet.metrics.started.WithLabelValues().Observe(e.fleet.now().Sub(p.received).Seconds())
	e.runsLocked(p)
}

func (e *edge) runsLocked(p *pod) {
	e.patchLocked(p, corev1.PodRunning, corev1.ConditionTrue, func() {
		if e.pods[p.uid] == p && !p.ending {
			e.forgetLocked(p)
		}
	})
}

func (e *edge) forgetLocked(p *pod) {
	delete(e.pods, p.uid)
	if len(e.pods) == 0 {
		e.pods = nil
	}
}

// endPod says that a pod's containers have ended, and that it can go.
func (e *edge) endPod(p *pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.patchLocked(p, corev1.PodSucceeded, corev1.ConditionFalse, func() { e.deleteLocked(p) })
}

func (e *edge) deleteLocked(p *pod) {
	zero, uid := int64(0), types.UID(p.uid)
	options := metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &uid}}
	e.askLocked(message.Delete, p.resource(message.TypePod), options, func(m *message.Message) {
		if m != nil && string(m.Content) == message.OK {
			e.forgetLocked(p)
			return
		}
		switch _, reason := read(m); reason {
		case metav1.StatusReasonNotFound, metav1.StatusReasonConflict: // it is gone, or another has its name
			e.forgetLocked(p)
		default:
			e.fleet.metrics.refused.WithLabelValues("delete").Inc()
			e.againLocked(func() { e.deleteLocked(p) })
		}
	})
}

func (p *pod) resource(kind string) message.Resource {
	return message.Resource{Namespace: p.namespace, Type: kind, Name: p.name}
}

// patchLocked sends a pod's status, and again where that fails but for good.
func (e *edge) patchLocked(p *pod, phase corev1.PodPhase, ready corev1.ConditionStatus, done func()) {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.uid}, "status": p.status(e, phase, ready)})
	if err != nil {
		panic(err) // this can always be written
	}
	if p.patching {
		p.patches = append(p.patches, func() { e.patchLocked(p, phase, ready, done) })
		return
	}
	p.patching = true
	e.askLocked(message.Patch, p.resource(message.TypePodPatch), string(raw), func(m *message.Message) {
		p.patching = false
		switch _, reason := read(m); reason {
		case "", metav1.StatusReasonNotFound, metav1.StatusReasonConflict, metav1.StatusReasonInvalid: // a later pod of its name is invalid by its UID
			if done != nil {
				done()
			}
			e.nextPatchLocked(p)
		default:
			e.fleet.metrics.refused.WithLabelValues("status").Inc()
			if len(p.patches) > 0 {
				e.nextPatchLocked(p) // a newer status says more
				return
			}
			e.againLocked(func() {
				if e.pods[p.uid] == p {
					e.patchLocked(p, phase, ready, done)
				}
			})
		}
	})
}

func (e *edge) nextPatchLocked(p *pod) {
	if len(p.patches) > 0 && !p.patching {
		next := p.patches[0]
		p.patches = p.patches[1:]
		next()
	}
}

func (p *pod) status(e *edge, phase corev1.PodPhase, ready corev1.ConditionStatus) *corev1.PodStatus {
	now := metav1.NewTime(e.fleet.wallTime())
	s := &corev1.PodStatus{Phase: phase, StartTime: &now, HostIP: "127.0.0.1"}
	for _, c := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady} {
		value := ready
		if c == corev1.PodInitialized {
			value = corev1.ConditionTrue
		}
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: c, Status: value, LastTransitionTime: now})
	}
	for _, name := range p.containers {
		c := corev1.ContainerStatus{Name: name, Ready: phase == corev1.PodRunning}
		switch phase {
		case corev1.PodRunning:
			c.State.Running = &corev1.ContainerStateRunning{StartedAt: now}
		case corev1.PodSucceeded:
			c.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: now}
		default:
			c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
		}
		s.ContainerStatuses = append(s.ContainerStatuses, c)
	}
	return s
}

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
	latest          corev1.PodPhase   // the last status
	patching        corev1.PodPhase   // the status that is on its way; empty: none
	patches         []corev1.PodPhase // that wait for its answer: the hub does not keep the order of requests
}

// applyObject takes an object that the hub sent. It returns false if the object is not to be
// acknowledged.
func (s *step) applyObject(m *message.Message, r message.Resource) bool {
	k, ok := kindOf(r.Type)
	if !ok {
		return false
	}
	o := newObject(k)
	if json.Unmarshal(m.Content, o) != nil || o.GetUID() == "" {
		s.addFact(applied, "malformed")
		return false
	}
	uid := string(o.GetUID())
	if m.Route.Operation == message.Delete {
		s.addFact(applied, s.e.held.removeObject(packUID(uid)))
		delete(s.e.pods, uid)
		delete(s.e.behind, uid)
		delete(s.e.devices, uid)
		return true
	}
	result := s.e.held.putObject(held{uid: packUID(uid), sum: api.Sum(o), name: packName(r), kind: k})
	switch x := o.(type) {
	case *corev1.Pod:
		s.applyPod(x, result)
	case *api.Device:
		s.applyDevice(x)
	}
	s.addFact(applied, result)
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

// applyPod starts a pod that is new, and ends one that is to be deleted. A pod that
// nobody has started and that is to be deleted is ended all the same: its API
// object waits for that.
func (s *step) applyPod(p *corev1.Pod, result string) {
	uid := string(p.UID)
	own := s.e.pods[uid]
	if own == nil {
		if result != "new" && p.DeletionTimestamp == nil {
			s.comparePhase(p)
			return
		}
		own = newPod(p, s.now)
		s.e.addPod(own)
	}
	switch {
	case p.DeletionTimestamp != nil && !own.ending:
		own.ending = true
		s.addTimer(s.o.drawTime(uid, s.o.PodStop), endPod{own})
	case p.DeletionTimestamp == nil && result == "new":
		own.preparePod(s, p)
	}
}

func newPod(p *corev1.Pod, now clock.Time) *pod {
	own := &pod{namespace: p.Namespace, name: p.Name, uid: string(p.UID), received: now}
	for _, c := range p.Spec.Containers {
		own.containers = append(own.containers, c.Name)
	}
	return own
}

func (e *edge) addPod(p *pod) {
	if e.pods == nil {
		e.pods = map[string]*pod{}
	}
	e.pods[p.uid] = p
}

func (e *edge) removePod(p *pod) {
	delete(e.pods, p.uid)
	if len(e.pods) == 0 {
		e.pods = nil
	}
}

// comparePhase says once more that a pod runs of which the API server has something
// older, as a kubelet does: what came twice to the hub, or hung there, may have undone
// the last status. Often it is on its way, and nothing is said.
func (s *step) comparePhase(p *corev1.Pod) {
	uid := string(p.UID)
	if p.Status.Phase != corev1.PodPending {
		delete(s.e.behind, uid)
		return
	}
	if s.e.behind[uid] != nil || s.o.CompareAfter == 0 {
		return
	}
	own := newPod(p, s.now)
	if s.e.behind == nil {
		s.e.behind = map[string]*pod{}
	}
	s.e.behind[uid] = own
	s.addTimer(s.o.CompareAfter, stillBehind{own})
}

// stillBehind is the time to say again that a pod runs, if nothing newer came of it.
type stillBehind struct{ *pod }

func (b stillBehind) happenTo(s *step) {
	if s.e.behind[b.uid] != b.pod {
		return
	}
	delete(s.e.behind, b.uid)
	if s.e.pods[b.uid] == nil {
		s.e.addPod(b.pod)
		b.patchStatus(s, corev1.PodRunning)
	}
}

// preparePod says that a pod is there, fetches what it uses, and starts it.
func (p *pod) preparePod(s *step, object *corev1.Pod) {
	p.patchStatus(s, corev1.PodPending)
	for _, id := range api.References(object) {
		parts := strings.SplitN(id, "/", 3)
		p.fetchUsed(s, message.Resource{Namespace: parts[1], Type: parts[0], Name: parts[2]}, nil)
	}
	for _, v := range object.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, x := range v.Projected.Sources {
			if t := x.ServiceAccountToken; t != nil {
				p.fetchUsed(s, message.Resource{Namespace: p.namespace, Type: message.TypeToken, Name: object.Spec.ServiceAccountName}, tokenRequest(object, t))
			}
		}
	}
	if p.missing == 0 {
		p.startContainers(s)
	}
}

func tokenRequest(p *corev1.Pod, t *corev1.ServiceAccountTokenProjection) any {
	return map[string]any{"spec": map[string]any{
		"audiences": []string{}, "expirationSeconds": t.ExpirationSeconds,
		"boundObjectRef": map[string]any{"kind": "Pod", "apiVersion": "v1", "name": p.Name, "uid": p.UID},
	}}
}

// fetchUsed asks for what a pod uses, until it is there. What the edge holds it does not ask for.
func (p *pod) fetchUsed(s *step, r message.Resource, content any) {
	if s.e.held.hasName(r) {
		return
	}
	p.missing++
	s.sendRequest(fetchObject, p, message.Query, r, content)
}

// onFetched goes on after the answer to a fetch.
func (p *pod) onFetched(s *step, q *request, m *message.Message) {
	if r, _ := message.ParseResource(q.message.Route.Resource); !isFetched(m, r) {
		s.addTimer(retryAfter, retryFetch{q})
		return
	}
	p.gotUsed(s)
}

// gotUsed takes one of the objects that a pod waits for.
func (p *pod) gotUsed(s *step) {
	p.missing--
	if p.missing == 0 {
		p.startContainers(s)
	}
}

// retryFetch is the time to ask again for what a pod uses.
type retryFetch struct{ *request }

func (r retryFetch) happenTo(s *step) {
	if s.e.pods[r.pod.uid] != r.pod || r.pod.ending {
		return
	}
	if name, _ := message.ParseResource(r.message.Route.Resource); s.e.held.hasName(name) {
		r.pod.gotUsed(s) // it came without having been asked for
	} else {
		s.askRaw(fetchObject, r.pod, message.Query, r.message.Route.Resource, r.message.Content)
	}
}

// startContainers lets the containers of a pod start.
func (p *pod) startContainers(s *step) { s.addTimer(s.o.drawTime(p.uid, s.o.PodStart), runPod{p}) }

// drawTime returns a time around a median, the same for the same pod.
func (o *Options) drawTime(uid string, median time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid)) // a hash takes everything
	dice := rand.New(rand.NewPCG(o.Seed, h.Sum64()))
	return time.Duration(float64(median) * math.Exp(0.25*dice.NormFloat64()))
}

// runPod is the time at which a pod's containers have started.
type runPod struct{ *pod }

func (r runPod) happenTo(s *step) {
	if s.e.pods[r.uid] != r.pod || r.ending {
		return
	}
	s.addMeasurement(podStarted, "", r.received)
	r.patchStatus(s, corev1.PodRunning)
}

// endPod is the time at which a pod's containers have ended.
type endPod struct{ *pod }

func (p endPod) happenTo(s *step) { p.patchStatus(s, corev1.PodSucceeded) }

// patchStatus sends a pod's status, or lets it wait for the answer to the one before.
func (p *pod) patchStatus(s *step, phase corev1.PodPhase) {
	if p.latest = phase; p.patching != "" {
		p.patches = append(p.patches, phase)
		return
	}
	p.patching = phase
	if s.o.Heartbeat == HeartbeatStatus {
		said := []message.PodStatus{{UID: types.UID(p.uid), Name: p.name, Status: *p.statusIn(phase, s.wall)}}
		s.sendRequest(patchPod, p, message.Update, p.resourceOf(message.TypePodStatus), said)
		return
	}
	patch := encodeContent(map[string]any{"metadata": map[string]any{"uid": p.uid}, "status": p.statusIn(phase, s.wall)})
	s.sendRequest(patchPod, p, message.Patch, p.resourceOf(message.TypePodPatch), string(patch))
}

func (p *pod) resourceOf(kind string) message.Resource {
	return message.Resource{Namespace: p.namespace, Type: kind, Name: p.name}
}

// onPatched goes on after the answer to a status: to what comes after that, or to the
// same again if it failed but for good.
func (p *pod) onPatched(s *step, m *message.Message) {
	phase := p.patching
	p.patching = ""
	switch _, reason := readAnswer(m); reason {
	case "", metav1.StatusReasonNotFound, metav1.StatusReasonConflict, metav1.StatusReasonInvalid: // a later pod of its name is invalid by its UID
		switch {
		case phase == corev1.PodSucceeded && s.o.Heartbeat == HeartbeatStatus: // the hub deletes it
		case phase == corev1.PodSucceeded:
			p.deleteObject(s)
		case phase == corev1.PodRunning && s.e.pods[p.uid] == p && !p.ending:
			s.e.removePod(p)
		}
	default:
		s.addFact(refused, "status")
		if len(p.patches) == 0 { // a newer status says more
			s.addTimer(retryAfter, retryPatch{p, phase})
		}
	}
	if len(p.patches) > 0 {
		next := p.patches[0]
		p.patches = p.patches[1:]
		p.patchStatus(s, next)
	}
}

// retryPatch is the time to send a status again.
type retryPatch struct {
	*pod
	phase corev1.PodPhase
}

func (r retryPatch) happenTo(s *step) {
	if s.e.pods[r.uid] == r.pod && r.latest == r.phase { // a newer status may be on its way, which it would undo
		r.patchStatus(s, r.phase)
	}
}

// deleteObject deletes the API object of a pod whose containers have ended.
func (p *pod) deleteObject(s *step) {
	zero, uid := int64(0), types.UID(p.uid)
	options := metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &uid}}
	s.sendRequest(deletePod, p, message.Delete, p.resourceOf(message.TypePod), options)
}

// onDeleted goes on after the answer to a deletion.
func (p *pod) onDeleted(s *step, m *message.Message) {
	switch _, reason := readAnswer(m); reason {
	case "", metav1.StatusReasonNotFound, metav1.StatusReasonConflict: // it is gone, or another has its name
		s.e.removePod(p)
	default:
		s.addFact(refused, "delete")
		s.addTimer(retryAfter, retryDelete{p})
	}
}

// retryDelete is the time to delete a pod again.
type retryDelete struct{ *pod }

func (r retryDelete) happenTo(s *step) { r.deleteObject(s) }

// statusIn returns a pod's status in a phase.
func (p *pod) statusIn(phase corev1.PodPhase, at time.Time) *corev1.PodStatus {
	now, ready := metav1.NewTime(at), corev1.ConditionFalse
	if phase == corev1.PodRunning {
		ready = corev1.ConditionTrue
	}
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

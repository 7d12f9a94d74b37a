package controller

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/planes/vm/internal/launcher"
)

// situation is what is known of one instance. What follows from it is decided
// here, without a clock, a server or a cache.
type situation struct {
	vmi    *api.Instance
	pods   []*corev1.Pod // launcher pods that the instance owns, in any state
	now    time.Time
	rules  Rules
	failed error // why its pod could not be made
}

// Rules are what releases do differently about an instance. The zero value writes
// nothing beside phases, conditions and the hand-over.
type Rules struct {
	Versions bool   // API versions are written into annotations, before the pod is made
	NoPod    bool   // that there is no pod yet is written as a condition
	Class    bool   // the class of service of a bound pod, and that it is active, before the hand-over
	PodLabel bool   // the node is written into the pod's labels
	Gate     string // when the pod's readiness gate is opened

	FormerFinalizer bool // instances have the finalizer by its former name
	Machine         MachineRules
}

// When the gate of a launcher pod is opened.
const (
	GateAtOnce  = "pod"     // as soon as there is the pod
	GateRunning = "running" // when its containers run and the instance is handed over
	GateNone    = "none"    // pods have none
)

// action is one thing to do about an instance.
type action struct {
	do  doing
	pod *corev1.Pod // that it is about; nil for the instance, and for a pod to be made
}

type doing string

const (
	createPod     doing = "create pod"
	deletePod     doing = "delete pod"
	writeInstance doing = "write instance"
	openGate      doing = "open gate"
	labelPod      doing = "label pod"
)

// actions returns what is to be done, in order. The instance that writeInstance writes
// is nextInstance, which depends on what became of the pod.
func (s situation) actions() (out []action) {
	if s.needsVersions() {
		return []action{{do: writeInstance}}
	}
	if s.needsPod() {
		out = append(out, action{do: createPod})
	}
	for _, pod := range s.podsToDelete() {
		out = append(out, action{deletePod, pod})
	}
	out = append(out, action{do: writeInstance})
	if pod := s.podToUngate(); pod != nil {
		out = append(out, action{openGate, pod})
	}
	if pod := s.podToLabel(); pod != nil {
		out = append(out, action{labelPod, pod})
	}
	return out
}

// needsVersions says that the instance has to say which versions of the API were seen
// before anything else happens to it.
func (s situation) needsVersions() bool {
	return s.rules.Versions && s.vmi.DeletionTimestamp == nil && s.vmi.Status.Phase.Unprocessed() && !hasVersions(s.vmi.Annotations)
}

func hasVersions(annotations map[string]string) bool {
	return annotations[api.AnnotationLatest] == api.Version
}

// withVersions returns annotations that say which versions of the API were seen.
func withVersions(annotations map[string]string) map[string]string {
	return withText(withText(annotations, api.AnnotationLatest, api.Version), api.AnnotationStorage, api.Version)
}

// currentPod returns the launcher pod that counts: the newest on the instance's node,
// or before it has one the newest that is no migration's target.
func (s situation) currentPod() *corev1.Pod {
	var out *corev1.Pod
	for _, p := range s.pods {
		if node := s.vmi.Status.NodeName; node != "" {
			if p.Spec.NodeName != node {
				continue
			}
		} else if p.Labels[api.LabelMigrationJob] != "" {
			continue
		}
		if out == nil || isNewer(p, out) {
			out = p
		}
	}
	return out
}

// isNewer prefers a pod that is not on its way out, then the later one.
func isNewer(a, b *corev1.Pod) bool {
	if x, y := launcher.Down(a), launcher.Down(b); x != y {
		return y
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}

// needsPod says that the instance needs a pod and has none.
func (s situation) needsPod() bool {
	return s.vmi.DeletionTimestamp == nil && s.vmi.Status.Phase.Unprocessed() && len(s.pods) == 0
}

// podsToDelete returns the pods that are to go.
func (s situation) podsToDelete() []*corev1.Pod {
	if s.vmi.DeletionTimestamp == nil && !s.vmi.Status.Phase.Final() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.pods), func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// podToUngate says that the pod's own gate is still closed: the machine in it is
// not paused, so it is to be opened.
func (s situation) podToUngate() *corev1.Pod {
	pod := s.currentPod()
	if s.rules.Gate == GateNone || s.vmi.DeletionTimestamp != nil || s.vmi.Status.Phase.Final() || pod == nil || launcher.Down(pod) {
		return nil
	}
	if s.rules.Gate == GateRunning && (s.vmi.Status.Phase.Unprocessed() || !launcher.Ready(pod)) {
		return nil
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == api.ConditionUnpaused && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return pod
}

// podToLabel returns the pod whose labels do not name the instance's node yet.
func (s situation) podToLabel() *corev1.Pod {
	pod, node := s.currentPod(), s.vmi.Labels[api.LabelNode]
	if !s.rules.PodLabel || !s.vmi.Status.Phase.OnNode() || pod == nil || launcher.Down(pod) || node == "" || pod.Labels[api.LabelNode] == node {
		return nil
	}
	return pod
}

// nextInstance returns the instance as it should be written; one that equals the
// given one when there is nothing to write.
func (s situation) nextInstance() *api.Instance {
	vmi := s.vmi.Copy()
	s.renameFinalizer(vmi)
	if s.needsVersions() {
		vmi.Annotations = withVersions(vmi.Annotations)
		return vmi
	}
	pod := s.currentPod()
	switch phase := vmi.Status.Phase; {
	case phase.Unprocessed():
		s.advancePending(vmi, pod)
	case phase == api.Scheduling:
		s.advanceScheduling(vmi, pod)
	case phase.OnNode():
		s.advanceOwned(vmi, pod)
	case phase.Final() && len(s.pods) == 0:
		vmi.Finalizers = withoutText(withoutText(vmi.Finalizers, api.FinalizerInstance), api.FinalizerFormer)
	}
	s.setSyncCondition(vmi)
	return vmi
}

// finalizer returns the name of the finalizer of instances.
func (r Rules) finalizer() string {
	if r.FormerFinalizer {
		return api.FinalizerFormer
	}
	return api.FinalizerInstance
}

// renameFinalizer gives an instance of a former release the finalizer by its present name. An
// object that is being deleted gets no further finalizer.
func (s situation) renameFinalizer(vmi *api.Instance) {
	if i := slices.Index(vmi.Finalizers, api.FinalizerFormer); i >= 0 && !s.rules.FormerFinalizer && vmi.DeletionTimestamp == nil && !vmi.Status.Phase.Final() {
		vmi.Finalizers = slices.Clone(vmi.Finalizers)
		vmi.Finalizers[i] = api.FinalizerInstance
	}
}

// advancePending moves an instance that has no pod, or whose pod was just seen.
func (s situation) advancePending(vmi *api.Instance, pod *corev1.Pod) {
	switch {
	case pod != nil:
		s.enterPhase(vmi, api.Scheduling)
		s.setReady(vmi, corev1.ConditionFalse, "GuestNotRunning")
	case vmi.DeletionTimestamp != nil:
		s.enterPhase(vmi, api.Failed)
	case vmi.Status.Phase == "": // the webhook is off
		s.enterPhase(vmi, api.Pending)
		if name := s.rules.finalizer(); !slices.Contains(vmi.Finalizers, name) {
			vmi.Finalizers = append(slices.Clip(vmi.Finalizers), name)
		}
	case s.rules.NoPod && s.failed == nil:
		s.setReady(vmi, corev1.ConditionFalse, "PodNotExists")
	}
}

// advanceScheduling hands the instance over to the agent of the node on which its pod
// runs: from that write on the agent owns it.
func (s situation) advanceScheduling(vmi *api.Instance, pod *corev1.Pod) {
	switch {
	case pod == nil, launcher.Down(pod):
		s.enterPhase(vmi, api.Failed)
		return
	case vmi.DeletionTimestamp != nil: // its pods are going
		return
	}
	if s.rules.Class && pod.Spec.NodeName != "" {
		vmi.Status.QOSClass, vmi.Status.ActivePods = string(pod.Status.QOSClass), withActivePod(vmi, pod)
	}
	if launcher.Ready(pod) {
		vmi.Status.NodeName = pod.Spec.NodeName
		vmi.Status.ActivePods = withActivePod(vmi, pod)
		vmi.Status.LauncherContainerImageVersion = pod.Spec.Containers[0].Image
		vmi.Labels = withText(vmi.Labels, api.LabelNode, pod.Spec.NodeName)
		s.enterPhase(vmi, api.Scheduled)
	}
}

// advanceOwned keeps up with an instance that its node's agent owns.
func (s situation) advanceOwned(vmi *api.Instance, pod *corev1.Pod) {
	if len(s.pods) == 0 {
		if vmi.DeletionTimestamp != nil {
			return // the pod went as it should: how the machine ended, its agent says
		}
		s.enterPhase(vmi, api.Failed)
		vmi.Status.Reason = "PodDeleted"
		return
	}
	if vmi.Labels[api.LabelNode] == "" && vmi.Status.NodeName != "" {
		vmi.Labels = withText(vmi.Labels, api.LabelNode, vmi.Status.NodeName) // a hand-over that was cut short
	}
	if pod == nil || vmi.Status.Phase != api.Running {
		return
	}
	vmi.Status.ActivePods = withActivePod(vmi, pod)
	switch {
	case podReady(pod):
		s.setReady(vmi, corev1.ConditionTrue, "")
	case launcher.Down(pod):
		s.setReady(vmi, corev1.ConditionFalse, "PodTerminating")
	default:
		s.setReady(vmi, corev1.ConditionFalse, "PodNotReady")
	}
}

// setSyncCondition says in a condition why the instance does not come on.
func (s situation) setSyncCondition(vmi *api.Instance) {
	switch {
	case s.failed != nil:
		vmi.Status.Conditions = api.With(vmi.Status.Conditions, api.Condition{
			Type: api.ConditionSynced, Status: corev1.ConditionFalse, Reason: "FailedCreate", Message: s.failed.Error(),
		}, s.now)
	case !vmi.Status.Phase.Unprocessed() && !vmi.Status.Phase.OnNode():
		vmi.Status.Conditions = slices.DeleteFunc(slices.Clone(vmi.Status.Conditions), func(c api.Condition) bool {
			return c.Type == api.ConditionSynced && c.Reason == "FailedCreate"
		})
	}
}

func (s situation) enterPhase(vmi *api.Instance, p api.Phase) { vmi.Status.Enter(p, s.now) }

func (s situation) setReady(vmi *api.Instance, status corev1.ConditionStatus, reason string) {
	vmi.Status.Conditions = api.With(vmi.Status.Conditions, api.Condition{Type: api.ConditionReady, Status: status, Reason: reason}, s.now)
}

// withActivePod returns the instance's active pods with one more.
func withActivePod(vmi *api.Instance, pod *corev1.Pod) map[typesUID]string {
	if vmi.Status.ActivePods[pod.UID] == pod.Spec.NodeName {
		return vmi.Status.ActivePods
	}
	out := maps.Clone(vmi.Status.ActivePods)
	if out == nil {
		out = map[typesUID]string{}
	}
	out[pod.UID] = pod.Spec.NodeName
	return out
}

func podReady(pod *corev1.Pod) bool {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	return i >= 0 && pod.Status.Conditions[i].Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
}

// withText returns a copy of a map with one more entry.
func withText(m map[string]string, key, value string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}

func withoutText(list []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == one })
}

// sortPods puts pods in an order that does not depend on the cache.
func sortPods(pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
}

package controller

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/planes/vm/internal/launcher"
)

// life is an instance, its pod, the machine that it may be of, and what the controller
// wrote of them.
type life struct {
	vm     *api.Machine
	vmi    *api.Instance
	pod    *corev1.Pod
	rules  Rules
	late   bool // steps do not come alone
	events int  // of the machine that its snapshots were not looked at for
	out    strings.Builder
	calls  int
	queued int // times that an event of the instance queued its node
	o      Options
}

// TestCalls plays the life of one instance, or of a machine and its instance, under each preset.
func TestCalls(t *testing.T) {
	repotest.Trace(t, "testdata/calls.trace", func(_ *testing.T, s repotest.Step) string {
		o := Default()
		set := o.Words()
		set.Reset()
		set.Apply(s.Args["preset"])
		l := &life{o: o, rules: o.Rules, late: s.Args["late"] == "true"}
		if s.Name == "machine" {
			l.vm, l.events = newMachine(), 1
		} else {
			l.vmi = instance("Pending")
			if s.Args["former"] == "true" || o.Rules.FormerFinalizer {
				l.vmi.Finalizers = []string{api.FinalizerFormer}
			}
		}
		l.start()
		l.end()
		return l.out.String()
	})
}

// newMachine is a machine with one volume that wants to run.
func newMachine() *api.Machine {
	vm := &api.Machine{ObjectMeta: metav1.ObjectMeta{Name: "v", Namespace: "n", UID: "m", Generation: 1}, Spec: api.MachineSpec{RunStrategy: "Always"}}
	vm.Spec.Template.Spec.Volumes = []api.Volume{{Name: "disk"}}
	return vm
}

// start plays all that happens until the instance is ready.
func (l *life) start() {
	l.settle("created")
	l.pod.Spec.NodeName = "node"
	l.settleUnlessLate("pod is bound")
	l.pod.Status.Phase = corev1.PodRunning
	l.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: api.ContainerCompute, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	l.settle("containers run")
	l.pod.Status.Conditions = append(l.pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	l.settleUnlessLate("pod is ready")
	l.change(func(vmi *api.Instance) {
		vmi.Status.Conditions = api.With(vmi.Status.Conditions, api.Condition{Type: api.ConditionMigratable, Status: corev1.ConditionTrue}, at(15))
	})
	l.settleUnlessLate("agent says that the machine can migrate")
	l.change(func(vmi *api.Instance) { vmi.Status.Enter(api.Running, at(20)) })
	l.settle("agent says that the machine runs")
	l.change(func(vmi *api.Instance) { vmi.Status.Interfaces = []api.Interface{{IP: "10.0.0.1"}} })
	l.settleUnlessLate("agent says the guest's address")
	l.sum()
}

// end plays all that happens until there is nothing left.
func (l *life) end() {
	switch {
	case l.vm == nil:
		l.change(deleted)
		l.settle("instance is deleted")
	case len(l.vm.Finalizers) > 0:
		l.vm.DeletionTimestamp = &metav1.Time{Time: at(30)}
		l.events++
		l.settle("machine is deleted")
	default:
		l.vm = nil
		l.change(deleted)
		l.settle("machine is deleted; the garbage collector deletes its instance")
	}
	l.pod = nil
	l.settle("pod has gone")
	l.change(func(vmi *api.Instance) { vmi.Status.Enter(api.Succeeded, at(40)) })
	l.settle("agent says that the machine has ended")
	l.sum()
}

func (l *life) sum() {
	fmt.Fprintf(&l.out, "%d writes, node queued %d times\n", l.calls, l.queued)
	l.calls, l.queued = 0, 0
}

func deleted(vmi *api.Instance) { vmi.DeletionTimestamp = &metav1.Time{Time: at(30)} }

// change is a write of the instance, whose event reaches the controller.
func (l *life) change(write func(*api.Instance)) {
	l.vmi = l.vmi.Copy()
	write(l.vmi)
	if len(l.vmi.Finalizers) > 0 && l.o.nodeOf(l.vmi) != "" { // without, it is gone: another event
		l.queued++
	}
}

// settle lets the controller do what follows, each time from what a cache would hold.
func (l *life) settle(what string) {
	fmt.Fprintf(&l.out, "%s\n", what)
	for range 10 {
		before := l.calls
		l.settleMachine()
		if l.vmi != nil {
			s := situation{vmi: l.vmi, now: at(10), rules: l.rules}
			if l.pod != nil {
				s.pods = []*corev1.Pod{l.pod}
			}
			for _, a := range s.actions() {
				l.apply(s, a)
				if !l.late {
					l.settleMachine()
				}
			}
			if len(l.vmi.Finalizers) == 0 {
				l.vmi = nil // as the server does of what is being deleted
			}
		}
		if l.calls == before {
			return
		}
	}
	l.out.WriteString("  and so on without an end\n")
}

// settleUnlessLate settles where the controller sees each step before the next.
func (l *life) settleUnlessLate(what string) {
	if !l.late {
		l.settle(what)
	}
}

func (l *life) apply(s situation, a action) {
	switch a.do {
	case createPod:
		l.pod = launcher.Pod(l.vmi, launcher.Options{NoGate: l.rules.Gate == GateNone})
		l.pod.UID, l.pod.Status = "pod", corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable}
		l.note("POST pods")
		l.note("POST events")
	case deletePod:
		l.pod = l.pod.DeepCopy()
		l.pod.DeletionTimestamp = &metav1.Time{Time: at(30)}
		l.note("DELETE pods")
		l.note("POST events")
	case openGate:
		l.pod.Status.Conditions = append(l.pod.Status.Conditions, corev1.PodCondition{Type: api.ConditionUnpaused, Status: corev1.ConditionTrue})
		l.note("PATCH pods/status gate")
	case labelPod:
		l.pod.Labels = withText(l.pod.Labels, api.LabelNode, l.vmi.Labels[api.LabelNode])
		l.note("PATCH pods label")
	default:
		next := s.nextInstance()
		if isSame(l.vmi, next) {
			return
		}
		verb := "PATCH"
		if ownsInstance(l.vmi) {
			verb = "UPDATE"
		}
		l.note(verb + " virtualmachineinstances " + strings.Join(changesOf(l.vmi, next), ", "))
		l.change(func(vmi *api.Instance) { *vmi = *next })
	}
}

// settleMachine lets the controller look at the machine until there is nothing to write.
func (l *life) settleMachine() {
	for before := -1; before != l.calls; {
		before = l.calls
		l.lookAtMachine()
		for ; l.vm != nil && l.events > 0 && l.rules.Machine.Snapshots != SnapshotNone; l.events-- {
			out := withSnapshots(l.vm)
			same := reflect.DeepEqual(out, l.vm)
			if same && l.rules.Machine.Snapshots == SnapshotChanges {
				continue
			}
			l.note("UPDATE virtualmachines/status snapshots")
			if !same {
				l.vm, l.events = out, l.events+1
			}
		}
	}
}

// lookAtMachine does what one look at the machine leads to.
func (l *life) lookAtMachine() {
	vm, vmi := l.vm, l.vmi
	if vm != nil {
		s := decideMachine(vm, vmi, at(10), l.rules)
		l.doStep(s)
		if s.prepares() {
			return
		}
		if status := machineStatus(vm, vmi, at(10), l.rules.Machine); isReported(vm, status, s, l.rules.Machine) {
			l.note("UPDATE virtualmachines/status " + strings.Join(statusChangesOf(vm.Status, status), ", "))
			l.changeMachine(func(vm *api.Machine) { vm.Status = status })
		}
	}
	if isReleased(vmi) {
		l.note("PATCH virtualmachineinstances finalizers")
		l.change(func(vmi *api.Instance) { vmi.Finalizers = withoutText(vmi.Finalizers, api.FinalizerMachine) })
	}
}

func (l *life) doStep(s step) {
	switch {
	case s.version:
		l.note("UPDATE virtualmachines annotations")
		l.changeMachine(func(vm *api.Machine) { vm.Annotations = withVersions(vm.Annotations) })
	case s.hold:
		l.note("PATCH virtualmachines finalizers")
		l.changeMachine(func(vm *api.Machine) { vm.Finalizers = []string{api.FinalizerMachine} })
	case s.create:
		if l.rules.Machine.Revision {
			l.note("POST controllerrevisions")
		}
		l.note("POST virtualmachineinstances")
		l.note("POST events")
		l.vmi = instanceOf(l.vm, l.rules.Machine)
		l.vmi.Finalizers, l.vmi.Status.Phase = append(l.vmi.Finalizers, l.rules.finalizer()), api.Pending // by the webhook
	case s.remove:
		l.note("DELETE virtualmachineinstances")
		l.note("POST events")
		l.change(deleted)
	case s.leave:
		l.note("PATCH virtualmachines finalizers")
		l.vm = nil
	}
}

// changeMachine changes the machine, if it is not gone, and what waits for its events.
func (l *life) changeMachine(change func(*api.Machine)) {
	if l.vm != nil {
		l.vm = l.vm.Copy()
		change(l.vm)
		l.events++
	}
}

func (l *life) note(call string) {
	l.calls++
	fmt.Fprintf(&l.out, "  %s\n", call)
}

// changesOf names what differs between two states of an instance.
func changesOf(old, now *api.Instance) (out []string) {
	if !reflect.DeepEqual(old.Annotations, now.Annotations) {
		out = append(out, "annotations")
	}
	out = append(out, conditionChanges(old.Status.Conditions, now.Status.Conditions)...)
	if old.Status.QOSClass != now.Status.QOSClass {
		out = append(out, "qosClass")
	}
	if old.Status.Phase != now.Status.Phase {
		out = append(out, string(now.Status.Phase))
	}
	if len(old.Status.ActivePods) != len(now.Status.ActivePods) {
		out = append(out, "activePods")
	}
	if !slices.Equal(old.Finalizers, now.Finalizers) {
		out = append(out, "finalizers")
	}
	return out
}

// statusChangesOf names what differs between two statuses of a machine.
func statusChangesOf(old, now api.MachineStatus) (out []string) {
	if old.Created != now.Created {
		out = append(out, fmt.Sprint("created=", now.Created))
	}
	if old.PrintableStatus != now.PrintableStatus {
		out = append(out, now.PrintableStatus)
	}
	if old.RunStrategy != now.RunStrategy {
		out = append(out, "runStrategy="+now.RunStrategy)
	}
	if old.ObservedGeneration != now.ObservedGeneration || old.DesiredGeneration != now.DesiredGeneration {
		out = append(out, fmt.Sprint("generations=", now.ObservedGeneration, "/", now.DesiredGeneration))
	}
	return append(out, conditionChanges(old.Conditions, now.Conditions)...)
}

func conditionChanges(old, now []api.Condition) (out []string) {
	for _, c := range now {
		if was := api.Find(old, c.Type); was == nil || !reflect.DeepEqual(*was, c) {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason)))
		}
	}
	return out
}

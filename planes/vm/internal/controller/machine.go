package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// MachineRules are what releases do differently about a machine. The zero value writes
// its instance, its Ready condition and its status.
type MachineRules struct {
	Finalizer bool   // it waits for its instance to be deleted
	Revision  bool   // a ControllerRevision keeps what each start was made of
	Status    string // what its status says, and when

	Generations bool   // its status has its run strategy, its generation and its instance's
	Snapshots   string // when its status says which volumes can have snapshots
}

// What a machine's status says, and when it says which volumes can have snapshots.
const (
	StatusAll       = "all"     // a copy of each condition of the instance
	StatusReady     = "ready"   // of its Ready condition
	StatusLate      = "late"    // the same, but nothing before there is an instance or after there was one
	SnapshotChanges = "changes" // when it changes
	SnapshotEvents  = "events"  // on every event of the machine, though it be the same
	SnapshotNone    = "none"
)

// reconcileMachine gives a machine the instance that it wants, or takes it away.
func (c *Controller) reconcileMachine(ctx context.Context, key string) error {
	vmi, vm := slim.Get[*api.Instance](c.instances, key), slim.Get[*api.Machine](c.machines, key)
	if vm == nil {
		c.children.Forget(key)
		return c.releaseInstance(ctx, vmi)
	}
	if vmi != nil && !metav1.IsControlledBy(vmi, vm) {
		vmi = nil
	}
	now, rules := c.o.Now(), c.o.Rules
	s := decideMachine(vm, vmi, now, rules)
	if s.retry > 0 {
		c.machineLoop.Queue.AddAfter(key, s.retry)
	}
	if err := c.doStep(ctx, vm, vmi, s); err != nil || s.prepares() {
		return err
	}
	if err := c.reportMachine(ctx, vm, machineStatus(vm, vmi, now, rules.Machine), s); err != nil {
		return err
	}
	return c.releaseInstance(ctx, vmi)
}

// step is what a machine needs next.
type step struct {
	version, hold  bool          // its API versions and its finalizer, before anything else
	create, remove bool          // its instance
	leave          bool          // its own finalizer
	retry          time.Duration // look again
}

// prepares says that the machine is looked at again when it is written.
func (s step) prepares() bool { return s.version || s.hold }

// decideMachine says what a machine needs, of what is known of it and its instance.
func decideMachine(vm *api.Machine, vmi *api.Instance, now time.Time, rules Rules) step {
	stays, held := vm.DeletionTimestamp == nil, slices.Contains(vm.Finalizers, api.FinalizerMachine)
	switch {
	case rules.Versions && stays && !hasVersions(vm.Annotations):
		return step{version: true}
	case rules.Machine.Finalizer && stays && !held:
		return step{hold: true}
	}
	wanted := stays && shouldRun(&vm.Spec)
	if vmi == nil {
		if f := vm.Status.StartFailure; wanted && f != nil && f.RetryAfterTimestamp != nil && now.Before(f.RetryAfterTimestamp.Time) {
			return step{retry: f.RetryAfterTimestamp.Sub(now)}
		}
		return step{create: wanted, leave: !stays && held}
	}
	return step{remove: vmi.DeletionTimestamp == nil && (vmi.Status.Phase.Final() || !wanted)}
}

func shouldRun(s *api.MachineSpec) bool {
	return slices.Contains([]string{strategyAlways, "RerunOnFailure", "Once"}, strategyOf(s))
}

const strategyAlways = "Always"

// strategyOf returns the run strategy of a machine, which it may have in short.
func strategyOf(s *api.MachineSpec) string {
	switch {
	case s.Running == nil:
		return s.RunStrategy
	case *s.Running:
		return strategyAlways
	}
	return "Halted"
}

func (c *Controller) doStep(ctx context.Context, vm *api.Machine, vmi *api.Instance, s step) error {
	key := vm.Namespace + "/" + vm.Name
	switch {
	case s.version:
		out := vm.Copy()
		out.Annotations = withVersions(out.Annotations)
		_, err := c.client.Machines.Update(ctx, out)
		return ignoreMissing(err)
	case s.hold:
		_, err := c.client.Machines.Patch(ctx, vm, finalizersPatch(vm.Finalizers, append(slices.Clip(vm.Finalizers), api.FinalizerMachine)))
		return ignoreMissing(err)
	case s.create && c.children.Satisfied(key):
		return c.createInstance(ctx, key, vm)
	case s.remove && c.children.Satisfied(key):
		return c.removeInstance(ctx, key, vm, vmi)
	case s.leave:
		_, err := c.client.Machines.Patch(ctx, vm, finalizersPatch(vm.Finalizers, withoutText(vm.Finalizers, api.FinalizerMachine)))
		return ignoreMissing(err)
	}
	return nil
}

func (c *Controller) removeInstance(ctx context.Context, key string, vm *api.Machine, vmi *api.Instance) error {
	c.children.Expect(key, "delete/"+string(vmi.UID))
	if err := c.client.Instances.Delete(ctx, vmi); err != nil {
		c.children.Seen(key, "delete/"+string(vmi.UID))
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete instance %s: %w", key, err)
		}
		return nil
	}
	c.events.Eventf(vm, corev1.EventTypeNormal, "SuccessfulDelete", "Stopped the virtual machine by deleting the virtual machine instance %s", vmi.UID)
	return nil
}

// releaseInstance lets go of a machine's instance that has ended and is deleted.
func (c *Controller) releaseInstance(ctx context.Context, vmi *api.Instance) error {
	if !isReleased(vmi) {
		return nil
	}
	_, err := c.client.Instances.Patch(ctx, vmi, finalizersPatch(vmi.Finalizers, withoutText(vmi.Finalizers, api.FinalizerMachine)))
	return ignoreMissing(err)
}

func finalizersPatch(old, now []string) *api.Patch {
	return (&api.Patch{}).Change("/metadata/finalizers", old, now)
}

// isReleased says that nothing needs a machine's instance any more but for its finalizer.
func isReleased(vmi *api.Instance) bool {
	return vmi != nil && vmi.Status.Phase.Final() && vmi.DeletionTimestamp != nil && slices.Contains(vmi.Finalizers, api.FinalizerMachine)
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (c *Controller) createInstance(ctx context.Context, key string, vm *api.Machine) error {
	vmi := instanceOf(vm, c.o.Rules.Machine)
	if c.o.Rules.Machine.Revision {
		r, err := revisionOf(vm)
		if err == nil {
			_, err = c.revisions.ControllerRevisions(vm.Namespace).Create(ctx, r, metav1.CreateOptions{})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) { // an earlier start was made of the same
			return fmt.Errorf("create revision of machine %s: %w", key, err)
		}
		vmi.Status.VirtualMachineRevisionName = r.Name
	}
	c.children.Expect(key, "create/"+vmi.Name)
	_, err := c.client.Instances.Create(ctx, vmi)
	if err != nil {
		c.children.Seen(key, "create/"+vmi.Name)
		if apierrors.IsAlreadyExists(err) {
			return nil // the watch brings it
		}
		c.events.Eventf(vm, corev1.EventTypeWarning, "FailedCreate", "Error creating virtual machine instance: %v", err)
		return fmt.Errorf("create instance %s: %w", key, err)
	}
	c.events.Eventf(vm, corev1.EventTypeNormal, "SuccessfulCreate", "Started the virtual machine by creating the new virtual machine instance %s", vmi.Name)
	return nil
}

// instanceOf returns the instance that a machine makes.
func instanceOf(vm *api.Machine, rules MachineRules) *api.Instance {
	meta := vm.Spec.Template.Metadata
	labels := maps.Clone(meta.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[api.LabelName] = vm.Name
	annotations := maps.Clone(meta.Annotations)
	if rules.Generations {
		annotations = withText(annotations, api.AnnotationGeneration, strconv.FormatInt(vm.Generation, 10))
	}
	return &api.Instance{
		TypeMeta: metav1.TypeMeta{APIVersion: api.GroupVersion().String(), Kind: "VirtualMachineInstance"},
		ObjectMeta: metav1.ObjectMeta{
			Name: vm.Name, Namespace: vm.Namespace, Labels: labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, api.GroupVersion().WithKind("VirtualMachine"))},
			Finalizers:      []string{api.FinalizerMachine},
		},
		Spec: vm.Spec.Template.Spec,
	}
}

// revisionOf returns what keeps the specification that a machine starts of.
func revisionOf(vm *api.Machine) (*appsv1.ControllerRevision, error) {
	raw, err := json.Marshal(map[string]any{"spec": vm.Spec})
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("revision-start-vm-%s-%d", vm.UID, vm.Generation), Namespace: vm.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, api.GroupVersion().WithKind("VirtualMachine"))},
		},
		Data: runtime.RawExtension{Raw: raw}, Revision: vm.Generation,
	}, err
}

// reportMachine writes the status where it changed.
func (c *Controller) reportMachine(ctx context.Context, vm *api.Machine, status api.MachineStatus, s step) error {
	if !isReported(vm, status, s, c.o.Rules.Machine) {
		return nil
	}
	out := vm.Copy()
	out.Status = status
	_, err := c.client.Machines.Update(ctx, out, "status")
	return ignoreMissing(err)
}

// isReported says whether a status is written. A late one is not while the next event
// tells more, or nobody is to read it.
func isReported(vm *api.Machine, status api.MachineStatus, s step, rules MachineRules) bool {
	return !reflect.DeepEqual(status, vm.Status) && !(rules.Status == StatusLate && (s.create || s.leave))
}

// machineStatus says how a machine is.
func machineStatus(vm *api.Machine, vmi *api.Instance, now time.Time, rules MachineRules) api.MachineStatus {
	out := vm.Copy().Status
	out.Created = vmi != nil
	out.Ready = vmi != nil && api.True(vmi.Status.Conditions, api.ConditionReady)
	out.PrintableStatus = printableStatus(vm, vmi)
	out.Conditions = api.With(out.Conditions, readyCondition(vmi, rules), now)
	if vmi != nil && rules.Status == StatusAll {
		out.Conditions = withConditionsOf(out.Conditions, vmi.Status.Conditions)
	}
	if rules.Generations {
		setGenerations(&out, vm, vmi)
	}
	switch {
	case vmi == nil:
	case vmi.Status.Phase == api.Running:
		out.StartFailure = nil
	case vmi.Status.Phase == api.Failed && (out.StartFailure == nil || out.StartFailure.LastFailedVMIUID != vmi.UID):
		out.StartFailure = nextFailure(out.StartFailure, vmi, now)
	}
	return out
}

// setGenerations says how a machine is to run and, as long as there is an instance, of which
// generation that was made.
func setGenerations(out *api.MachineStatus, vm *api.Machine, vmi *api.Instance) {
	out.RunStrategy = strategyOf(&vm.Spec)
	if vmi == nil {
		return
	}
	if of, err := strconv.ParseInt(vmi.Annotations[api.AnnotationGeneration], 10, 64); err == nil {
		out.ObservedGeneration, out.DesiredGeneration = of, vm.Generation
	}
}

// readyCondition is that of a machine with an instance, or without one.
func readyCondition(vmi *api.Instance, rules MachineRules) api.Condition {
	out := api.Condition{Type: api.ConditionReady, Status: corev1.ConditionFalse, Reason: "VMINotExists"}
	if vmi == nil {
		return out
	}
	if c := api.Find(vmi.Status.Conditions, api.ConditionReady); c != nil {
		out.Status, out.Reason = c.Status, c.Reason
	} else if out.Reason = "VMIConditionMissing"; rules.Status == StatusLate {
		out.Reason = "GuestNotRunning" // which it is to have next
	}
	return out
}

// withConditionsOf returns a machine's conditions with those that its instance has, and
// without others; Ready, which a machine always has, stays.
func withConditionsOf(machine, instance []api.Condition) []api.Condition {
	out := slices.DeleteFunc(slices.Clone(machine), func(c api.Condition) bool {
		return c.Type != api.ConditionReady && api.Find(instance, c.Type) == nil
	})
	for _, c := range instance {
		if c.Type != api.ConditionReady {
			out = api.With(out, c, c.LastTransitionTime.Time)
		}
	}
	return out
}

// reconcileSnapshots says in a machine's status that its volumes can have no snapshots, as
// those of a cluster without a class of snapshots.
func (c *Controller) reconcileSnapshots(ctx context.Context, key string) error {
	vm := slim.Get[*api.Machine](c.machines, key)
	if vm == nil {
		return nil
	}
	out := withSnapshots(vm)
	if c.o.Rules.Machine.Snapshots == SnapshotChanges && reflect.DeepEqual(out.Status, vm.Status) {
		return nil
	}
	_, err := c.client.Machines.Update(ctx, out, "status")
	return ignoreMissing(err)
}

func withSnapshots(vm *api.Machine) *api.Machine {
	out := vm.Copy()
	out.Status.VolumeSnapshotStatuses = nil
	for _, v := range vm.Spec.Template.Spec.Volumes {
		out.Status.VolumeSnapshotStatuses = append(out.Status.VolumeSnapshotStatuses, api.SnapshotStatus{
			Name: v.Name, Reason: "Snapshot is not supported for this volumeSource type [" + v.Name + "]",
		})
	}
	return out
}

// nextFailure doubles the pause before the next instance, from 10 s to 5 min.
func nextFailure(last *api.StartFailure, vmi *api.Instance, now time.Time) *api.StartFailure {
	n := 1
	if last != nil {
		n = last.ConsecutiveFailCount + 1
	}
	after := metav1.NewTime(now.Add(min(10*time.Second<<min(n-1, 5), 5*time.Minute)).Truncate(time.Second))
	return &api.StartFailure{ConsecutiveFailCount: n, LastFailedVMIUID: vmi.UID, RetryAfterTimestamp: &after}
}

func printableStatus(vm *api.Machine, vmi *api.Instance) string {
	switch {
	case vm.DeletionTimestamp != nil:
		return "Terminating"
	case vmi == nil && vm.Status.StartFailure != nil:
		return "CrashLoopBackOff"
	case vmi == nil && shouldRun(&vm.Spec):
		return "Starting"
	case vmi == nil:
		return "Stopped"
	case vmi.DeletionTimestamp != nil || vmi.Status.Phase.Final():
		return "Stopping"
	case vmi.Status.MigrationState != nil && !vmi.Status.MigrationState.Completed && !vmi.Status.MigrationState.Failed:
		return "Migrating"
	case vmi.Status.Phase == api.Running:
		return "Running"
	}
	return "Starting"
}

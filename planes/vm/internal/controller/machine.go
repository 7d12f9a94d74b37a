package controller

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// reconcileMachine gives a machine the instance that it wants, or takes it away.
func (c *Controller) reconcileMachine(ctx context.Context, key string) error {
	o, exists, err := c.machines.GetIndexer().GetByKey(key)
	if err != nil {
		return err
	}
	if !exists {
		c.children.Forget(key)
		return nil
	}
	vm := o.(*api.Machine)
	if vm.DeletionTimestamp == nil && !slices.Contains(vm.Finalizers, api.FinalizerMachine) {
		return c.addFinalizer(ctx, vm)
	}
	var vmi *api.Instance
	if o, exists, err := c.instances.GetIndexer().GetByKey(key); err != nil {
		return err
	} else if exists && metav1.IsControlledBy(o.(*api.Instance), vm) {
		vmi = o.(*api.Instance)
	}
	now := c.o.Now()
	act := decideMachine(vm, vmi, now)
	if act.retry > 0 {
		c.machineLoop.Queue.AddAfter(key, act.retry)
	}
	if err := c.doStep(ctx, vm, vmi, act); err != nil {
		return err
	}
	return c.reportMachine(ctx, vm, machineStatus(vm, vmi, now), act)
}

// step is what a machine needs next.
type step struct {
	create, remove bool          // its instance
	release        bool          // its hold on its instance
	leave          bool          // its own finalizer
	retry          time.Duration // look again
}

// decideMachine says what a machine needs, of what is known of it and its instance.
func decideMachine(vm *api.Machine, vmi *api.Instance, now time.Time) step {
	wanted := vm.DeletionTimestamp == nil && shouldRun(&vm.Spec)
	if vmi == nil {
		if f := vm.Status.StartFailure; wanted && f != nil && f.RetryAfterTimestamp != nil && now.Before(f.RetryAfterTimestamp.Time) {
			return step{retry: f.RetryAfterTimestamp.Sub(now)}
		}
		return step{create: wanted, leave: vm.DeletionTimestamp != nil}
	}
	over := vmi.Status.Phase.Final()
	return step{
		remove:  vmi.DeletionTimestamp == nil && (over || !wanted),
		release: over && vmi.DeletionTimestamp != nil && slices.Contains(vmi.Finalizers, api.FinalizerMachine),
	}
}

func shouldRun(s *api.MachineSpec) bool {
	if s.Running != nil {
		return *s.Running
	}
	return slices.Contains([]string{"Always", "RerunOnFailure", "Once"}, s.RunStrategy)
}

func (c *Controller) doStep(ctx context.Context, vm *api.Machine, vmi *api.Instance, s step) error {
	key := vm.Namespace + "/" + vm.Name
	switch {
	case s.create && c.children.Satisfied(key):
		return c.createInstance(ctx, key, vm)
	case s.remove && c.children.Satisfied(key):
		c.children.Expect(key, "delete/"+string(vmi.UID))
		if err := c.client.Instances.Delete(ctx, vmi); err != nil {
			c.children.Seen(key, "delete/"+string(vmi.UID))
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete instance %s: %w", key, err)
			}
			return nil
		}
		c.events.Eventf(vm, corev1.EventTypeNormal, "SuccessfulDelete", "Stopped the virtual machine by deleting the virtual machine instance %s", vmi.UID)
	case s.release:
		p := (&api.Patch{}).Change("/metadata/finalizers", vmi.Finalizers, withoutText(vmi.Finalizers, api.FinalizerMachine))
		_, err := c.client.Instances.Patch(ctx, vmi, p)
		return ignoreMissing(err)
	case s.leave:
		p := (&api.Patch{}).Change("/metadata/finalizers", vm.Finalizers, withoutText(vm.Finalizers, api.FinalizerMachine))
		_, err := c.client.Machines.Patch(ctx, vm, p)
		return ignoreMissing(err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// addFinalizer holds a machine until its instance is gone.
func (c *Controller) addFinalizer(ctx context.Context, vm *api.Machine) error {
	p := (&api.Patch{}).Change("/metadata/finalizers", vm.Finalizers, append(slices.Clip(vm.Finalizers), api.FinalizerMachine))
	_, err := c.client.Machines.Patch(ctx, vm, p)
	return ignoreMissing(err)
}

func (c *Controller) createInstance(ctx context.Context, key string, vm *api.Machine) error {
	vmi := instanceOf(vm)
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
func instanceOf(vm *api.Machine) *api.Instance {
	meta := vm.Spec.Template.Metadata
	labels := maps.Clone(meta.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[api.LabelName] = vm.Name
	return &api.Instance{
		TypeMeta: metav1.TypeMeta{APIVersion: api.GroupVersion().String(), Kind: "VirtualMachineInstance"},
		ObjectMeta: metav1.ObjectMeta{
			Name: vm.Name, Namespace: vm.Namespace, Labels: labels, Annotations: maps.Clone(meta.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, api.GroupVersion().WithKind("VirtualMachine"))},
			Finalizers:      []string{api.FinalizerMachine},
		},
		Spec: vm.Spec.Template.Spec,
	}
}

// reportMachine writes the status where it changed. Of one that leaves nobody
// reads it, and of one whose instance was just asked for the next event tells more.
func (c *Controller) reportMachine(ctx context.Context, vm *api.Machine, status api.MachineStatus, s step) error {
	if s.leave || s.create || reflect.DeepEqual(status, vm.Status) {
		return nil
	}
	out := vm.Copy()
	out.Status = status
	_, err := c.client.Machines.Update(ctx, out, "status")
	return ignoreMissing(err)
}

// machineStatus says how a machine is.
func machineStatus(vm *api.Machine, vmi *api.Instance, now time.Time) api.MachineStatus {
	out := vm.Copy().Status
	out.Created = vmi != nil
	out.Ready = vmi != nil && api.True(vmi.Status.Conditions, api.ConditionReady)
	out.PrintableStatus = printableStatus(vm, vmi)
	ready := api.Condition{Type: api.ConditionReady, Status: corev1.ConditionFalse, Reason: "VMINotExists"}
	if vmi != nil {
		ready.Reason = "GuestNotRunning"
		if c := api.Find(vmi.Status.Conditions, api.ConditionReady); c != nil {
			ready.Status, ready.Reason = c.Status, c.Reason
		}
	}
	out.Conditions = api.With(out.Conditions, ready, now)
	switch {
	case vmi == nil:
	case vmi.Status.Phase == api.Running:
		out.StartFailure = nil
	case vmi.Status.Phase == api.Failed && (out.StartFailure == nil || out.StartFailure.LastFailedVMIUID != vmi.UID):
		out.StartFailure = nextFailure(out.StartFailure, vmi, now)
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

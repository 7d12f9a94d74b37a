package registry

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// Delete removes an object, or marks it where a finalizer or a kubelet has to act first.
// store.ErrChanged says that another write came between: call Delete again.
func (r *Registry) Delete(w Write, options metav1.DeleteOptions) (Result, error) {
	current := r.Table(w.Kind).Get(w.Key())
	if current == nil {
		return Result{}, apierrors.NewNotFound(w.Kind.Resource(), w.Name)
	}
	o, err := w.Kind.Decode(current.Raw)
	if err != nil {
		return Result{}, err
	}
	d, err := decideDeletion(w, o, options)
	if err != nil {
		return Result{}, err
	}
	switch {
	case d == keepDeleted:
		return Result{Kind: w.Kind, Stored: current}, nil
	case w.DryRun:
		return Result{Kind: w.Kind, Typed: o, Gone: d == removeUnmarked || d == removeMarked}, nil
	}
	out := Result{Kind: w.Kind, Stored: current, Typed: o}
	if d != removeUnmarked {
		if out, err = r.storeMarked(w, current, o); err != nil || d == markOnly {
			return out, err
		}
	}
	last, err := r.Table(w.Kind).Remove(out.Stored, Encoder(w.Kind, o))
	if err != nil {
		return Result{Tasks: out.Tasks}, err
	}
	out.Stored, out.Gone = last, true
	out.Tasks = append(out.Tasks, r.afterRemoval(w.Kind, o)...)
	return out, nil
}

// storeMarked stores an object in place of the current one, unless they are equal.
func (r *Registry) storeMarked(w Write, current *store.Object, o runtime.Object) (Result, error) {
	out := Result{Kind: w.Kind, Stored: current, Typed: o}
	raw, err := w.Kind.Encode(o)
	if err != nil || bytes.Equal(raw, current.Raw) {
		return out, err
	}
	if out.Stored, err = r.Table(w.Kind).Put(current.Key, current, Encoder(w.Kind, o)); err == nil {
		out.Tasks = r.afterWrite(w.Kind, o, w.Now)
	}
	return out, err
}

// deletion is what a deletion does with an object.
type deletion int

const (
	keepDeleted    deletion = iota // nothing: it is being deleted, and no less time is left
	markOnly                       // mark it: others have to act before it goes
	removeMarked                   // mark it, so that watches see it, and remove it
	removeUnmarked                 // remove it
)

// decideDeletion marks an object as the deletion wants it and says what else the deletion
// does with it.
func decideDeletion(w Write, o runtime.Object, options metav1.DeleteOptions) (deletion, error) {
	m := kind.Meta(o)
	if err := checkPreconditions(w.Target, options.Preconditions, m); err != nil {
		return keepDeleted, err
	}
	graceful, pending := setGracePeriod(o, &options, w.Now)
	if pending {
		return keepDeleted, nil
	}
	finalizers := deletionFinalizers(m.GetFinalizers(), options)
	m.SetFinalizers(finalizers)
	waits := len(finalizers) > 0
	if ns, ok := o.(*corev1.Namespace); ok {
		ns.Status.Phase = corev1.NamespaceTerminating
		waits = waits || len(ns.Spec.Finalizers) > 0
	}
	if waits && !graceful {
		markDeleted(o, w.Now)
	}
	switch {
	case waits || graceful && *options.GracePeriodSeconds > 0:
		return markOnly, nil
	case graceful:
		return removeMarked, nil
	}
	return removeUnmarked, nil
}

// checkPreconditions refuses an object that is another one than is meant.
func checkPreconditions(t Target, p *metav1.Preconditions, m metav1.Object) error {
	if p == nil {
		return nil
	}
	r := schema.GroupResource{Group: t.Kind.Group, Resource: t.Kind.Kind}
	if p.UID != nil && *p.UID != m.GetUID() {
		if t.Kind.Table() == "namespaces" {
			return apierrors.NewConflict(t.Kind.Resource(), t.Name, fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, m.GetUID()))
		}
		return apierrors.NewConflict(r, m.GetName(), fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, m.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != m.GetResourceVersion() {
		return apierrors.NewConflict(r, m.GetName(), fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, m.GetResourceVersion()))
	}
	return nil
}

// markDeleted marks an object as being deleted, without a grace period.
func markDeleted(o runtime.Object, now time.Time) {
	m := kind.Meta(o)
	if m.GetDeletionTimestamp() == nil {
		if m.GetGeneration() > 0 {
			m.SetGeneration(m.GetGeneration() + 1)
		}
		m.SetDeletionTimestamp(new(TimeOf(now)))
	}
	if _, ok := o.(*corev1.Namespace); !ok {
		m.SetDeletionGracePeriodSeconds(new(int64))
	}
}

// setGracePeriod marks a pod that a kubelet has to end. The deletion is pending when the
// pod was marked before and the new grace period is no shorter.
func setGracePeriod(o runtime.Object, options *metav1.DeleteOptions, now time.Time) (graceful, pending bool) {
	if g := options.GracePeriodSeconds; g != nil && *g < 0 {
		options.GracePeriodSeconds = new(int64(1))
	}
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return false, false
	}
	if pod.DeletionTimestamp != nil {
		return shortenGracePeriod(pod, options, now)
	}
	period := int64(0)
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		period = *g
	}
	if options.GracePeriodSeconds != nil {
		period = *options.GracePeriodSeconds
	}
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		period = 0
	}
	if period < 0 {
		period = 1
	}
	options.GracePeriodSeconds = &period
	pod.DeletionTimestamp = new(metav1.NewTime(TimeOf(now).Add(time.Duration(period) * time.Second)))
	pod.DeletionGracePeriodSeconds = &period
	if pod.Generation > 0 {
		pod.Generation++
	}
	return true, false
}

// shortenGracePeriod leaves a pod that is being deleted less time, if the options ask for
// it.
func shortenGracePeriod(pod *corev1.Pod, options *metav1.DeleteOptions, now time.Time) (graceful, pending bool) {
	left := pod.DeletionGracePeriodSeconds
	if left == nil || *left == 0 {
		return false, false
	}
	if options.GracePeriodSeconds == nil || *options.GracePeriodSeconds >= *left {
		return false, true
	}
	period := *options.GracePeriodSeconds
	end := metav1.NewTime(pod.DeletionTimestamp.Add(time.Duration(period-*left) * time.Second))
	if now := TimeOf(now); end.Before(&now) {
		end, period = now, min(period, 1)
	}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &end, &period
	options.GracePeriodSeconds = &period
	return true, false
}

// deletionFinalizers returns the finalizers of an object that is deleted: they say whether
// its dependents go first, stay, or go after it.
func deletionFinalizers(finalizers []string, options metav1.DeleteOptions) []string {
	orphan := slices.Contains(finalizers, metav1.FinalizerOrphanDependents)
	foreground := slices.Contains(finalizers, metav1.FinalizerDeleteDependents)
	if o := options.OrphanDependents; o != nil {
		orphan, foreground = *o, false
	}
	if p := options.PropagationPolicy; p != nil {
		orphan, foreground = *p == metav1.DeletePropagationOrphan, *p == metav1.DeletePropagationForeground
	}
	var out []string
	for _, f := range finalizers {
		if f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents {
			out = append(out, f)
		}
	}
	if orphan {
		out = append(out, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		out = append(out, metav1.FinalizerDeleteDependents)
	}
	return out
}

// isFinalized reports whether an object that was being deleted has nothing left to wait
// for.
func isFinalized(old, next runtime.Object) bool {
	was := kind.Meta(old)
	if was.GetDeletionTimestamp() == nil || len(kind.Meta(next).GetFinalizers()) > 0 {
		return false
	}
	if ns, ok := next.(*corev1.Namespace); ok {
		return len(ns.Spec.Finalizers) == 0
	}
	g := was.GetDeletionGracePeriodSeconds()
	return g == nil || *g == 0
}

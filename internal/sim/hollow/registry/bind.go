package registry

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Bind returns the change of a pod that assigns the pod to a node. The change is refused
// where the pod is being deleted or has a node.
func (r *Registry) Bind(w Write, b *corev1.Binding) Change {
	w.Kind = r.Kinds().Find("", "v1", "pods")
	return Change{Write: w, UID: b.UID, Binding: true, Replace: func(old runtime.Object, now time.Time) (runtime.Object, error) {
		return assignNode(old.(*corev1.Pod), b, now)
	}}
}

// assignNode returns a pod with the node of a binding.
func assignNode(old *corev1.Pod, b *corev1.Binding, now time.Time) (runtime.Object, error) {
	refuse := func(why string) (runtime.Object, error) {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, old.Name, fmt.Errorf("%s", why))
	}
	switch {
	case old.DeletionTimestamp != nil:
		return refuse(fmt.Sprintf("pod %s is being deleted, cannot be assigned to a host", old.Name))
	case old.Spec.NodeName != "":
		return refuse(fmt.Sprintf("pod %s is already assigned to node %q", old.Name, old.Spec.NodeName))
	}
	p := old.DeepCopy()
	p.Spec.NodeName = b.Target.Name
	for key, value := range b.Annotations {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
	}
	scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: TimeOf(now)}
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if i < 0 {
		p.Status.Conditions = append(p.Status.Conditions, scheduled)
	} else {
		p.Status.Conditions[i] = scheduled
	}
	return p, nil
}

// Disruptions returns the changes of the disruption budgets of a pod that is to be
// evicted: each takes a disruption, and is refused where its budget allows none. A pod
// that has ended, or has not begun, needs none.
func (r *Registry) Disruptions(w Write) ([]Change, error) {
	stored := r.Table(w.Kind).Get(w.Key())
	if stored == nil {
		return nil, apierrors.NewNotFound(w.Kind.Resource(), w.Name)
	}
	var pod corev1.Pod
	if err := pod.Unmarshal(stored.Raw); err != nil {
		return nil, err
	}
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
		return nil, nil
	}
	budgets := r.Kinds().Find("policy", "v1", "poddisruptionbudgets")
	found, err := r.Table(budgets).List(store.Query{Prefix: w.Namespace + "/"})
	if err != nil {
		return nil, err
	}
	var out []Change
	for _, o := range found.Objects {
		var b policyv1.PodDisruptionBudget
		if err := b.Unmarshal(o.Raw); err != nil {
			return nil, err
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			return nil, err
		}
		if selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, takeDisruption(w, targetOf(budgets, o.Key)))
		}
	}
	return out, nil
}

// takeDisruption returns the change of a budget that takes a disruption for a pod.
func takeDisruption(pod Write, budget Target) Change {
	budget.Sub = "status"
	return Change{Write: Write{Target: budget, DryRun: pod.DryRun, Now: pod.Now}, Replace: func(old runtime.Object, now time.Time) (runtime.Object, error) {
		next := old.DeepCopyObject().(*policyv1.PodDisruptionBudget)
		if next.Status.DisruptionsAllowed <= 0 {
			err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause,
				Message: fmt.Sprintf("The disruption budget %s needs %s and has %d currently", next.Name, unit.Count(next.Status.DesiredHealthy, "healthy pods"), next.Status.CurrentHealthy)})
			return nil, err
		}
		next.Status.DisruptionsAllowed--
		if next.Status.DisruptedPods == nil {
			next.Status.DisruptedPods = map[string]metav1.Time{}
		}
		next.Status.DisruptedPods[pod.Name] = TimeOf(now)
		return next, nil
	}}
}

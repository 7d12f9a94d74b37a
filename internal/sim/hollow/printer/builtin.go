package printer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	none    = "<none>"
	unknown = "<unknown>"
)

// builtinColumns returns the columns of a built-in resource, as k8s.io/kubernetes has
// them in pkg/printers/internalversion; nothing for one that is shown by its name and
// time of creation here.
func builtinColumns(table string) []column {
	switch table {
	case "pods":
		return podColumns()
	case "nodes":
		return nodeColumns()
	case "events":
		return eventColumns()
	case "namespaces":
		return named(text("Status", func(o *corev1.Namespace) string { return string(o.Status.Phase) }), ageColumn())
	case "configmaps":
		return named(number("Data", func(o *corev1.ConfigMap) int { return len(o.Data) + len(o.BinaryData) }).asText(), ageColumn())
	case "secrets":
		return named(text("Type", func(o *corev1.Secret) string { return string(o.Type) }),
			number("Data", func(o *corev1.Secret) int { return len(o.Data) }).asText(), ageColumn())
	case "serviceaccounts":
		return named(ageColumn())
	case "services":
		return serviceColumns()
	case "poddisruptionbudgets.policy":
		bound := func(v *intstr.IntOrString) string {
			if v == nil {
				return "N/A"
			}
			return v.String()
		}
		return named(text("Min Available", func(o *policyv1.PodDisruptionBudget) string { return bound(o.Spec.MinAvailable) }),
			text("Max Unavailable", func(o *policyv1.PodDisruptionBudget) string { return bound(o.Spec.MaxUnavailable) }),
			number("Allowed Disruptions", func(o *policyv1.PodDisruptionBudget) int { return int(o.Status.DisruptionsAllowed) }), ageColumn())
	case "priorityclasses.scheduling.k8s.io":
		return named(number("Value", func(o *schedulingv1.PriorityClass) int { return int(o.Value) }),
			column{name: "Global-Default", cell: func(o runtime.Object, _ time.Time) any { return o.(*schedulingv1.PriorityClass).GlobalDefault }}, ageColumn(),
			text("PreemptionPolicy", func(o *schedulingv1.PriorityClass) string { return string(value(o.PreemptionPolicy)) }))
	case "leases.coordination.k8s.io":
		return named(text("Holder", func(o *coordinationv1.Lease) string { return value(o.Spec.HolderIdentity) }), ageColumn())
	case "rolebindings.rbac.authorization.k8s.io":
		return named(text("Role", func(o *rbacv1.RoleBinding) string { return o.RoleRef.Kind + "/" + o.RoleRef.Name }), ageColumn(),
			text("Users", func(o *rbacv1.RoleBinding) string { return subjects(o.Subjects, rbacv1.UserKind) }).whenWide(),
			text("Groups", func(o *rbacv1.RoleBinding) string { return subjects(o.Subjects, rbacv1.GroupKind) }).whenWide(),
			text("ServiceAccounts", func(o *rbacv1.RoleBinding) string { return subjects(o.Subjects, rbacv1.ServiceAccountKind) }).whenWide())
	}
	return workloadColumns(table)
}

// workloadColumns are those of what makes pods.
func workloadColumns(table string) []column {
	switch table {
	case "deployments.apps":
		spec := func(o *appsv1.Deployment) *corev1.PodSpec { return &o.Spec.Template.Spec }
		return named(text("Ready", func(o *appsv1.Deployment) string { return ratio(o.Status.ReadyReplicas, o.Spec.Replicas) }),
			number("Up-to-date", func(o *appsv1.Deployment) int { return int(o.Status.UpdatedReplicas) }).asText(),
			number("Available", func(o *appsv1.Deployment) int { return int(o.Status.AvailableReplicas) }).asText(), ageColumn(),
			containers(spec), images(spec),
			text("Selector", func(o *appsv1.Deployment) string { return selected(o.Spec.Selector) }).whenWide())
	case "replicasets.apps":
		spec := func(o *appsv1.ReplicaSet) *corev1.PodSpec { return &o.Spec.Template.Spec }
		return named(number("Desired", func(o *appsv1.ReplicaSet) int { return int(value(o.Spec.Replicas)) }),
			number("Current", func(o *appsv1.ReplicaSet) int { return int(o.Status.Replicas) }),
			number("Ready", func(o *appsv1.ReplicaSet) int { return int(o.Status.ReadyReplicas) }), ageColumn(),
			containers(spec), images(spec),
			text("Selector", func(o *appsv1.ReplicaSet) string { return metav1.FormatLabelSelector(o.Spec.Selector) }).whenWide())
	case "statefulsets.apps":
		spec := func(o *appsv1.StatefulSet) *corev1.PodSpec { return &o.Spec.Template.Spec }
		return named(text("Ready", func(o *appsv1.StatefulSet) string { return ratio(o.Status.ReadyReplicas, o.Spec.Replicas) }), ageColumn(),
			containers(spec), images(spec))
	case "daemonsets.apps":
		spec := func(o *appsv1.DaemonSet) *corev1.PodSpec { return &o.Spec.Template.Spec }
		return named(number("Desired", func(o *appsv1.DaemonSet) int { return int(o.Status.DesiredNumberScheduled) }),
			number("Current", func(o *appsv1.DaemonSet) int { return int(o.Status.CurrentNumberScheduled) }),
			number("Ready", func(o *appsv1.DaemonSet) int { return int(o.Status.NumberReady) }),
			number("Up-to-date", func(o *appsv1.DaemonSet) int { return int(o.Status.UpdatedNumberScheduled) }),
			number("Available", func(o *appsv1.DaemonSet) int { return int(o.Status.NumberAvailable) }),
			text("Node Selector", func(o *appsv1.DaemonSet) string { return labels.FormatLabels(o.Spec.Template.Spec.NodeSelector) }), ageColumn(),
			containers(spec), images(spec),
			text("Selector", func(o *appsv1.DaemonSet) string { return metav1.FormatLabelSelector(o.Spec.Selector) }).whenWide())
	case "cronjobs.batch":
		spec := func(o *batchv1.CronJob) *corev1.PodSpec { return &o.Spec.JobTemplate.Spec.Template.Spec }
		return named(text("Schedule", func(o *batchv1.CronJob) string { return o.Spec.Schedule }),
			text("Timezone", func(o *batchv1.CronJob) string { return or(value(o.Spec.TimeZone), none) }), text("Suspend", suspended),
			number("Active", func(o *batchv1.CronJob) int { return len(o.Status.Active) }),
			column{name: "Last Schedule", cell: func(o runtime.Object, now time.Time) any {
				if at := o.(*batchv1.CronJob).Status.LastScheduleTime; at != nil {
					return age(*at, now)
				}
				return none
			}}, ageColumn(), containers(spec), images(spec),
			text("Selector", func(o *batchv1.CronJob) string { return metav1.FormatLabelSelector(o.Spec.JobTemplate.Spec.Selector) }).whenWide())
	case "jobs.batch":
		spec := func(o *batchv1.Job) *corev1.PodSpec { return &o.Spec.Template.Spec }
		return named(text("Status", jobStatus), text("Completions", jobCompletions),
			column{name: "Duration", cell: func(o runtime.Object, now time.Time) any { return jobDuration(o.(*batchv1.Job), now) }}, ageColumn(),
			containers(spec), images(spec),
			text("Selector", func(o *batchv1.Job) string { return metav1.FormatLabelSelector(o.Spec.Selector) }).whenWide())
	}
	return nil
}

func nameColumn() column {
	return column{name: "Name", format: "name", cell: func(o runtime.Object, _ time.Time) any { return o.(metav1.Object).GetName() }}
}

func named(others ...column) []column { return append([]column{nameColumn()}, others...) }

// text is a column of what a kind's object says.
func text[T runtime.Object](name string, cell func(T) string) column {
	return column{name: name, cell: func(o runtime.Object, _ time.Time) any { return cell(o.(T)) }}
}

func number[T runtime.Object](name string, cell func(T) int) column {
	return column{name: name, number: true, cell: func(o runtime.Object, _ time.Time) any { return int64(cell(o.(T))) }}
}

// asText is a number in a column that is said to be of texts, as some are.
func (c column) asText() column {
	c.number = false
	return c
}

func (c column) whenWide() column {
	c.wide = true
	return c
}

func containers[T runtime.Object](spec func(T) *corev1.PodSpec) column {
	return text("Containers", func(o T) string {
		return join(spec(o).Containers, func(c corev1.Container) string { return c.Name })
	}).whenWide()
}

func images[T runtime.Object](spec func(T) *corev1.PodSpec) column {
	return text("Images", func(o T) string {
		return join(spec(o).Containers, func(c corev1.Container) string { return c.Image })
	}).whenWide()
}

func join[T any](all []T, of func(T) string) string {
	var out []string
	for _, one := range all {
		out = append(out, of(one))
	}
	return strings.Join(out, ",")
}

// value is what a pointer leads to; nothing without one.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func ratio(is int32, of *int32) string { return fmt.Sprintf("%d/%d", is, value(of)) }

func selected(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "<invalid>"
	}
	return selector.String()
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// subjects are those of a kind, with the namespace where there is one.
func subjects(all []rbacv1.Subject, kind string) string {
	var out []string
	for _, s := range all {
		switch {
		case s.Kind != kind:
		case s.Namespace != "":
			out = append(out, s.Namespace+"/"+s.Name)
		default:
			out = append(out, s.Name)
		}
	}
	return strings.Join(out, ", ")
}

func suspended(o *batchv1.CronJob) string {
	switch s := o.Spec.Suspend; {
	case s == nil:
		return "<unset>"
	case *s:
		return "True"
	}
	return "False"
}

func jobStatus(o *batchv1.Job) string {
	is := func(kind batchv1.JobConditionType) bool {
		return slices.ContainsFunc(o.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
	}
	switch {
	case is(batchv1.JobComplete):
		return "Complete"
	case is(batchv1.JobFailed):
		return "Failed"
	case o.DeletionTimestamp != nil:
		return "Terminating"
	}
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuspended, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
		if is(kind) {
			return string(kind)
		}
	}
	return "Running"
}

func jobCompletions(o *batchv1.Job) string {
	if o.Spec.Completions != nil {
		return ratio(o.Status.Succeeded, o.Spec.Completions)
	}
	out := fmt.Sprintf("%d/1", o.Status.Succeeded)
	if n := value(o.Spec.Parallelism); n > 1 {
		out += fmt.Sprintf(" of %d", n)
	}
	return out
}

func jobDuration(o *batchv1.Job, now time.Time) string {
	switch begun := o.Status.StartTime; {
	case begun == nil:
		return ""
	case o.Status.CompletionTime == nil:
		return duration.HumanDuration(now.Sub(begun.Time))
	default:
		return duration.HumanDuration(o.Status.CompletionTime.Sub(begun.Time))
	}
}

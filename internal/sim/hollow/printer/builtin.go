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
		return namedColumns(textColumn("Status", func(o *corev1.Namespace) string { return string(o.Status.Phase) }), ageColumn())
	case "configmaps":
		return namedColumns(numberColumn("Data", func(o *corev1.ConfigMap) int { return len(o.Data) + len(o.BinaryData) }).asText(), ageColumn())
	case "secrets":
		return namedColumns(textColumn("Type", func(o *corev1.Secret) string { return string(o.Type) }),
			numberColumn("Data", func(o *corev1.Secret) int { return len(o.Data) }).asText(), ageColumn())
	case "serviceaccounts":
		return namedColumns(ageColumn())
	case "services":
		return serviceColumns()
	case "poddisruptionbudgets.policy":
		bound := func(v *intstr.IntOrString) string {
			if v == nil {
				return "N/A"
			}
			return v.String()
		}
		return namedColumns(textColumn("Min Available", func(o *policyv1.PodDisruptionBudget) string { return bound(o.Spec.MinAvailable) }),
			textColumn("Max Unavailable", func(o *policyv1.PodDisruptionBudget) string { return bound(o.Spec.MaxUnavailable) }),
			numberColumn("Allowed Disruptions", func(o *policyv1.PodDisruptionBudget) int { return int(o.Status.DisruptionsAllowed) }), ageColumn())
	case "priorityclasses.scheduling.k8s.io":
		return namedColumns(numberColumn("Value", func(o *schedulingv1.PriorityClass) int { return int(o.Value) }),
			column{name: "Global-Default", cell: func(o runtime.Object, _ time.Time) any { return o.(*schedulingv1.PriorityClass).GlobalDefault }}, ageColumn(),
			textColumn("PreemptionPolicy", func(o *schedulingv1.PriorityClass) string { return string(valueOrZero(o.PreemptionPolicy)) }))
	case "leases.coordination.k8s.io":
		return namedColumns(textColumn("Holder", func(o *coordinationv1.Lease) string { return valueOrZero(o.Spec.HolderIdentity) }), ageColumn())
	case "rolebindings.rbac.authorization.k8s.io":
		return namedColumns(textColumn("Role", func(o *rbacv1.RoleBinding) string { return o.RoleRef.Kind + "/" + o.RoleRef.Name }), ageColumn(),
			textColumn("Users", func(o *rbacv1.RoleBinding) string { return listSubjects(o.Subjects, rbacv1.UserKind) }).whenWide(),
			textColumn("Groups", func(o *rbacv1.RoleBinding) string { return listSubjects(o.Subjects, rbacv1.GroupKind) }).whenWide(),
			textColumn("ServiceAccounts", func(o *rbacv1.RoleBinding) string { return listSubjects(o.Subjects, rbacv1.ServiceAccountKind) }).whenWide())
	}
	return workloadColumns(table)
}

// workloadColumns are those of what makes pods.
func workloadColumns(table string) []column {
	switch table {
	case "deployments.apps":
		spec := func(o *appsv1.Deployment) *corev1.PodSpec { return &o.Spec.Template.Spec }
		return namedColumns(textColumn("Ready", func(o *appsv1.Deployment) string { return formatRatio(o.Status.ReadyReplicas, o.Spec.Replicas) }),
			numberColumn("Up-to-date", func(o *appsv1.Deployment) int { return int(o.Status.UpdatedReplicas) }).asText(),
			numberColumn("Available", func(o *appsv1.Deployment) int { return int(o.Status.AvailableReplicas) }).asText(), ageColumn(),
			containersColumn(spec), imagesColumn(spec),
			textColumn("Selector", func(o *appsv1.Deployment) string { return formatSelector(o.Spec.Selector) }).whenWide())
	case "replicasets.apps":
		spec := func(o *appsv1.ReplicaSet) *corev1.PodSpec { return &o.Spec.Template.Spec }
		return namedColumns(numberColumn("Desired", func(o *appsv1.ReplicaSet) int { return int(valueOrZero(o.Spec.Replicas)) }),
			numberColumn("Current", func(o *appsv1.ReplicaSet) int { return int(o.Status.Replicas) }),
			numberColumn("Ready", func(o *appsv1.ReplicaSet) int { return int(o.Status.ReadyReplicas) }), ageColumn(),
			containersColumn(spec), imagesColumn(spec),
			textColumn("Selector", func(o *appsv1.ReplicaSet) string { return metav1.FormatLabelSelector(o.Spec.Selector) }).whenWide())
	case "statefulsets.apps":
		spec := func(o *appsv1.StatefulSet) *corev1.PodSpec { return &o.Spec.Template.Spec }
		return namedColumns(textColumn("Ready", func(o *appsv1.StatefulSet) string { return formatRatio(o.Status.ReadyReplicas, o.Spec.Replicas) }), ageColumn(),
			containersColumn(spec), imagesColumn(spec))
	case "daemonsets.apps":
		spec := func(o *appsv1.DaemonSet) *corev1.PodSpec { return &o.Spec.Template.Spec }
		return namedColumns(numberColumn("Desired", func(o *appsv1.DaemonSet) int { return int(o.Status.DesiredNumberScheduled) }),
			numberColumn("Current", func(o *appsv1.DaemonSet) int { return int(o.Status.CurrentNumberScheduled) }),
			numberColumn("Ready", func(o *appsv1.DaemonSet) int { return int(o.Status.NumberReady) }),
			numberColumn("Up-to-date", func(o *appsv1.DaemonSet) int { return int(o.Status.UpdatedNumberScheduled) }),
			numberColumn("Available", func(o *appsv1.DaemonSet) int { return int(o.Status.NumberAvailable) }),
			textColumn("Node Selector", func(o *appsv1.DaemonSet) string { return labels.FormatLabels(o.Spec.Template.Spec.NodeSelector) }), ageColumn(),
			containersColumn(spec), imagesColumn(spec),
			textColumn("Selector", func(o *appsv1.DaemonSet) string { return metav1.FormatLabelSelector(o.Spec.Selector) }).whenWide())
	case "cronjobs.batch":
		spec := func(o *batchv1.CronJob) *corev1.PodSpec { return &o.Spec.JobTemplate.Spec.Template.Spec }
		return namedColumns(textColumn("Schedule", func(o *batchv1.CronJob) string { return o.Spec.Schedule }),
			textColumn("Timezone", func(o *batchv1.CronJob) string { return orElse(valueOrZero(o.Spec.TimeZone), none) }), textColumn("Suspend", suspendedText),
			numberColumn("Active", func(o *batchv1.CronJob) int { return len(o.Status.Active) }),
			column{name: "Last Schedule", cell: func(o runtime.Object, now time.Time) any {
				if at := o.(*batchv1.CronJob).Status.LastScheduleTime; at != nil {
					return formatAge(*at, now)
				}
				return none
			}}, ageColumn(), containersColumn(spec), imagesColumn(spec),
			textColumn("Selector", func(o *batchv1.CronJob) string { return metav1.FormatLabelSelector(o.Spec.JobTemplate.Spec.Selector) }).whenWide())
	case "jobs.batch":
		spec := func(o *batchv1.Job) *corev1.PodSpec { return &o.Spec.Template.Spec }
		return namedColumns(textColumn("Status", jobStatus), textColumn("Completions", jobCompletions),
			column{name: "Duration", cell: func(o runtime.Object, now time.Time) any { return jobDuration(o.(*batchv1.Job), now) }}, ageColumn(),
			containersColumn(spec), imagesColumn(spec),
			textColumn("Selector", func(o *batchv1.Job) string { return metav1.FormatLabelSelector(o.Spec.Selector) }).whenWide())
	}
	return nil
}

func nameColumn() column {
	return column{name: "Name", format: "name", cell: func(o runtime.Object, _ time.Time) any { return o.(metav1.Object).GetName() }}
}

func namedColumns(others ...column) []column { return append([]column{nameColumn()}, others...) }

// textColumn is a column of what a kind's object says.
func textColumn[T runtime.Object](name string, cell func(T) string) column {
	return column{name: name, cell: func(o runtime.Object, _ time.Time) any { return cell(o.(T)) }}
}

func numberColumn[T runtime.Object](name string, cell func(T) int) column {
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

func containersColumn[T runtime.Object](spec func(T) *corev1.PodSpec) column {
	return textColumn("Containers", func(o T) string {
		return joinTexts(spec(o).Containers, func(c corev1.Container) string { return c.Name })
	}).whenWide()
}

func imagesColumn[T runtime.Object](spec func(T) *corev1.PodSpec) column {
	return textColumn("Images", func(o T) string {
		return joinTexts(spec(o).Containers, func(c corev1.Container) string { return c.Image })
	}).whenWide()
}

func joinTexts[T any](all []T, of func(T) string) string {
	var out []string
	for _, one := range all {
		out = append(out, of(one))
	}
	return strings.Join(out, ",")
}

// valueOrZero is what a pointer leads to; nothing without one.
func valueOrZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func formatRatio(is int32, of *int32) string { return fmt.Sprintf("%d/%d", is, valueOrZero(of)) }

func formatSelector(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "<invalid>"
	}
	return selector.String()
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// listSubjects are those of a kind, with the namespace where there is one.
func listSubjects(all []rbacv1.Subject, kind string) string {
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

func suspendedText(o *batchv1.CronJob) string {
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
		return formatRatio(o.Status.Succeeded, o.Spec.Completions)
	}
	out := fmt.Sprintf("%d/1", o.Status.Succeeded)
	if n := valueOrZero(o.Spec.Parallelism); n > 1 {
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

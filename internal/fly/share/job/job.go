// Package job has the workers of a run be pods of an Indexed Job in a Kubernetes that
// is there. It makes the Job and a Secret, says which pods have failed, and takes both
// away.
//
// It knows nothing of what workers say to their leader: package protocol does.
package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
)

// Options say what the workers are.
type Options struct {
	Name        string // of Job and Secret
	Namespace   string
	Image       string
	Workers     int
	CPU, Memory resource.Quantity // of each, as request and as limit
	Verb        string            // the first argument with which windtunnel is a worker
	Clock       clock.Clock
}

const (
	// Label has the name of the Job on all that it is made of.
	Label      = "windtunnel.dev/workers"
	accessPath = "/run/windtunnel/access.json"
	spoolPath  = "/spool"
	ownIndex   = "$(JOB_COMPLETION_INDEX)"
	// processTaint is that of nodes whose pods are processes (package kubelet).
	processTaint = "windtunnel.dev/processes"
	keptFor      = 10 * time.Minute // what nobody has taken away
	leaderGone   = 10 * time.Minute // pods that never found a node, when nobody prolongs the Job
	prolongEvery = 2 * time.Minute
)

func (o Options) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.Name, Namespace: o.Namespace, Labels: map[string]string{Label: o.Name, "app.kubernetes.io/name": "windtunnel"}}
}

// Job is the Job of the workers. Its pods wait for the Secret, which belongs to the Job
// and so is made after it. A worker that has failed is not replaced, since that one has
// sent some of its calls, and the others go on: a bound on failed indexes would end them.
//
// Whenever its leader is killed, the host takes it away: its deadline is some minutes
// off, and the leader puts it off again and again. It is never suspended, since a
// suspended Job has no deadline.
func (o Options) Job() *batchv1.Job {
	count, zero, kept, active := int32(o.Workers), int32(0), int32(keptFor.Seconds()), int64(leaderGone.Seconds())
	mode, replace := batchv1.IndexedCompletion, batchv1.Failed
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: o.meta(),
		Spec: batchv1.JobSpec{
			CompletionMode: &mode, Completions: &count, Parallelism: &count,
			BackoffLimitPerIndex: &zero, PodReplacementPolicy: &replace, TTLSecondsAfterFinished: &kept, ActiveDeadlineSeconds: &active,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: o.meta().Labels}, Spec: o.pod()},
		},
	}
}

// pod is what a worker runs in: no token of the host's, no rights, as much of the CPU as
// it asks for, and hosts of its own where there are enough.
func (o Options) pod() corev1.PodSpec {
	no, yes, grace := false, true, int64(10)
	resources := corev1.ResourceList{corev1.ResourceCPU: o.CPU, corev1.ResourceMemory: o.Memory}
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no, EnableServiceLinks: &no, TerminationGracePeriodSeconds: &grace,
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{Label: o.Name}},
		}},
		Tolerations: []corev1.Toleration{{Key: processTaint, Operator: corev1.TolerationOpExists}},
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "worker", Image: o.Image, Args: []string{o.Verb, accessPath, ownIndex, spoolPath + "/records.wt"},
			Env: []corev1.EnvVar{
				{Name: "TMPDIR", Value: spoolPath},
			},
			Resources:    corev1.ResourceRequirements{Requests: resources, Limits: resources},
			VolumeMounts: []corev1.VolumeMount{{Name: "access", MountPath: accessPath, SubPathExpr: ownIndex, ReadOnly: true}, {Name: "spool", MountPath: spoolPath}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}},
		Volumes: []corev1.Volume{
			{Name: "access", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: o.Name}}},
			{Name: "spool", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}
}

// Secret says where the leader is: access by worker, of which a pod sees its own. It goes
// with the Job that owns it.
func (o Options) Secret(access [][]byte, owner types.UID) *corev1.Secret {
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: o.meta(), Data: map[string][]byte{}}
	for i, one := range access {
		s.Data[strconv.Itoa(i)] = one
	}
	s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: o.Name, UID: owner}}
	return s
}

// Job is one that was made.
type Job struct {
	options Options
	client  kubernetes.Interface
	uid     types.UID
	began   clock.Time
	stop    context.CancelFunc
	wait    guard.Group
}

// ErrPod says that a worker's pod cannot run, or runs no more.
var ErrPod = errors.New("its pod")

// Start makes Job and Secret, and prolongs the Job until Close. What it has made when it
// fails, it takes away.
func Start(ctx context.Context, client kubernetes.Interface, o Options, access [][]byte) (*Job, error) {
	made, err := client.BatchV1().Jobs(o.Namespace).Create(ctx, o.Job(), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make the workers' job: %w", err)
	}
	prolonging, stop := context.WithCancel(context.WithoutCancel(ctx))
	j := &Job{options: o, client: client, uid: made.UID, began: o.Clock.Now(), stop: stop}
	if _, err = client.CoreV1().Secrets(o.Namespace).Create(ctx, o.Secret(access, j.uid), metav1.CreateOptions{}); err != nil {
		return nil, errors.Join(fmt.Errorf("start the workers' job: %w", err), j.Close())
	}
	j.wait.Go(func() { j.prolong(prolonging) })
	return j, nil
}

// prolong puts the Job's deadline off until ctx ends. It fails only when the host is
// away for long, and then says so when the Job has failed.
func (j *Job) prolong(ctx context.Context) {
	for clock.Sleep(ctx, prolongEvery) == nil {
		active := j.options.Clock.Now().Sub(j.began) + leaderGone
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"activeDeadlineSeconds":%d}}`, j.uid, int64(active.Seconds()))
		_, _ = j.client.BatchV1().Jobs(j.options.Namespace).Patch(ctx, j.options.Name, types.MergePatchType, patch, metav1.PatchOptions{}) // the next one makes up for it
	}
}

// lookEvery is how often the pods are looked at. A worker that has gone is missed by
// its leader as well.
const lookEvery = time.Second

// Watch says of each worker, once, why its pod cannot be made, cannot run or runs no
// more, until ctx ends. One that has succeeded is none of these.
func (j *Job) Watch(ctx context.Context, lost func(worker int, why error)) {
	seen, said := map[int]bool{}, map[int]bool{}
	for ; ; _ = clock.Sleep(ctx, lookEvery) {
		if ctx.Err() != nil {
			return
		}
		pods, err := j.pods(ctx)
		if err != nil {
			continue // the host may be away for a while: workers do without
		}
		there := map[int]bool{}
		for i := range pods {
			index, err := strconv.Atoi(pods[i].Labels[batchv1.JobCompletionIndexAnnotation])
			if err != nil {
				continue
			}
			seen[index], there[index] = true, true
			if why := trouble(&pods[i]); why != "" && !said[index] {
				said[index] = true
				lost(index, fmt.Errorf("%w %s: %s", ErrPod, pods[i].Name, why))
			}
		}
		if missing := firstMissing(seen, j.options.Workers); missing >= 0 && !said[missing] {
			if why := j.refused(ctx); why != "" {
				said[missing] = true
				lost(missing, fmt.Errorf("%w cannot be made: %s; use fewer workers or smaller ones (--worker-cpu, --worker-memory), or another --worker-namespace", ErrPod, why))
			}
		}
		for index := range seen {
			if !there[index] && !said[index] {
				said[index] = true
				lost(index, fmt.Errorf("%w was deleted", ErrPod))
			}
		}
	}
}

// firstMissing is the first worker that has had no pod; -1: all have.
func firstMissing(seen map[int]bool, workers int) int {
	for i := range workers {
		if !seen[i] {
			return i
		}
	}
	return -1
}

// refused is why the host makes no more pods of the Job: a quota, or a rule for its
// namespace. What may pass by itself is not of them.
func (j *Job) refused(ctx context.Context) string {
	for _, e := range j.warnings(ctx) {
		if e.Reason == "FailedCreate" && strings.Contains(e.Message, "forbidden") {
			return e.Message
		}
	}
	return ""
}

// warnings are the host's about the Job, as far as they can be read.
func (j *Job) warnings(ctx context.Context) (out []corev1.Event) {
	events, err := j.client.CoreV1().Events(j.options.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + j.options.Name})
	if err != nil {
		return nil
	}
	for _, e := range events.Items {
		if e.Type == corev1.EventTypeWarning && e.InvolvedObject.Name == j.options.Name {
			out = append(out, e)
		}
	}
	return out
}

func (j *Job) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := j.client.CoreV1().Pods(j.options.Namespace).List(ctx, metav1.ListOptions{LabelSelector: Label + "=" + j.options.Name})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// trouble is why a pod cannot run, or has failed; empty: nothing is wrong with it. What
// may pass, as a node that has no room now, is not of them.
func trouble(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("exit status %d (%s) %s", t.ExitCode, t.Reason, t.Message)
		}
		if w := c.State.Waiting; w != nil {
			switch w.Reason {
			case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
				return fmt.Sprintf("the image cannot be had: %s: %s; name one that the host can pull with --worker-image", w.Reason, w.Message)
			case "CreateContainerError", "RunContainerError":
				return w.Reason + ": " + w.Message
			}
		}
	}
	switch {
	case pod.Status.Phase == corev1.PodFailed:
		return "failed: " + pod.Status.Reason + " " + pod.Status.Message
	case pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded:
		return "it is being deleted"
	}
	return ""
}

// Waiting is why workers have not begun, as far as the host says: pods without a node,
// and events of the Job, such as of a quota.
func (j *Job) Waiting(ctx context.Context) string {
	var out string
	for _, e := range j.warnings(ctx) {
		out = e.Reason + ": " + e.Message
	}
	pods, err := j.pods(ctx)
	if err != nil {
		return out
	}
	for _, p := range pods {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				out = fmt.Sprintf("pod %s: %s: %s", p.Name, c.Reason, c.Message)
			}
		}
	}
	return out
}

const (
	closeWithin = 30 * time.Second
	lookAgain   = 200 * time.Millisecond
)

// Close deletes the Job, with which Secret and pods go, and waits until the pods have.
func (j *Job) Close() error {
	j.stop()
	j.wait.Wait()
	ctx, cancel := context.WithTimeoutCause(context.Background(), closeWithin, fmt.Errorf("within %v", closeWithin))
	defer cancel()
	background := metav1.DeletePropagationBackground
	err := j.client.BatchV1().Jobs(j.options.Namespace).Delete(ctx, j.options.Name, metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &j.uid}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete the workers' job %s/%s: %w", j.options.Namespace, j.options.Name, err)
	}
	for {
		pods, err := j.pods(ctx)
		if err == nil && len(pods) == 0 {
			return nil
		}
		if clock.Sleep(ctx, lookAgain) != nil {
			return fmt.Errorf("the workers' pods of job %s/%s have not gone: %w", j.options.Namespace, j.options.Name, context.Cause(ctx))
		}
	}
}

// Manifests are Job and Secret, for people to read: without the tokens.
func (o Options) Manifests() ([]byte, error) {
	var out []byte
	for _, object := range []any{o.Job(), o.Secret(slices.Repeat([][]byte{[]byte("{}")}, o.Workers), "")} {
		raw, err := yaml.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("encode manifests: %w", err)
		}
		out = append(append(out, "---\n"...), raw...)
	}
	return out, nil
}

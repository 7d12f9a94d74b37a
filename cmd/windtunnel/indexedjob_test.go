package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/fly/share/job"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// What a Job asks for, the process kubelet and a real Job controller do together:
// pods of an index each, none while it is suspended, ends as the exit codes say, lost
// pods replaced or counted, and everything taken away in time.
func TestIndexedJobOfProcesses(t *testing.T) {
	t.Parallel()
	h := &indexedJobs{jobHost: newJobHost(t, "--allow", "/bin/sh")}
	t.Run("suspended", h.suspended)
	t.Run("FailJob", h.failsWhole)
	t.Run("FailIndex", h.failsOne)
	t.Run("lost pods", h.losesPods)
	t.Run("TTL", h.expires)
	h.nothing()
}

// indexedJobs makes Jobs of three pods, whose processes tell of themselves in a folder.
type indexedJobs struct {
	*jobHost
	t    *testing.T // of the case
	name string
	dir  string
}

// create makes a Job whose pods say that they are there, then do what the script says,
// in which the index is $i. Each waits for the release in `hold`.
func (h *indexedJobs) create(t *testing.T, name, script string, alter func(*batchv1.JobSpec)) *batchv1.Job {
	t.Helper()
	h.t, h.name, h.dir = t, name, t.TempDir()
	head := `i=$JOB_COMPLETION_INDEX; echo "$HOSTNAME" > "$WHERE/ran-$i"; hold() { while [ ! -e "$WHERE/release" ]; do sleep 0.1; done; }; `
	count, never, grace, mode, replace := int32(3), int32(0), int64(1), batchv1.IndexedCompletion, batchv1.Failed
	labels := map[string]string{job.Label: name}
	no := false
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: batchv1.JobSpec{
		CompletionMode: &mode, Completions: &count, Parallelism: &count, BackoffLimitPerIndex: &never, PodReplacementPolicy: &replace,
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &no,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "one", Image: "none", Command: []string{"/bin/sh", "-c", head + script}, Env: []corev1.EnvVar{{Name: "WHERE", Value: h.dir}},
			}},
		}},
	}}
	if alter != nil {
		alter(&j.Spec)
	}
	return repotest.Must(h.client.BatchV1().Jobs("default").Create(t.Context(), j, metav1.CreateOptions{}))(t)
}

// until waits until the Job is as it is to be, and returns it.
func (h *indexedJobs) until(what string, met func(*batchv1.Job) bool) (j *batchv1.Job) {
	h.t.Helper()
	repotest.Eventually(h.t, what, func() (ok bool) {
		var err error
		j, err = h.client.BatchV1().Jobs("default").Get(h.t.Context(), h.name, metav1.GetOptions{})
		return err == nil && met(j)
	})
	return j
}

// has tells whether a Job has a condition, for a reason.
func has(condition batchv1.JobConditionType, reason string) func(*batchv1.Job) bool {
	return func(j *batchv1.Job) bool {
		return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == condition && c.Status == corev1.ConditionTrue && (reason == "" || c.Reason == reason)
		})
	}
}

func (h *indexedJobs) pods() []corev1.Pod {
	h.t.Helper()
	list := repotest.Must(h.client.CoreV1().Pods("default").List(h.t.Context(), metav1.ListOptions{LabelSelector: job.Label + "=" + h.name}))(h.t)
	return list.Items
}

// pod returns the newest pod of an index.
func (h *indexedJobs) pod(index int) (out corev1.Pod) {
	h.t.Helper()
	for _, p := range h.pods() {
		if p.Labels[batchv1.JobCompletionIndexAnnotation] == strconv.Itoa(index) && (out.Name == "" || out.CreationTimestamp.Before(&p.CreationTimestamp)) {
			out = p
		}
	}
	return out
}

// ran waits until the processes of some indexes were there, once more after forget.
func (h *indexedJobs) ran(indexes ...int) {
	h.t.Helper()
	for _, i := range indexes {
		repotest.Eventually(h.t, fmt.Sprintf("index %d runs", i), func() bool {
			host, err := os.ReadFile(h.file("ran-", i))
			return err == nil && string(host) == fmt.Sprintf("%s-%d\n", h.name, i)
		})
	}
}

func (h *indexedJobs) forget(index int) {
	h.t.Helper()
	repotest.NoError(h.t, os.Remove(h.file("ran-", index)))
}

func (h *indexedJobs) file(name string, index int) string {
	return filepath.Join(h.dir, name+strconv.Itoa(index))
}

// release ends the waiting of all pods.
func (h *indexedJobs) release() {
	h.t.Helper()
	repotest.NoError(h.t, os.WriteFile(filepath.Join(h.dir, "release"), nil, 0o600))
}

// processes are those of this Job's pods: all that has their environment.
func (h *indexedJobs) processes(more string) (out []int) {
	all := repotest.Must(filepath.Glob("/proc/[0-9]*/environ"))(h.t)
	for _, path := range all {
		raw, err := os.ReadFile(path) // it may have ended
		if err == nil && bytes.Contains(raw, []byte("WHERE="+h.dir+"\x00")) && bytes.Contains(raw, []byte(more)) {
			pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
			out = append(out, pid)
		}
	}
	return out
}

func (h *indexedJobs) noProcesses() {
	h.t.Helper()
	repotest.Eventually(h.t, "the processes have ended", func() bool { return len(h.processes("")) == 0 })
}

// suspend has the Job's pods go, or come.
func (h *indexedJobs) suspend(yes bool) {
	h.t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, yes)
	if _, err := h.client.BatchV1().Jobs("default").Patch(h.t.Context(), h.name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// remove deletes the Job, and with it what it owns.
func (h *indexedJobs) remove() {
	h.t.Helper()
	background := metav1.DeletePropagationBackground
	repotest.NoError(h.t, h.client.BatchV1().Jobs("default").Delete(h.t.Context(), h.name, metav1.DeleteOptions{PropagationPolicy: &background}))
	repotest.Eventually(h.t, "its pods are gone", func() bool { return len(h.pods()) == 0 })
	h.noProcesses()
}

// suspended: a Job that is suspended has no pods; one that is suspended later loses
// them and begins again.
func (h *indexedJobs) suspended(t *testing.T) {
	yes := true
	h.create(t, "held", "hold", func(s *batchv1.JobSpec) { s.Suspend = &yes })
	h.until("it is suspended", has(batchv1.JobSuspended, ""))
	if pods := h.pods(); len(pods) > 0 {
		t.Errorf("it is suspended and has %d pods", len(pods))
	}
	h.suspend(false)
	h.ran(0, 1, 2)
	h.suspend(true)
	j := h.until("it is suspended again", func(j *batchv1.Job) bool { return has(batchv1.JobSuspended, "")(j) && j.Status.Active == 0 })
	h.noProcesses()
	if j.Status.StartTime != nil || j.Status.Failed > 0 {
		t.Errorf("suspended, it is active since %v, and %d pods have failed", j.Status.StartTime, j.Status.Failed)
	}
	for i := range 3 {
		h.forget(i)
	}
	h.suspend(false)
	h.ran(0, 1, 2)
	h.release()
	if j := h.until("it is complete", has(batchv1.JobComplete, "")); j.Status.CompletedIndexes != "0-2" || j.Status.Succeeded != 3 {
		t.Errorf("completed %q, %d pods", j.Status.CompletedIndexes, j.Status.Succeeded)
	}
	h.remove()
}

// exits is a rule for pods that end with a code.
func exits(code int32, action batchv1.PodFailurePolicyAction) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
		Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{code},
	}}
}

// failsWhole: an exit code ends the Job, and with it the pods that did well.
func (h *indexedJobs) failsWhole(t *testing.T) {
	h.create(t, "whole", `[ $i = 1 ] && { while [ ! -e "$WHERE/ran-0" -o ! -e "$WHERE/ran-2" ]; do sleep 0.1; done; exit 3; }; hold`, func(s *batchv1.JobSpec) {
		s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{exits(3, batchv1.PodFailurePolicyActionFailJob)}}
	})
	j := h.until("it has failed", has(batchv1.JobFailed, batchv1.JobReasonPodFailurePolicy))
	if j.Status.Succeeded > 0 || j.Status.Active > 0 {
		t.Errorf("%d pods have succeeded, %d are active", j.Status.Succeeded, j.Status.Active)
	}
	h.noProcesses()
	h.remove()
}

// failsOne: an exit code ends an index, which has no second pod though it might have
// more; the others go on, and the Job fails when they are done.
func (h *indexedJobs) failsOne(t *testing.T) {
	h.create(t, "one", `[ $i = 1 ] && exit 4; hold`, func(s *batchv1.JobSpec) {
		*s.BackoffLimitPerIndex = 2
		s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{exits(4, batchv1.PodFailurePolicyActionFailIndex)}}
	})
	h.ran(0, 1, 2)
	j := h.until("index 1 has failed", func(j *batchv1.Job) bool { return j.Status.FailedIndexes != nil && *j.Status.FailedIndexes == "1" })
	if j.Status.Active != 2 || has(batchv1.JobFailed, "")(j) {
		t.Errorf("of the others %d are active: %+v", j.Status.Active, j.Status.Conditions)
	}
	h.release()
	j = h.until("it has failed", has(batchv1.JobFailed, batchv1.JobReasonFailedIndexes))
	if *j.Status.FailedIndexes != "1" || j.Status.CompletedIndexes != "0,2" || j.Status.Failed != 1 {
		t.Errorf("failed %q, completed %q, pods failed %d", *j.Status.FailedIndexes, j.Status.CompletedIndexes, j.Status.Failed)
	}
	if code := h.pod(1).Status.ContainerStatuses[0].State.Terminated.ExitCode; code != 4 {
		t.Errorf("exit code %d", code)
	}
	h.remove()
}

// losesPods: a process that is killed and a pod that is deleted are failed indexes; one
// that is evicted is replaced, where the Job says so, and not counted.
func (h *indexedJobs) losesPods(t *testing.T) {
	h.create(t, "lost", "hold", func(s *batchv1.JobSpec) {
		s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action:          batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		}}}
	})
	h.ran(0, 1, 2)
	for _, pid := range h.processes("JOB_COMPLETION_INDEX=0\x00") {
		_ = syscall.Kill(pid, syscall.SIGKILL) // its child may be gone with it
	}
	evicted := h.pod(1)
	h.forget(1)
	repotest.NoError(t, h.client.PolicyV1().Evictions("default").Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: evicted.Name, Namespace: "default"}}))
	now := int64(0)
	repotest.NoError(t, h.client.CoreV1().Pods("default").Delete(t.Context(), h.pod(2).Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	h.until("indexes 0 and 2 have failed", func(j *batchv1.Job) bool { return j.Status.FailedIndexes != nil && *j.Status.FailedIndexes == "0,2" })
	h.ran(1)
	if again := h.pod(1); again.UID == evicted.UID {
		t.Errorf("the evicted pod %s was not replaced", evicted.Name)
	}
	if s := h.pod(0).Status; len(s.ContainerStatuses) != 1 || s.ContainerStatuses[0].State.Terminated == nil || s.ContainerStatuses[0].State.Terminated.ExitCode != 128+int32(syscall.SIGKILL) {
		t.Errorf("the killed pod: %+v", s)
	}
	h.release()
	j := h.until("it has failed", has(batchv1.JobFailed, batchv1.JobReasonFailedIndexes))
	if *j.Status.FailedIndexes != "0,2" || j.Status.CompletedIndexes != "1" {
		t.Errorf("failed %q, completed %q", *j.Status.FailedIndexes, j.Status.CompletedIndexes)
	}
	h.remove()
}

// expires: a Job that is done goes by itself after its time, with pods and what it owns.
func (h *indexedJobs) expires(t *testing.T) {
	second := int32(1)
	j := h.create(t, "expires", "hold", func(s *batchv1.JobSpec) { s.TTLSecondsAfterFinished = &second })
	secret := job.Options{Name: j.Name, Namespace: "default"}.Secret(nil, j.UID)
	if _, err := h.client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.ran(0, 1, 2)
	for _, p := range h.pods() {
		if len(p.OwnerReferences) != 1 || p.OwnerReferences[0].UID != j.UID {
			t.Errorf("pod %s belongs to %+v", p.Name, p.OwnerReferences)
		}
	}
	h.release()
	repotest.Eventually(t, "job, secret and pods are gone", func() bool {
		_, ofJob := h.client.BatchV1().Jobs("default").Get(t.Context(), j.Name, metav1.GetOptions{})
		_, ofSecret := h.client.CoreV1().Secrets("default").Get(t.Context(), secret.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(ofJob) && apierrors.IsNotFound(ofSecret) && len(h.pods()) == 0
	})
	h.noProcesses()
}

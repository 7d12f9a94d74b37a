package job

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

var some = Options{
	Name: "windtunnel-x", Namespace: "ns", Image: "i", Workers: 3, CPU: resource.MustParse("500m"), Memory: resource.MustParse("1Gi"), Verb: "worker",
}

// What the leader judges by is not left to chance: no worker is replaced, no other
// ended for one that failed, and nothing of it outlives the Job.
func TestJobIsOneForAll(t *testing.T) {
	j := some.Job().Spec
	if *j.Completions != 3 || *j.Parallelism != 3 || *j.BackoffLimitPerIndex != 0 || j.MaxFailedIndexes != nil || j.SuccessPolicy != nil || j.Suspend != nil || *j.ActiveDeadlineSeconds != 600 || j.TTLSecondsAfterFinished == nil {
		t.Errorf("%+v", j)
	}
	c := j.Template.Spec.Containers[0]
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if c.Resources.Requests[name] != c.Resources.Limits[name] {
			t.Errorf("%s: request and limit differ: %+v", name, c.Resources)
		}
	}
	s := some.Secret([][]byte{[]byte("first"), []byte("second")}, "uid")
	if len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != "uid" || s.OwnerReferences[0].Name != some.Name {
		t.Errorf("the secret belongs to %+v", s.OwnerReferences)
	}
	// A pod sees of it what its own index is called, and no other's.
	if m := c.VolumeMounts[0]; m.SubPathExpr != "$(JOB_COMPLETION_INDEX)" || m.MountPath != c.Args[1] || string(s.Data["1"]) != "second" || len(s.Data) != 2 {
		t.Errorf("mount %+v of %q", m, s.Data)
	}
}

// The host takes the Job away when its leader was killed, whenever that was: its deadline
// is always some minutes off, and only the leader puts it off.
func TestOnlyItsLeaderProlongsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := some
		o.Clock = clock.Start()
		client := fake.NewClientset()
		j := repotest.Must(Start(t.Context(), client, o, nil))(t)
		deadline := func() time.Duration {
			got := repotest.Must(client.BatchV1().Jobs(o.Namespace).Get(t.Context(), o.Name, metav1.GetOptions{}))(t)
			return time.Duration(*got.Spec.ActiveDeadlineSeconds) * time.Second
		}
		if got := deadline(); got != 10*time.Minute {
			t.Errorf("at first %v", got)
		}
		time.Sleep(time.Hour + time.Second)
		if got := deadline(); got != 70*time.Minute {
			t.Errorf("after an hour %v", got)
		}
		j.stop()
		time.Sleep(time.Hour)
		if got := deadline(); got != 70*time.Minute {
			t.Errorf("an hour after its leader was gone %v", got)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestManifestsAreObjects(t *testing.T) {
	raw := repotest.Must(some.Manifests())(t)
	var kinds []string
	for text := range strings.SplitSeq(string(raw), "---\n") {
		var o struct{ Kind string }
		repotest.NoError(t, yaml.Unmarshal([]byte(text), &o))
		kinds = append(kinds, o.Kind)
	}
	if strings.Join(kinds, " ") != " Job Secret" {
		t.Errorf("kinds %q", kinds)
	}
}

func TestTrouble(t *testing.T) {
	for text, want := range map[string]string{ // empty: nothing is wrong
		`{phase: Pending}`:                 "",
		`{phase: Running}`:                 "",
		`{phase: Succeeded}`:               "",
		`{phase: Failed, reason: Evicted}`: "Evicted",
		`{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}`:       "",
		`{phase: Pending, containerStatuses: [{state: {waiting: {reason: ImagePullBackOff}}}]}`:              "--worker-image",
		`{phase: Pending, containerStatuses: [{state: {waiting: {reason: ContainerCreating}}}]}`:             "",
		`{phase: Failed, containerStatuses: [{state: {terminated: {exitCode: 3, message: another build}}}]}`: "another build",
		`{phase: Succeeded, containerStatuses: [{state: {terminated: {exitCode: 0}}}]}`:                      "",
	} {
		var pod corev1.Pod
		repotest.NoError(t, yaml.UnmarshalStrict([]byte(text), &pod.Status))
		if got := trouble(&pod); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// A quota lets some pods be made and others not: the run is told at once, with what the
// host says, and not after everybody's patience is over. What passes is waited for.
func TestWatchTellsOfRefusedPods(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: some.meta()}
	pod.Name, pod.Labels = "p0", map[string]string{Label: some.Name, batchv1.JobCompletionIndexAnnotation: "0"}
	event := func(name, reason, about, message string) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: some.Namespace}, Type: corev1.EventTypeWarning, Reason: reason, Message: message,
			InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: about}}
	}
	client := fake.NewClientset(pod, event("a", "FailedCreate", some.Name, "the server timed out"), event("b", "FailedCreate", "another", "forbidden: not this one"))
	j := &Job{options: some, client: client}
	if why := j.refused(t.Context()); why != "" {
		t.Errorf("nothing was refused for good: %s", why)
	}
	if _, err := client.CoreV1().Events(some.Namespace).Create(t.Context(), event("c", "FailedCreate", some.Name, `pods "x" is forbidden: exceeded quota: few`), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var told []string
	j.Watch(ctx, func(worker int, why error) {
		told = append(told, fmt.Sprint(worker, " ", why))
		cancel()
	})
	if len(told) != 1 || !strings.HasPrefix(told[0], "1 its pod cannot be made: ") || !strings.Contains(told[0], "exceeded quota: few; use fewer workers") {
		t.Errorf("told %q", told)
	}
	if out := j.Waiting(t.Context()); !strings.Contains(out, "exceeded quota") {
		t.Errorf("waiting for %q", out)
	}
}

package job

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

var some = Options{
	Name: "windtunnel-x", Namespace: "ns", Image: "i", Workers: 3, CPU: resource.MustParse("500m"), Memory: resource.MustParse("1Gi"), Verb: "worker",
}

// What the leader judges by is not left to chance: no worker is replaced, no other
// ended for one that failed, and nothing of it outlives the Job.
func TestJobIsOneForAll(t *testing.T) {
	j := some.Job().Spec
	if *j.Completions != 3 || *j.Parallelism != 3 || *j.BackoffLimitPerIndex != 0 || j.MaxFailedIndexes != nil || j.SuccessPolicy != nil || !*j.Suspend || j.TTLSecondsAfterFinished == nil {
		t.Errorf("%+v", j)
	}
	c := j.Template.Spec.Containers[0]
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if c.Resources.Requests[name] != c.Resources.Limits[name] {
			t.Errorf("%s: request and limit differ: %+v", name, c.Resources)
		}
	}
	s := some.Secret([]byte("token"), "uid")
	if len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != "uid" || s.OwnerReferences[0].Name != some.Name {
		t.Errorf("the secret belongs to %+v", s.OwnerReferences)
	}
}

func TestManifestsAreObjects(t *testing.T) {
	raw, err := some.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for text := range strings.SplitSeq(string(raw), "---\n") {
		var o struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
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
		if err := yaml.UnmarshalStrict([]byte(text), &pod.Status); err != nil {
			t.Fatal(err)
		}
		if got := trouble(&pod); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

package object

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// tree returns an object's JSON as a tree.
func tree(t testing.TB, o any) map[string]any {
	t.Helper()
	raw := repotest.Must(json.Marshal(o))(t)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out map[string]any
	repotest.NoError(t, d.Decode(&out))
	return out
}

// richPod is a pod with a field of each form.
func richPod() *corev1.Pod {
	p := pod()
	p.ManagedFields = nil
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1700000001, 0)}, new(int64(0))
	p.Finalizers = []string{"a", "b"}
	p.Spec.Priority, p.Spec.AutomountServiceAccountToken = new(int32(-5)), new(false)
	p.Spec.NodeSelector = map[string]string{"b": "1", "a": "2"}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("1Gi")}
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "E", Value: "v"}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", RestartCount: 3, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return p
}

// TestMessageIsJSON: of its message an object is what it is of its JSON, as a whole
// and on every way down.
func TestMessageIsJSON(t *testing.T) {
	for _, p := range []*corev1.Pod{richPod(), {TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}} {
		want := tree(t, p)
		var view Pod
		repotest.NoError(t, DecodePod(marshal(t, p), &view))
		o := view.Open(NewSchema[corev1.Pod]("v1", "Pod"))
		if got, ok := o.Tree(); !ok || !reflect.DeepEqual(got, any(want)) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		for _, names := range [][]string{
			{"metadata", "name"}, {"metadata", "labels", "app"}, {"metadata", "labels", "none"}, {"metadata", "deletionTimestamp"},
			{"metadata", "creationTimestamp"}, {"spec", "containers"}, {"spec", "priority"}, {"spec", "hostNetwork"}, {"spec", "automountServiceAccountToken"},
			{"spec", "affinity", "nodeAffinity"}, {"spec", "nothing", "below"}, {"status", "phase"}, {"kind"}, {"status"}, {"status", "phase", "below"},
		} {
			path := NewPath(names...)
			for range 2 { // the second time from memory
				a, walked := path.In(o)
				b, expected := path.In(Of(want))
				left, _ := a.Tree()
				right, _ := b.Tree()
				if walked != expected || a.Kind != b.Kind || a.Empty() != b.Empty() || a.String() != b.String() || !reflect.DeepEqual(left, right) {
					t.Errorf("%v: %v %v of the message, %v %v of the JSON", names, a.Kind, left, b.Kind, right)
				}
			}
		}
	}
}

// TestUnread: what a schema cannot read is said, not guessed.
func TestUnread(t *testing.T) {
	p := richPod()
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	s := NewSchema[corev1.Pod]("v1", "Pod")
	var d Document
	o := d.Reset(s, marshal(t, p))
	if _, ok := o.Tree(); ok {
		t.Error("a volume's source is read")
	}
	o.Get("spec").Get("volumes").Items(func(v Value) bool {
		if v.Get("emptyDir").Kind != Unknown || !v.Get("name").Is("v") {
			t.Errorf("%+v", v)
		}
		return true
	})
	for path, want := range map[string]bool{"spec.volumes.name": true, "spec.volumes.emptyDir": false, "metadata.labels.a": true, "metadata.managedFields.fieldsV1": false, "none": true} {
		var names []string
		for _, name := range bytes.Split([]byte(path), []byte(".")) {
			names = append(names, string(name))
		}
		if s.Reads(names) != want {
			t.Errorf("%s: read %v", path, !want)
		}
	}
	if o := d.Reset(s, []byte{0xff}); o.Get("spec").Kind != Unknown {
		t.Error("a malformed message is read")
	}
}

func TestProject(t *testing.T) {
	s := NewSchema[corev1.Pod]("v1", "Pod")
	part := s.Project(nil, marshal(t, richPod()), [][]string{{"metadata", "uid"}, {"spec", "containers", "name"}, {"status"}})
	var got corev1.Pod
	repotest.NoError(t, got.Unmarshal(part))
	if got.UID != richPod().UID || got.Name != "" || len(got.Spec.Containers) != 2 || got.Spec.NodeName != "" || !reflect.DeepEqual(got.Status, richPod().Status) {
		t.Errorf("%+v", got)
	}
}

func TestAppendQuoted(t *testing.T) {
	for _, s := range []string{"", "a", `"\`, "<&>", "a\nb\tc\r", "ü日本🙂", "\u2028", "\x00", "\x7f", "\xff", "\u0085", "\ufeff", "a\u00a0b"} {
		got, ok := Text(s).AppendQuoted(nil, true)
		if want, _ := json.Marshal(s); ok && string(got) != string(want) {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
		odd := s == "\u2028" || s == "\x00" || s == "\x7f" || s == "\xff" || s == "\u0085" || s == "\ufeff"
		if ok == odd {
			t.Errorf("%q: ok %v", s, ok)
		}
	}
}

func FuzzAppendQuoted(f *testing.F) {
	f.Add("a\n\u2028\xff")
	f.Fuzz(func(t *testing.T, s string) {
		if got, ok := Text(s).AppendQuoted(nil, true); ok {
			if want, _ := json.Marshal(s); string(got) != string(want) {
				t.Errorf("%q: %s, want %s", s, got, want)
			}
		}
	})
}

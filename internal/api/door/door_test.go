package door_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/api/door"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// clients are one of somebody and one that goes through the door of the run r1.
func clients(t *testing.T, contentType string) (theirs, ours *kubernetes.Clientset) {
	s := apitest.New(t)
	config := s.Endpoint().Config("kubectl")
	config.ContentType = contentType
	guarded := door.Guard(s.Endpoint().Config("windtunnel-test"), object.Stamp{Run: "r1", Fleet: "f1"})
	guarded.ContentType = contentType
	theirs, err := kubernetes.NewForConfig(config)
	if err == nil {
		ours, err = kubernetes.NewForConfig(guarded)
	}
	repotest.NoError(t, err)
	return theirs, ours
}

func both(t *testing.T, test func(ctx context.Context, t *testing.T, theirs, ours *kubernetes.Clientset)) {
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(contentType, func(t *testing.T) {
			theirs, ours := clients(t, contentType)
			test(t.Context(), t, theirs, ours)
		})
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestWhatIsMadeIsMarked makes objects of kinds that planes make.
func TestWhatIsMadeIsMarked(t *testing.T) {
	both(t, func(ctx context.Context, t *testing.T, _, ours *kubernetes.Clientset) {
		var create metav1.CreateOptions
		n := must[*corev1.Node](t)(ours.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-0", Labels: map[string]string{"a": "b"}}}, create))
		if want := (corev1.Taint{Key: object.RunLabel, Value: "r1", Effect: corev1.TaintEffectNoSchedule}); len(n.Spec.Taints) != 1 || n.Spec.Taints[0] != want || n.Labels["a"] != "b" {
			t.Errorf("a node has the taints %v and labels %v", n.Spec.Taints, n.Labels)
		}
		own := corev1.Taint{Key: "kosmos.io/node", Value: "true", Effect: corev1.TaintEffectNoSchedule}
		v := must[*corev1.Node](t)(ours.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "leaf"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{own}}}, create))
		if len(v.Spec.Taints) != 1 || v.Spec.Taints[0] != own {
			t.Errorf("a node with a taint of its own has %v", v.Spec.Taints)
		}
		l := must[*coordinationv1.Lease](t)(ours.CoordinationV1().Leases("kube-node-lease").Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}, create))
		s := must[*corev1.Secret](t)(ours.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "casecret"}, Data: map[string][]byte{"a": []byte("b")}}, create))
		for _, o := range []metav1.Object{n, v, l, s} {
			if o.GetLabels()[object.RunLabel] != "r1" {
				t.Errorf("%s has the labels %v", o.GetName(), o.GetLabels())
			}
		}
		if string(s.Data["a"]) != "b" {
			t.Errorf("the secret has %v", s.Data)
		}
		// Written whole again without the label, as those do who keep an object's version alone.
		l = must[*coordinationv1.Lease](t)(ours.CoordinationV1().Leases("kube-node-lease").Update(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "edge-0", ResourceVersion: l.ResourceVersion}}, metav1.UpdateOptions{}))
		if l.Labels[object.RunLabel] != "r1" {
			t.Errorf("a renewed lease has the labels %v", l.Labels)
		}
	})
}

// TestWhatOthersMadeStays tries to create, change and delete what others have made, and
// what lies in a namespace of the run's.
func TestWhatOthersMadeStays(t *testing.T) {
	both(t, func(ctx context.Context, t *testing.T, theirs, ours *kubernetes.Clientset) {
		var create metav1.CreateOptions
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tokensecret"}, Data: map[string][]byte{"token": []byte("theirs")}}
		must[*corev1.Secret](t)(theirs.CoreV1().Secrets("default").Create(ctx, secret, create))
		must[*corev1.Node](t)(theirs.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}, create))
		must[*corev1.Namespace](t)(ours.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, create))
		must[*corev1.Secret](t)(theirs.CoreV1().Secrets("mine").Create(ctx, secret, create)) // by a controller, say
		before := []metav1.Object{must[*corev1.Secret](t)(theirs.CoreV1().Secrets("default").Get(ctx, "tokensecret", metav1.GetOptions{})), must[*corev1.Node](t)(theirs.CoreV1().Nodes().Get(ctx, "edge-0", metav1.GetOptions{}))}
		ourSecret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tokensecret"}, Data: map[string][]byte{"token": []byte("ours")}}
		patch := []byte(`{"metadata":{"annotations":{"cloudcore":"1.2.3.4"}}}`)
		for name, call := range map[string]func() error{
			"create secret": func() error { _, err := ours.CoreV1().Secrets("default").Create(ctx, ourSecret, create); return err },
			"update secret": func() error {
				_, err := ours.CoreV1().Secrets("default").Update(ctx, ourSecret, metav1.UpdateOptions{})
				return err
			},
			"delete secret": func() error {
				return ours.CoreV1().Secrets("default").Delete(ctx, "tokensecret", metav1.DeleteOptions{})
			},
			"create node": func() error {
				_, err := ours.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}, create)
				return err
			},
			"patch node": func() error {
				_, err := ours.CoreV1().Nodes().Patch(ctx, "edge-0", types.MergePatchType, patch, metav1.PatchOptions{})
				return err
			},
			"patch status": func() error {
				_, err := ours.CoreV1().Nodes().Patch(ctx, "edge-0", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
				return err
			},
		} {
			err := call()
			if apierrors.ReasonForError(err) != door.ReasonForeign || !strings.Contains(err.Error(), "exists already and was not made by this run: it is left alone") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := ours.CoreV1().Secrets("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
		after := []metav1.Object{must[*corev1.Secret](t)(theirs.CoreV1().Secrets("default").Get(ctx, "tokensecret", metav1.GetOptions{})), must[*corev1.Node](t)(theirs.CoreV1().Nodes().Get(ctx, "edge-0", metav1.GetOptions{}))}
		for i := range before {
			if before[i].GetResourceVersion() != after[i].GetResourceVersion() || before[i].GetUID() != after[i].GetUID() {
				t.Errorf("%s has changed", before[i].GetName())
			}
		}
		if _, err := ours.CoreV1().Secrets("mine").Update(ctx, ourSecret, metav1.UpdateOptions{}); err != nil {
			t.Errorf("in a namespace of the run's: %v", err)
		}
		if _, err := ours.CoreV1().Secrets("mine").Create(ctx, ourSecret, create); !apierrors.IsAlreadyExists(err) {
			t.Errorf("in a namespace of the run's: %v", err)
		}
		if err := ours.CoreV1().Secrets("default").Delete(ctx, "none", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("what is not there: %v", err)
		}
	})
}

// TestWhatAnotherRunMadeNamesClean meets a node of a run that was killed.
func TestWhatAnotherRunMadeNamesClean(t *testing.T) {
	both(t, func(ctx context.Context, t *testing.T, theirs, ours *kubernetes.Clientset) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-0", Labels: map[string]string{object.RunLabel: "r0"}}}
		must[*corev1.Node](t)(theirs.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}))
		_, err := ours.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "made by run r0; if that run was killed, windtunnel clean --kubeconfig FILE --run r0 deletes what it left") {
			t.Error(err)
		}
	})
}

// TestPodsGoToTheNodesOfTheRun makes a pod, which has wishes of its own, and a Deployment,
// and writes the Deployment again: its pods can go to the run's nodes, and nowhere else.
func TestPodsGoToTheNodesOfTheRun(t *testing.T) {
	both(t, func(ctx context.Context, t *testing.T, _, ours *kubernetes.Clientset) {
		own := corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}
		want := []corev1.Toleration{
			{Key: object.RunLabel, Operator: corev1.TolerationOpEqual, Value: "r1", Effect: corev1.TaintEffectNoSchedule},
			{Key: object.FleetLabel, Operator: corev1.TolerationOpEqual, Value: "f1", Effect: corev1.TaintEffectNoSchedule},
		}
		check := func(what string, m metav1.ObjectMeta, s corev1.PodSpec, selects map[string]string, tolerates []corev1.Toleration) {
			t.Helper()
			if m.Labels[object.RunLabel] != "r1" || !maps.Equal(s.NodeSelector, selects) || !slices.Equal(s.Tolerations, tolerates) {
				t.Errorf("%s has the labels %v, the node selector %v and the tolerations %v", what, m.Labels, s.NodeSelector, s.Tolerations)
			}
		}
		spec := corev1.PodSpec{
			NodeSelector: map[string]string{"zone": "a"}, Tolerations: []corev1.Toleration{own},
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"memory": resource.MustParse("90Mi")}}}},
		}
		p := must[*corev1.Pod](t)(ours.CoreV1().Pods("n").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: spec}, metav1.CreateOptions{}))
		check("a pod", p.ObjectMeta, p.Spec, map[string]string{"zone": "a", object.RunLabel: "r1"}, append([]corev1.Toleration{own}, want...))
		if got := p.Spec.Containers[0].Resources.Requests["memory"]; got.String() != "90Mi" {
			t.Errorf("it asks for %v", got)
		}
		spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}
		made := must[*appsv1.Deployment](t)(ours.AppsV1().Deployments("n").Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: spec}}}, metav1.CreateOptions{}))
		written := must[*appsv1.Deployment](t)(ours.AppsV1().Deployments("n").Update(ctx, made, metav1.UpdateOptions{}))
		for what, d := range map[string]*appsv1.Deployment{"a template": made, "a template that is written again": written} {
			check(what, d.Spec.Template.ObjectMeta, d.Spec.Template.Spec, map[string]string{object.RunLabel: "r1"}, want)
		}
	})
}

// TestTemplatesForMembersStay makes an object of another kind that contains a pod: that is
// for a cluster elsewhere, and stays as it is.
func TestTemplatesForMembersStay(t *testing.T) {
	s := apitest.New(t, apitest.Resource{Version: "work.io/v1", Plural: "works", Kind: "Work", Namespaced: true})
	c := repotest.Must(dynamic.NewForConfig(door.Guard(s.Endpoint().Config("windtunnel-test"), object.Stamp{Run: "r1", Fleet: "f1"})))(t)
	pod := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c"}}}}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "work.io/v1", "kind": "Work", "metadata": map[string]any{"name": "w"}, "manifest": pod}}
	got := must[*unstructured.Unstructured](t)(c.Resource(schema.GroupVersionResource{Group: "work.io", Version: "v1", Resource: "works"}).Namespace("n").Create(t.Context(), o, metav1.CreateOptions{}))
	if spec, _, _ := unstructured.NestedMap(got.Object, "manifest", "spec"); got.GetLabels()[object.RunLabel] != "r1" || len(spec) != 1 {
		t.Errorf("there is %v", got.Object)
	}
}

// TestWithoutARunNothingChanges goes through no door.
func TestWithoutARunNothingChanges(t *testing.T) {
	if door.Guard(&rest.Config{}, object.Stamp{Fleet: "f1"}).WrapTransport != nil {
		t.Error("there is a door")
	}
}

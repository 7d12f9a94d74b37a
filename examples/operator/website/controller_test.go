package website_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/windtunnel/windtunnel/examples/operator/api/v1"
	"github.com/windtunnel/windtunnel/examples/operator/website"
)

func TestAWebsiteIsReadyWhenItsReplicasAre(t *testing.T) {
	scheme := clientscheme.Scheme
	if err := v1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	name := types.NamespacedName{Namespace: "sites", Name: "home"}
	site := &v1.Website{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Generation: 1}, Spec: v1.Spec{Page: "<p>", Replicas: 2}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(site).WithStatusSubresource(site, &appsv1.Deployment{}).Build()
	r := &website.Reconciler{Client: c}
	look := func() *metav1.Condition {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: name}); err != nil {
			t.Fatal(err)
		}
		var got v1.Website
		if err := c.Get(t.Context(), name, &got); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(got.Status.Conditions, v1.ConditionReady)
	}
	if got := look(); got == nil || got.Status != metav1.ConditionFalse || got.Message != "0 of 2 replicas are available" {
		t.Errorf("at first: %+v", got)
	}
	var page corev1.ConfigMap
	if err := c.Get(t.Context(), name, &page); err != nil || page.Data["index.html"] != "<p>" || len(page.OwnerReferences) != 1 {
		t.Errorf("%v, %+v", err, page)
	}
	var d appsv1.Deployment
	if err := c.Get(t.Context(), name, &d); err != nil || *d.Spec.Replicas != 2 {
		t.Fatalf("%v, %+v", err, d.Spec)
	}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}
	if err := c.Status().Update(t.Context(), &d); err != nil {
		t.Fatal(err)
	}
	if got := look(); got.Status != metav1.ConditionTrue {
		t.Errorf("with all replicas: %+v", got)
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "sites", Name: "none"}}); err != nil {
		t.Errorf("a website that is gone: %v", err)
	}
}

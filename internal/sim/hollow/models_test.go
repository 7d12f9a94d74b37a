package hollow_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

func TestModels(t *testing.T) {
	c := one(t, hollow.Options{Models: hollow.Models{Heartbeats: 100 * time.Millisecond, Stages: []string{"fast", "deployments"}, StagesDir: "."}})
	client := kubernetes.NewForConfigOrDie(c.Endpoint().Config("test"))
	ctx := t.Context()
	if _, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	leases := client.CoordinationV1().Leases("kube-node-lease")
	var first time.Time
	repotest.Eventually(t, "the node's lease is there, and is renewed", func() bool {
		l, err := leases.Get(ctx, "n", metav1.GetOptions{})
		if err != nil {
			return false
		}
		if first.IsZero() {
			first = l.Spec.RenewTime.Time
		}
		return l.Spec.RenewTime.After(first)
	})
	repotest.Eventually(t, "the node is ready", func() bool {
		n, err := client.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
		return err == nil && n.Status.Phase == corev1.NodeRunning && len(n.Status.Addresses) > 0
	})
	three := int32(3)
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: &three}}
	deployments := client.AppsV1().Deployments("default")
	if _, err := deployments.Create(ctx, web, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	available := func(want int32) func() bool {
		return func() bool {
			d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
			return err == nil && d.Status.AvailableReplicas == want && d.Status.ObservedGeneration == d.Generation
		}
	}
	repotest.Eventually(t, "the deployment is available", available(3))
	scale := repotest.Must(deployments.GetScale(ctx, "web", metav1.GetOptions{}))(t)
	scale.Spec.Replicas = 5
	if _, err := deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	repotest.Eventually(t, "the deployment is available when it was scaled", available(5))
	repotest.NoError(t, client.CoreV1().Nodes().Delete(ctx, "n", metav1.DeleteOptions{}))
	repotest.Eventually(t, "the lease goes with its node", func() bool {
		list, err := leases.List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
}

// TestLeasesGoWithTheirNodes holds that a renewal which meets the end of its node leaves no
// lease behind.
func TestLeasesGoWithTheirNodes(t *testing.T) {
	c := one(t, hollow.Options{Models: hollow.Models{Heartbeats: time.Millisecond}})
	client, ctx := kubernetes.NewForConfigOrDie(c.Endpoint().Config("test")), t.Context()
	const nodes = 200
	for i := range nodes {
		if _, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	leases := func() int {
		list := repotest.Must(client.CoordinationV1().Leases("kube-node-lease").List(ctx, metav1.ListOptions{}))(t)
		return len(list.Items)
	}
	repotest.Eventually(t, "all nodes have leases", func() bool { return leases() == nodes })
	for i := range nodes {
		repotest.NoError(t, client.CoreV1().Nodes().Delete(ctx, fmt.Sprint("n", i), metav1.DeleteOptions{}))
	}
	repotest.Eventually(t, "no lease is left", func() bool { return leases() == 0 })
}

// TestStagesApply holds that stages make what they apply: a claim gets a volume of its
// own, which is bound to it.
func TestStagesApply(t *testing.T) {
	c := one(t, hollow.Options{Models: hollow.Models{Stages: []string{"volumes"}}})
	client := kubernetes.NewForConfigOrDie(c.Endpoint().Config("test")).CoreV1()
	class := "windtunnel"
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Finalizers: []string{"example.com/hold"}}}
	claim.Spec.StorageClassName, claim.Spec.AccessModes = &class, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	ctx, claims := t.Context(), client.PersistentVolumeClaims("default")
	if _, err := claims.Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var name string
	repotest.Eventually(t, "the claim is bound", func() bool {
		got, err := claims.Get(ctx, "data", metav1.GetOptions{})
		if err != nil || got.Status.Phase != corev1.ClaimBound {
			return false
		}
		name = got.Spec.VolumeName
		return true
	})
	repotest.Eventually(t, "so is its volume", func() bool {
		v, err := client.PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && v.Status.Phase == corev1.VolumeBound && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.Name == "data"
	})
	repotest.NoError(t, claims.Delete(ctx, "data", metav1.DeleteOptions{}))
	repotest.Eventually(t, "the volume goes with the claim that somebody holds", func() bool {
		_, err := client.PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

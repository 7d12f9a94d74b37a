package windtunnel_test

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/windtunnel/windtunnel"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

const hollowObjects = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: shop}}
- {apiVersion: v1, kind: Node, metadata: {name: n1}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {kind: other}}
`

func TestHollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "objects.yaml")
	repotest.NoError(t, os.WriteFile(path, []byte(hollowObjects), 0o600))
	c := windtunnel.Hollow(t, windtunnel.HollowOptions{Objects: []string{path}, Binder: true, Stages: []string{"fast"}})
	config := repotest.Must(clientcmd.BuildConfigFromFlags("", c.Kubeconfig))(t)
	pods := kubernetes.NewForConfigOrDie(config).CoreV1().Pods("shop")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"kind": "other"}, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	repotest.Eventually(t, "the pod runs on the node that it selects", func() bool {
		p, err := pods.Get(t.Context(), "p", metav1.GetOptions{})
		return err == nil && p.Spec.NodeName == "n2" && p.Status.Phase == corev1.PodRunning && p.Status.PodIP != ""
	})
	c.Forget()
	repotest.NoError(t, pods.Delete(t.Context(), "p", metav1.DeleteOptions{}))
	repotest.Eventually(t, "the pod goes when its stage says so", func() bool {
		list, err := pods.List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
}

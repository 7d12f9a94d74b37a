package hollow_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// Every namespace has its service account and its certificate as soon as it is there,
// also those that a cluster begins with, and gets them again; but not one that goes.
func TestServiceAccounts(t *testing.T) {
	c := one(t, hollow.Options{Models: hollow.Models{ServiceAccounts: true}})
	config := c.Endpoint().Config("test")
	client, ctx := kubernetes.NewForConfigOrDie(config), t.Context()
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"default", "kube-system", "kube-public", "kube-node-lease", "n"} {
		m, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		if err != nil || m.Data["ca.crt"] != string(config.CAData) {
			t.Errorf("the certificate in %s: %v, %v", namespace, m, err)
		}
		token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("a token in %s: %v", namespace, err)
		}
		own := c.Endpoint().As(token.Status.Token).Config("test")
		who, err := kubernetes.NewForConfigOrDie(own).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil || who.Status.UserInfo.Username != "system:serviceaccount:"+namespace+":default" {
			t.Errorf("%v, %v", who, err)
		}
	}
	accounts, maps := client.CoreV1().ServiceAccounts("n"), client.CoreV1().ConfigMaps("n")
	first, err := accounts.Get(ctx, "default", metav1.GetOptions{})
	if err == nil {
		err = accounts.Delete(ctx, "default", metav1.DeleteOptions{})
	}
	if err == nil {
		_, err = maps.Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"}, Data: map[string]string{"a": "b"}}, metav1.UpdateOptions{})
	}
	repotest.NoError(t, err)
	repotest.Eventually(t, "both are there again", func() bool {
		a, err := accounts.Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return false
		}
		m, err := maps.Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil && a.UID != first.UID && m.Data["ca.crt"] == string(config.CAData) && len(m.Data) == 1
	})
	repotest.NoError(t, client.CoreV1().Namespaces().Delete(ctx, "n", metav1.DeleteOptions{}))
	repotest.Eventually(t, "the namespace goes with both", func() bool {
		_, err := client.CoreV1().Namespaces().Get(ctx, "n", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if left, err := accounts.List(ctx, metav1.ListOptions{}); err != nil || len(left.Items) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

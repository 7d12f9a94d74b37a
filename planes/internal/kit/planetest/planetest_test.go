package planetest_test

import (
	"maps"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// TestRig holds that two tests do not see each other's clusters, that calls are counted
// and intercepted, and that a wait sees what a watch brings.
func TestRig(t *testing.T) {
	one, two := planetest.Cluster(t, "a", hollow.Models{}), planetest.Cluster(t, "a", hollow.Models{})
	config := one.Endpoint().Config("test")
	var calls planetest.Calls
	calls.Count(config, func(*http.Request) string { return " marked" })
	c := kubernetes.NewForConfigOrDie(config)
	followed := planetest.Follow[*corev1.ConfigMap](t, informers.NewSharedInformerFactory(c, 0).Core().V1().ConfigMaps().Informer())
	maps1 := c.CoreV1().ConfigMaps("default")
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	repotest.Must(maps1.Create(t.Context(), m, metav1.CreateOptions{}))(t)
	followed.Await("the ConfigMap is there", func(all []*corev1.ConfigMap) bool { return len(all) == 1 && all[0].Name == "m" })
	if !calls.Has("POST configmaps marked") {
		t.Error("its creation is not counted")
	}
	repotest.NoError(t, maps1.Delete(t.Context(), "m", metav1.DeleteOptions{}))
	followed.Await("it is gone", func(all []*corev1.ConfigMap) bool { return len(all) == 0 })
	if got, want := calls.Take(), map[string]int{"POST configmaps marked": 1, "DELETE configmaps marked": 1}; !maps.Equal(got, want) {
		t.Errorf("counted are %v, want %v", got, want)
	}
	if _, err := planetest.Client(t, two.Endpoint()).CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Errorf("in the other cluster: %v", err)
	}
	if all := followed.All(); len(all) != 0 {
		t.Errorf("what the other cluster has is seen: %v", all)
	}
}

// TestLines holds how a log is read.
func TestLines(t *testing.T) {
	var l planetest.Lines
	for _, s := range []string{"first line\nsec", "ond line\n"} {
		if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	if !l.Has("second", "line") || l.Has("first", "second") || l.String() != "first line\nsecond line\n" {
		t.Errorf("the log is %q", l.String())
	}
}

package hollow_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// broken is a cluster that can be broken from outside, and a client whose
// credentials can expire.
type broken struct {
	*hollow.Cluster
	client kubernetes.Interface
	do     func(action string, want int)
}

func breakable(t *testing.T, shared bool) broken {
	t.Helper()
	s := repotest.Must(hollow.New(hollow.Options{Shared: shared, Models: hollow.Models{Nodes: 2}}))(t)
	t.Cleanup(func() { _ = s.Close() })
	c := repotest.Must(s.Cluster("one"))(t)
	control := repotest.Must(s.Control())(t)
	by, base, err := control.Client()
	repotest.NoError(t, err)
	do := func(action string, want int) {
		t.Helper()
		r := repotest.Must(by.Post(base.String()+"/"+action, "", nil))(t)
		r.Body.Close()
		if r.StatusCode != want {
			t.Fatalf("%s: %d, want %d", action, r.StatusCode, want)
		}
	}
	return broken{c, kubernetes.NewForConfigOrDie(c.Client().Config("test")), do}
}

func TestClusterThatIsDown(t *testing.T) {
	for _, shared := range []bool{false, true} {
		c := breakable(t, shared)
		ctx := t.Context()
		w, err := c.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
		repotest.NoError(t, err)
		for range 2 {
			<-w.ResultChan()
		}
		c.do("one/stop", http.StatusOK)
		repotest.Eventually(t, "the watch ends", func() bool {
			select {
			case _, open := <-w.ResultChan():
				return !open
			default:
				return false
			}
		})
		brief, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err = c.client.CoreV1().Nodes().List(brief, metav1.ListOptions{})
		cancel()
		if err == nil {
			t.Error("a cluster that is down answers")
		}
		c.do("one/start", http.StatusOK)
		list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 2 || list.Items[0].Status.Conditions == nil {
			t.Errorf("shared %t: after a start: %v, %v", shared, list, err)
		}
	}
}

func TestCredentialsExpire(t *testing.T) {
	c := breakable(t, false)
	c.do("one/expire", http.StatusOK)
	if _, err := c.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Error(err)
	}
	admin := kubernetes.NewForConfigOrDie(c.Endpoint().Config("test"))
	if _, err := admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	c.do("one/renew", http.StatusOK)
	if _, err := c.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// What was made after the copy is gone, what was changed is as it was, what was
// deleted is there again; a watch sees all of it, at later versions.
func TestOlderStateComesBack(t *testing.T) {
	c := breakable(t, false)
	ctx := t.Context()
	maps := c.client.CoreV1().ConfigMaps("default")
	put := func(name, value string) *corev1.ConfigMap {
		t.Helper()
		m, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": value}}, metav1.CreateOptions{})
		repotest.NoError(t, err)
		return m
	}
	put("deleted", "1")
	changed := put("changed", "1")
	c.do("one/restore", http.StatusBadRequest)
	c.do("one/copy", http.StatusOK)
	put("new", "1")
	changed.Data["a"] = "2"
	last := repotest.Must(maps.Update(ctx, changed, metav1.UpdateOptions{}))(t)
	repotest.NoError(t, maps.Delete(ctx, "deleted", metav1.DeleteOptions{}))
	w := repotest.Must(maps.Watch(ctx, metav1.ListOptions{ResourceVersion: last.ResourceVersion}))(t)
	defer w.Stop()
	c.do("one/restore", http.StatusOK)
	seen := map[string]bool{}
	for range 4 {
		e := <-w.ResultChan()
		seen[string(e.Type)+" "+e.Object.(*corev1.ConfigMap).Name] = true
	}
	for _, want := range []string{"DELETED deleted", "ADDED deleted", "MODIFIED changed", "DELETED new"} {
		if !seen[want] {
			t.Errorf("a watch sees %v, not %s", seen, want)
		}
	}
	m, err := maps.Get(ctx, "changed", metav1.GetOptions{})
	if err != nil || m.Data["a"] != "1" || m.ResourceVersion == changed.ResourceVersion {
		t.Errorf("%v, %v", m, err)
	}
}

func TestSlowCluster(t *testing.T) {
	c := breakable(t, false)
	for _, bad := range []string{"one/slow?factor=x", "one/slow?factor=0.5", "one/dance"} {
		c.do(bad, http.StatusBadRequest)
	}
	c.do("none/stop", http.StatusNotFound)
	c.do("one/slow?factor=5", http.StatusOK)
	by, base, err := c.Endpoint().Client()
	repotest.NoError(t, err)
	// A body that takes its time, from when its first byte is wanted, makes an answer
	// take a time that is surely longer, however late the server sees its begin.
	in, out := io.Pipe()
	go func() {
		_, _ = io.WriteString(out, `{`)
		time.Sleep(200 * time.Millisecond)
		_, _ = io.WriteString(out, `"metadata":{"name":"slow"}}`)
		out.Close()
	}()
	begin := clock.Start()
	r := repotest.Must(by.Post(base.String()+"/api/v1/namespaces", "application/json", in))(t)
	r.Body.Close()
	if took := begin.Now().Seconds(); r.StatusCode != http.StatusCreated || took < 0.5 {
		t.Errorf("after %.3f s: %d", took, r.StatusCode)
	}
}

func TestMetrics(t *testing.T) {
	s := repotest.Must(hollow.New(hollow.Options{Models: hollow.Models{Nodes: 3, Heartbeats: 20 * time.Millisecond}}))(t)
	t.Cleanup(func() { _ = s.Close() })
	c := repotest.Must(s.Cluster("one"))(t)
	client := kubernetes.NewForConfigOrDie(c.Endpoint().Config("test"))
	repotest.Eventually(t, "metrics tell of nodes, leases and their renewals", func() bool {
		raw, err := client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		return err == nil && strings.Contains(string(raw), "apiserver_storage_objects{resource=\"nodes\"} 3\n") &&
			strings.Contains(string(raw), "apiserver_storage_objects{resource=\"leases.coordination.k8s.io\"} 3\n") &&
			!strings.Contains(string(raw), "lateness_seconds_count 0\n") && strings.Contains(string(raw), "process_resident_memory_bytes ")
	})
}

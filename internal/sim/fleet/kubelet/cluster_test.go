package kubelet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

func newCluster(t testing.TB, api *apitest.Server, change func(*ClusterOptions)) *Cluster {
	t.Helper()
	client := repotest.Must(wire.New(api.Endpoint(), wire.Options{Clock: clock.Start()}))(t)
	o := ClusterOptions{Client: client, Clock: clock.Start()}
	if change != nil {
		change(&o)
	}
	c := NewCluster(o)
	t.Cleanup(func() {
		_ = c.Close()
		_ = c.Close()
		_ = client.Close()
	})
	return c
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// fullPod is a pod with much in it.
func fullPod(name, node string) *corev1.Pod {
	p := apitest.Pod(name, node)
	p.Annotations = map[string]string{"use": "1"}
	p.Labels = map[string]string{"l": "1"}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("250m")}
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "E", Value: strings.Repeat("x", 1000)}}
	p.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return p
}

func names(pods []*corev1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

func TestClusterIdle(t *testing.T) {
	api := apitest.New(t)
	c := newCluster(t, api, nil)
	if _, err := c.Node(soon(t), "n"); !errors.Is(err, errIdle) {
		t.Error(err)
	}
	c.Need(nil)
	if c.Nodes() != nil || c.Started("n") != 0 {
		t.Error("nothing is followed")
	}
	for _, kind := range []string{"LIST nodes", "GET nodes", "WATCH nodes", "LIST pods", "GET pods", "WATCH pods"} {
		if n := api.Calls(kind); n != 0 {
			t.Errorf("%d times %s", n, kind)
		}
	}
}

func TestClusterFollows(t *testing.T) {
	api := apitest.New(t)
	for _, name := range []string{"n1", "n2", "other"} {
		n := &corev1.Node{}
		n.Name, n.Labels = name, map[string]string{"zone": "z"}
		api.AddNode(n)
	}
	api.AddPod(fullPod("b", "n1"))
	api.AddPod(fullPod("a", "n1"))
	api.AddPod(fullPod("unbound", ""))
	c := newCluster(t, api, func(o *ClusterOptions) { o.Managed = func(node string) bool { return node != "other" } })
	c.Need([]string{"annotations", "StartedContainersTotal"})
	pods, err := c.PodsOn(soon(t), "n1")
	if err != nil || names(pods) != "a b" {
		t.Fatal(names(pods), err)
	}
	p := pods[0]
	if p.Annotations["use"] != "1" || p.Namespace != "default" || p.UID == "" || p.Spec.NodeName != "n1" || p.Spec.Containers[0].Name != "c" {
		t.Errorf("lacks what it needs: %+v", p)
	}
	if p.Labels != nil || p.Spec.Volumes != nil || p.Spec.Containers[0].Env != nil || p.Spec.Containers[0].Resources.Requests != nil || p.Status.Phase != "" {
		t.Errorf("holds what nobody needs: %+v", p)
	}
	if n, err := c.Node(soon(t), "n1"); err != nil || n.Name != "n1" || n.Labels != nil {
		t.Error(n, err)
	}
	for _, name := range []string{"other", "none"} {
		if _, err := c.Node(soon(t), name); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := c.Nodes(); !reflect.DeepEqual(got, []string{"n1", "n2"}) {
		t.Error(got)
	}
	on := func(node string) string {
		pods := repotest.Must(c.PodsOn(soon(t), node))(t)
		return names(pods)
	}
	api.AddPod(fullPod("c", "n1"))
	repotest.Eventually(t, "a pod comes", func() bool { return on("n1") == "a b c" })
	api.RemovePod("default", "a")
	repotest.Eventually(t, "a pod goes", func() bool { return on("n1") == "b c" })
	if got := c.Started("n1"); got != 3 {
		t.Errorf("%v containers started, want 3", got)
	}
	api.CutWatches()
	api.RemovePod("default", "b")
	api.Remove(apitest.NodesPath + "/n2")
	api.Compact()
	repotest.Eventually(t, "a pod goes while nobody looks", func() bool { return on("n1") == "c" })
	repotest.Eventually(t, "a node goes while nobody looks", func() bool { return len(c.Nodes()) == 1 })

	// What was not needed before is there after it is.
	c.Need([]string{"annotations"})
	lists := api.Calls("WATCH pods")
	c.Need([]string{"annotations", "resources", "labels", "phase", "zone"})
	pods = repotest.Must(c.PodsOn(soon(t), "n1"))(t)
	if p := pods[0]; p.Spec.Containers[0].Resources.Requests.Cpu().String() != "250m" || p.Labels["l"] != "1" || p.Status.Phase != corev1.PodRunning || p.Spec.Containers[0].Env != nil {
		t.Errorf("%+v", p)
	}
	repotest.Eventually(t, "a new watch", func() bool { return api.Calls("WATCH pods") > lists })
	c.Need(nil)
	if _, err := c.PodsOn(soon(t), "n1"); !errors.Is(err, errIdle) {
		t.Error(err)
	}
}

func TestClusterRefused(t *testing.T) {
	api := apitest.New(t)
	api.Inject(func(r *http.Request) *apitest.Injection {
		if strings.HasSuffix(r.URL.Path, "/pods") {
			return &apitest.Injection{Code: http.StatusForbidden}
		}
		return nil
	})
	log := &lockedBuffer{}
	c := newCluster(t, api, func(o *ClusterOptions) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
	c.Need([]string{})
	_, err := c.PodsOn(soon(t), "n1")
	var status *wire.StatusError
	if !errors.As(err, &status) || status.Code != http.StatusForbidden {
		t.Error(err)
	}
	if !bytes.Contains(log.b.Bytes(), []byte("metrics have no objects")) {
		t.Error(log.b.String())
	}
}

func TestClusterAsks(t *testing.T) {
	api := apitest.New(t)
	api.AddPod(fullPod("a", "n1"))
	api.AddPod(fullPod("b", "n2"))
	c := newCluster(t, api, nil)
	p, err := c.Pod(soon(t), "default", "a")
	if err != nil || p.Spec.Containers[0].Env == nil {
		t.Error(p, err)
	}
	if _, err := c.Pod(soon(t), "default", "no/ne"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	text := repotest.Must(c.PodList(soon(t), "n2"))(t)
	var list corev1.PodList
	if err := json.Unmarshal(text, &list); err != nil || len(list.Items) != 1 || list.Items[0].Name != "b" {
		t.Errorf("%s, %v", text, err)
	}
	api.Inject(func(*http.Request) *apitest.Injection {
		return &apitest.Injection{Code: http.StatusInternalServerError}
	})
	if _, err := c.Pod(soon(t), "default", "a"); err == nil || !strings.Contains(err.Error(), "status 500") {
		t.Error(err)
	}
}

// TestTrim compares a trimmed pod with the whole one, field by field.
func TestTrim(t *testing.T) {
	whole := fullPod("a", "n1")
	raw := repotest.Must(whole.Marshal())(t)
	pods, _ := plansFor([]string{"status", "containerStatuses", "env", "labels", "running"})
	less := repotest.Must(trimMessage(raw, pods))(t)
	var got corev1.Pod
	repotest.NoError(t, got.Unmarshal(less))
	want := &corev1.Pod{}
	want.Name, want.Namespace, want.Labels, want.Spec.NodeName = whole.Name, whole.Namespace, whole.Labels, whole.Spec.NodeName
	want.Spec.Containers = []corev1.Container{{Name: "c", Env: whole.Spec.Containers[0].Env}}
	want.Status.ContainerStatuses = whole.Status.ContainerStatuses
	if !reflect.DeepEqual(&got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	if n := startedIn(raw); n != 1 {
		t.Errorf("%d started", n)
	}
	if pods, _ := plansFor(nil); len(mustTrim(t, raw, pods)) > 120 {
		t.Errorf("%d bytes of %d are left when nothing is needed", len(mustTrim(t, raw, pods)), len(raw))
	}
}

func mustTrim(t *testing.T, raw []byte, p *plan) []byte {
	return repotest.Must(trimMessage(raw, p))(t)
}

func FuzzTrim(f *testing.F) {
	raw := repotest.Must(fullPod("a", "n1").Marshal())(f)
	f.Add(raw)
	f.Add([]byte{0x0a, 0xff})
	pods, nodes := plansFor([]string{"env", "labels"})
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, p := range []*plan{pods, nodes} {
			if out, err := trimMessage(raw, p); err == nil && len(out) > len(raw) {
				t.Errorf("%d bytes of %d", len(out), len(raw))
			}
		}
		_ = startedIn(raw)
	})
}

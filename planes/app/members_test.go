package app_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
	"github.com/windtunnel/windtunnel/planes/app/internal/gateway"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
)

// memberEndpoint is a member under test.
type memberEndpoint struct {
	kubernetes.Interface
	endpoint endpoint.Endpoint
}

// hollowRig is a hub in memory with members in memory, in which Deployments are
// available at once.
func hollowRig(t testing.TB, members ...string) (*rig, map[string]memberEndpoint) {
	t.Helper()
	r := newRigAt(t, planetest.Cluster(t, "hub", available()).Endpoint())
	return r, newMemberEndpoints(t, members...)
}

// available are the models by which Deployments are available at once.
func available() hollow.Models { return hollow.Models{Stages: []string{"deployments"}, StagesDir: "."} }

// newMemberEndpoints makes hollow members.
func newMemberEndpoints(t testing.TB, names ...string) map[string]memberEndpoint {
	t.Helper()
	out := map[string]memberEndpoint{}
	for _, name := range names {
		out[name] = newMemberEndpoint(t, planetest.Cluster(t, name, available()))
	}
	return out
}

func newMemberEndpoint(t testing.TB, c *hollow.Cluster) memberEndpoint {
	t.Helper()
	return memberEndpoint{planetest.Client(t, c.Endpoint()), c.Endpoint()}
}

// join registers members at the hub, by their kubeconfigs.
func (r *rig) join(members map[string]memberEndpoint, spread map[string]int) {
	r.t.Helper()
	folder := r.t.TempDir()
	for name, m := range members {
		repotest.NoError(r.t, m.endpoint.WriteKubeconfig(folder+"/"+name+".kubeconfig"))
	}
	all := repotest.Must(cluster.Read(folder, spread))(r.t)
	for range 2 { // it can be repeated
		repotest.NoError(r.t, cluster.Join(r.t.Context(), r.config, all))
	}
}

// gate is a gateway under test.
type gate struct {
	registry *instrument.Registry
	stop     func()
}

// gateway runs one and returns when it serves.
func (r *rig) gateway(aggregated bool) *gate {
	r.t.Helper()
	g := &gate{registry: instrument.New("")}
	ready := repotest.Must(g.registry.Serve(r.t.Context(), "127.0.0.1:0"))(r.t)
	r.t.Cleanup(func() { _ = ready.Close() })
	g.stop = planetest.Start(r.t, func(ctx context.Context) error {
		return gateway.Run(ctx, gateway.Options{
			Env:    process.Env{Config: r.config, Registry: g.registry, Clock: clock.Start(), Log: planetest.Log(r.t)},
			Listen: "127.0.0.1:0", Aggregate: aggregated,
		})
	})
	repotest.Eventually(r.t, "the gateway serves", func() bool {
		answer, err := http.Get("http://" + ready.Address + "/readyz")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return g
}

// came returns how many requests came by a way.
func (g *gate) came(t testing.TB, way string) float64 {
	t.Helper()
	return instrumenttest.Measured(t, g.registry, "cluster_gateway_requests_total", "way="+way).Value
}

// direct lets a controller connect to the gateway itself.
func direct(o *controller.Options) {
	o.Gateway = cluster.Direct{URL: cluster.Registered, Connections: 1}
}

// to returns an application with a topology.
func to(t testing.TB, name, properties string) *api.Application {
	o := application(t, name, "light", 1)
	o.Spec.Policies = []api.Policy{{Name: "where", Type: "topology", Properties: json.RawMessage(properties)}}
	return o
}

func (r *rig) make(o *api.Application) {
	r.t.Helper()
	repotest.Must(r.client.Applications.Create(r.t.Context(), o))(r.t)
}

// holds counts what a cluster has of an application: Deployments, Secrets and
// ConfigMaps, but not the state of its workflow.
func holds(t testing.TB, c kubernetes.Interface, namespace, name string) [3]int {
	t.Helper()
	of := metav1.ListOptions{LabelSelector: api.LabelName + "=" + name}
	deployments := repotest.Must(c.AppsV1().Deployments(namespace).List(t.Context(), of))(t)
	secrets := repotest.Must(c.CoreV1().Secrets(namespace).List(t.Context(), of))(t)
	maps := repotest.Must(c.CoreV1().ConfigMaps(namespace).List(t.Context(), of))(t)
	return [3]int{len(deployments.Items), len(secrets.Items), len(maps.Items)}
}

func (r *rig) hub() kubernetes.Interface {
	r.t.Helper()
	return planetest.Client(r.t, r.endpoint)
}

// TestMembers delivers applications to clusters by their names and labels.
func TestMembers(t *testing.T) {
	t.Parallel()
	r, members := hollowRig(t, "m-1", "m-2", "m-3")
	r.join(members, map[string]int{"region": 2}) // region-0: m-1 and m-3
	g := r.gateway(false)
	c := r.run(func(o *controller.Options) {
		direct(o)
		o.Resync = 2 * time.Second
	})

	r.make(to(t, "one", `{"clusters":["m-2"]}`))
	r.make(to(t, "region", `{"clusterLabelSelector":{"region":"region-0"}}`))
	r.make(to(t, "both", `{"clusters":["local","m-1"]}`))
	for _, name := range []string{"one", "region", "both"} {
		r.becomes(name, api.Running)
	}
	for name, want := range map[string][4]int{"one": {0, 0, 1, 0}, "region": {0, 1, 0, 1}, "both": {1, 1, 0, 0}} { // hub, m-1, m-2, m-3
		for i, in := range []kubernetes.Interface{r.hub(), members["m-1"], members["m-2"], members["m-3"]} {
			if got := holds(t, in, "default", name); got != [3]int{want[i], want[i], want[i]} {
				t.Errorf("of %s there are %v in cluster %d, want %d of each", name, got, i, want[i])
			}
		}
	}
	o := r.get("region")
	if len(o.Status.Services) != 4 || len(o.Status.AppliedResources) != 6 || len(o.Status.Workflow.Steps) != 1 || o.Status.Workflow.Steps[0].Type != "deploy" {
		t.Errorf("status %+v", o.Status)
	}
	if got := c.sent(); got["GET clustergateways/proxy"] > 0 || g.came(t, "direct") == 0 {
		t.Errorf("the hub was asked for members: %v", got)
	}
	strays(t, r, members)
	moves(t, r, members)
	for _, name := range []string{"one", "region", "both"} {
		r.delete(name)
		for m, in := range members {
			if got := holds(t, in, "default", name); got != [3]int{} {
				t.Errorf("of %s, which is gone, %v are left in %s", name, got, m)
			}
		}
		r.remains(name, left{})
	}
}

// strays holds that what somebody changed or deleted in a member comes back.
func strays(t *testing.T, r *rig, members map[string]memberEndpoint) {
	maps, secrets := members["m-2"].CoreV1().ConfigMaps("default"), members["m-2"].CoreV1().Secrets("default")
	repotest.Must(maps.Patch(t.Context(), "cm-one", types.MergePatchType, []byte(`{"data":{"version":"x"}}`), metav1.PatchOptions{}))(t)
	repotest.NoError(t, secrets.Delete(t.Context(), "secret-one", metav1.DeleteOptions{}))
	repotest.Eventually(t, "drift in a member is repaired", func() bool {
		cm, err := maps.Get(t.Context(), "cm-one", metav1.GetOptions{})
		_, there := secrets.Get(t.Context(), "secret-one", metav1.GetOptions{})
		return err == nil && cm.Data["version"] == "1" && there == nil
	})
}

// moves holds that an application whose topology changes leaves where it was.
func moves(t *testing.T, r *rig, members map[string]memberEndpoint) {
	body := repotest.Must(json.Marshal(map[string]any{"spec": to(t, "one", `{"clusters":["m-3"]}`).Spec}))(t)
	r.patch("one", body)
	r.becomes("one", api.Running)
	repotest.Eventually(t, "it has moved", func() bool {
		return holds(t, members["m-2"], "default", "one") == [3]int{} && holds(t, members["m-3"], "default", "one") == [3]int{1, 1, 1}
	})
}

// TestNowhere holds what a user sees of a place that is not there, and that it heals
// when the cluster joins.
func TestNowhere(t *testing.T) {
	t.Parallel()
	r, members := hollowRig(t, "m-1")
	r.gateway(false)
	r.run(func(o *controller.Options) { direct(o) })
	r.make(to(t, "name", `{"clusters":["m-1"]}`))
	r.make(to(t, "label", `{"clusterLabelSelector":{"region":"mars"}}`))
	r.make(to(t, "empty", `{"clusterLabelSelector":{"region":"mars"},"allowEmpty":true}`))
	r.make(to(t, "namespace", `{"clusters":["m-1"],"namespace":"other"}`))
	failing := func(name, want string) {
		t.Helper()
		repotest.Eventually(t, name+" says what is wrong", func() bool {
			w := r.get(name).Status.Workflow
			return w != nil && len(w.Steps) == 1 && strings.Contains(w.Steps[0].Message, want)
		})
	}
	failing("name", `policy where: cluster "m-1": no such cluster has joined`)
	failing("label", "policy where: no cluster matches labels region=mars")
	r.becomes("empty", api.Running)
	r.join(members, map[string]int{"region": 1})
	r.becomes("name", api.Running)
	failing("namespace", `component namespace-v1: apply Deployment namespace-v1: cluster m-1: namespaces "other" not found`)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	repotest.Must(members["m-1"].CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}))(t)
	r.becomes("namespace", api.Running)
	if got := holds(t, members["m-1"], "other", "namespace"); got != [3]int{1, 1, 1} {
		t.Errorf("in the namespace of the topology there are %v", got)
	}
}

// TestNoGateway holds what a user sees where no gateway was ever started.
func TestNoGateway(t *testing.T) {
	t.Parallel()
	r, members := hollowRig(t, "m-1")
	r.join(members, nil)
	r.run(func(*controller.Options) {})
	r.make(to(t, "a", `{"clusters":["m-1"]}`))
	repotest.Eventually(t, "the step names the cluster and the gateway", func() bool {
		w := r.get("a").Status.Workflow
		return w != nil && len(w.Steps) == 1 && strings.Contains(w.Steps[0].Message, "component a-v1: apply Deployment a-v1: cluster m-1: the gateway cannot be reached: ")
	}, func() any { return r.get("a").Status })
}

// TestGatewayRefuses holds who may not pass the gateway, and what it says of members.
func TestGatewayRefuses(t *testing.T) {
	t.Parallel()
	r, members := hollowRig(t, "m-1")
	r.join(members, nil)
	r.gateway(false)
	ask := func(config *rest.Config, path string) (int, string) {
		t.Helper()
		transport := repotest.Must(cluster.Direct{URL: cluster.Registered, Connections: 1}.Transport(r.config))(t)
		wrapped := repotest.Must(rest.HTTPWrappersForConfig(config, transport))(t)
		answer := repotest.Must((&http.Client{Transport: wrapped}).Get("https://gateway" + path))(t)
		defer answer.Body.Close()
		body := repotest.Must(io.ReadAll(answer.Body))(t)
		return answer.StatusCode, string(body)
	}
	base := "/apis/cluster.core.oam.dev/v1alpha1/clustergateways"
	nobody, wrong := &rest.Config{}, &rest.Config{BearerToken: "wrong"}
	for _, tt := range []struct {
		config *rest.Config
		path   string
		code   int
		want   string
	}{
		{nobody, base + "/m-1/proxy/api/v1/namespaces/default", http.StatusUnauthorized, "not known"},
		{wrong, base + "/m-1/proxy/api/v1/namespaces/default", http.StatusUnauthorized, "not known"},
		{r.config, base + "/m-1/proxy/api/v1/namespaces/default", http.StatusOK, "kubernetes"},
		{r.config, base + "/m-9/proxy/api/v1/namespaces/default", http.StatusNotFound, `\"m-9\" not found`},
		{r.config, base + "/m-1/proxy/api/v1/namespaces/none", http.StatusNotFound, `namespaces \"none\" not found`},
		{r.config, base + "/m-1", http.StatusOK, "ServiceAccountToken"},
		{r.config, base + "/m-1/health", http.StatusOK, `"healthy":true`},
	} {
		code, text := ask(tt.config, tt.path)
		if code != tt.code || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %d %s, want %d %s", tt.path, code, text, tt.code, tt.want)
		}
	}
}

// TestAggregated delivers through a real API server that proxies to the gateway, and
// holds that a gateway that is away for a while costs nothing but time.
func TestAggregated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	members := newMemberEndpoints(t, "m-1", "m-2")
	r.join(members, nil)
	g := r.gateway(true)
	c := r.run(func(o *controller.Options) { o.Resync = 2 * time.Second })
	r.make(to(t, "a", `{"clusters":["m-1","m-2"]}`))
	r.becomes("a", api.Running)
	got := c.sent()
	if g.came(t, "aggregated") == 0 || g.came(t, "direct") > 0 || got["POST clustergateways/proxy"] == 0 || got["POST clustergateways/proxy dry"] != 6 {
		t.Errorf("%v aggregated and %v direct requests; %v", g.came(t, "aggregated"), g.came(t, "direct"), got)
	}
	g.stop()
	gateless := regexp.MustCompile(`cluster m-[12]: the gateway cannot be reached: `)
	fails := func(condition string) {
		t.Helper()
		repotest.Eventually(t, condition+" names the cluster and the gateway", func() bool {
			return slices.ContainsFunc(r.get("a").Status.Conditions, func(c api.Condition) bool {
				return c.Type == condition && c.Status == corev1.ConditionFalse && gateless.MatchString(c.Message)
			})
		}, func() any { return r.get("a").Status.Conditions })
	}
	fails("StateKeep")
	repotest.NoError(t, r.client.Applications.Delete(t.Context(), r.get("a")))
	fails("GarbageCollection")
	before := c.passes()
	c.passesMore(before, 2) // and none of them takes what it cannot see for gone
	if _, err := r.client.Trackers.Get(t.Context(), "", "a-v1-default"); err != nil {
		t.Errorf("what is in members is forgotten: %v", err)
	}
	for _, m := range members {
		repotest.Equal(t, holds(t, m, "default", "a"), [3]int{1, 1, 1}, "it holds")
	}
	r.gateway(true)
	r.vanishes("a")
	for _, m := range members {
		repotest.Equal(t, holds(t, m, "default", "a"), [3]int{}, "it still holds")
	}
}

package edge_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/fleet"
	"github.com/windtunnel/windtunnel/planes/edge/internal/hub"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// rig is an edge plane against an API server in memory.
type rig struct {
	t      testing.TB
	server *apitest.Server
	check  http.Handler // of the fleet
}

func newRig(t testing.TB) *rig {
	t.Helper()
	const version = "reliablesyncs.kubeedge.io/v1alpha1"
	return &rig{t: t, server: apitest.New(t,
		apitest.Resource{Version: version, Plural: "objectsyncs", Kind: "ObjectSync", Namespaced: true, Status: true},
		apitest.Resource{Version: version, Plural: "clusterobjectsyncs", Kind: "ClusterObjectSync", Status: true},
	)}
}

func (r *rig) hub(change func(*hub.Options)) (stop func()) {
	o := r.hubOptions()
	if change != nil {
		change(&o)
	}
	return planetest.Start(r.t, func(ctx context.Context) error { return hub.Run(ctx, o) })
}

func (r *rig) hubOptions() hub.Options {
	o := hub.Default()
	o.Registry, o.Clock, o.Log = instrument.New(""), clock.Start(), planetest.Quiet()
	o.Config = r.server.Endpoint().Config("edge-hub-test")
	o.Limiter, o.Round = limiter.Rate{QPS: 1e6, Burst: 1e6}, 100*time.Millisecond
	o.ResendAfter = 200 * time.Millisecond
	return o
}

func (r *rig) fleet(edges int, change func(*fleet.Options)) (stop func()) {
	o := r.fleetOptions(edges)
	o.PodStart, o.PodStop = 10*time.Millisecond, 10*time.Millisecond
	o.Backoff, o.Dialers = fleet.BackoffJitter, 16
	if change != nil {
		change(&o)
	}
	r.check = o.Registry
	return planetest.Start(r.t, func(ctx context.Context) error { return fleet.Run(ctx, o) })
}

// fleetOptions are those of a fleet of the rig's.
func (r *rig) fleetOptions(edges int) fleet.Options {
	o := fleet.Default()
	o.Registry, o.Clock, o.Log = instrument.New(""), clock.Start(), planetest.Quiet()
	o.Config = r.server.Endpoint().Config("edge-fleet-test")
	o.Edges, o.Shards, o.JoinRate = edges, 1, 1000
	return o
}

// pods adds pods to edges, one after the other; they use the ConfigMap settings.
func (r *rig) pods(from, count, edges int) {
	for i := from; i < from+count; i++ {
		p := apitest.Pod(fmt.Sprintf("p%d", i), fmt.Sprintf("edge-%d", i%edges))
		p.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
		p.Spec.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}}
		p.Spec.Containers = []corev1.Container{{Name: "app"}}
		r.server.AddPod(p)
	}
}

const settings = "/api/v1/namespaces/default/configmaps/settings"

func (r *rig) settings(value string) {
	c := map[string]any{"metadata": map[string]any{"name": "settings", "namespace": "default", "uid": "11111111-0000-4000-8000-000000000000"}, "data": map[string]any{"level": value}}
	r.server.Add(settings, c)
}

func (r *rig) running() (n int) {
	for _, p := range r.server.Pods() {
		if p.Status.Phase == corev1.PodRunning {
			n++
		}
	}
	return n
}

// converged waits until edges hold exactly what the API server holds.
func (r *rig) converged() {
	r.t.Helper()
	planetest.AwaitAgreement(r.t, r.check)
}

func improved(o *hub.Options) {
	o.Words().Apply(words.ImprovedPreset)
}

// TestLifeOfPods holds that edges join, run their pods, hold what the API server
// holds, take changes, and let pods go, with KubeEdge's semantics and improved.
func TestLifeOfPods(t *testing.T) {
	for name, change := range map[string]func(*hub.Options){
		"default": nil, "improved": improved,
		"quic":  func(o *hub.Options) { improved(o); o.QUIC = true },
		"local": func(o *hub.Options) { improved(o); o.Store = hub.StoreLocal },
		"none":  func(o *hub.Options) { improved(o); o.Store = hub.StoreNone },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const edges, pods = 5, 20
			r := newRig(t)
			r.settings("info")
			r.hub(change)
			r.fleet(edges, func(o *fleet.Options) {
				if name == "quic" {
					o.Transport = fleet.TransportQUIC
				}
			})
			repotest.Eventually(t, "all edges join", func() bool { return len(r.server.Nodes()) == edges && len(r.server.Leases()) == edges })
			atOnce := pods
			if name == "default" { // of two answers that wait for an edge, KubeEdge's hub loses one
				atOnce = 1
			}
			for i := 0; i < pods; i += atOnce {
				r.pods(i, atOnce, edges)
				repotest.Eventually(t, "the pods so far run", func() bool { return r.running() == i+atOnce })
			}
			r.converged()
			r.settings("debug")
			r.converged()
			for i := range pods / 2 {
				name := fmt.Sprintf("/api/v1/namespaces/default/pods/p%d", i)
				apitest.Change(r.server, name, func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now; p.Finalizers = nil })
			}
			repotest.Eventually(t, "half of the pods go", func() bool { return len(r.server.Pods()) == pods/2 })
			r.converged()
			for _, n := range r.server.Nodes() {
				if _, ok := n.Labels[api.LabelEdge]; !ok || n.Labels[corev1.LabelArchStable] != "amd64" {
					t.Errorf("node %s has labels %v", n.Name, n.Labels)
				}
			}
		})
	}
}

// TestSyncNames holds what stands at the API server of what an edge has. What is written
// down of a node is a ClusterObjectSync and of a pod an ObjectSync: a real API server
// takes no other.
func TestSyncNames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.settings("info")
	r.hub(nil)
	r.fleet(1, nil)
	repotest.Eventually(t, "the edge joins", func() bool { return len(r.server.Nodes()) == 1 })
	r.pods(0, 1, 1)
	const path = "/apis/reliablesyncs.kubeedge.io/v1alpha1/"
	repotest.Eventually(t, "both are acknowledged", func() bool { return len(r.server.Objects(path+"objectsyncs")) == 2 && r.running() == 1 })
	names := r.server.Names(path + "objectsyncs")
	slices.Sort(names)
	if want := "default/edge-0.00000000-0000-4000-8000-000000000000 default/edge-0.11111111-0000-4000-8000-000000000000"; strings.Join(names, " ") != want {
		t.Errorf("ObjectSyncs %v, want %s", names, want)
	}
	apitest.Change(r.server, "/api/v1/nodes/edge-0", func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, "a", "b") })
	for plural, kind := range map[string]string{"objectsyncs": "ObjectSync", "clusterobjectsyncs": "ClusterObjectSync"} {
		repotest.Eventually(t, plural+" are made", func() bool { return len(r.server.Objects(path+plural)) > 0 })
		repotest.Equal(t, r.server.Objects(path + plural)[0].GetKind(), kind, "%s has the kind", plural)
	}
}

// TestSlowEdges holds that edges which read seldom have everything in the end, and lose no
// connection for it.
func TestSlowEdges(t *testing.T) {
	r := newRig(t)
	r.settings("info")
	r.hub(improved)
	registry := instrument.New("")
	r.fleet(3, func(o *fleet.Options) { o.ReadEvery, o.Registry = 150*time.Millisecond, registry })
	repotest.Eventually(t, "all edges join", func() bool { return len(r.server.Nodes()) == 3 && len(r.server.Leases()) == 3 })
	r.pods(0, 9, 3)
	repotest.Eventually(t, "all pods run", func() bool { return r.running() == 9 })
	r.converged()
	repotest.Equal(t, instrumenttest.Measured(t, registry, "edge_fleet_connections_ended_total").Value, 0, "connections ended")
}

// TestResumedHandshakes holds that an edge which comes again goes on with the TLS that it
// had, where it is to, and makes a whole handshake where not.
func TestResumedHandshakes(t *testing.T) {
	for _, words := range []string{fleet.TLSFull, fleet.TLSResume} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.settings("info")
			r.hub(func(o *hub.Options) { improved(o); o.Crypto = true })
			registry := instrument.New("")
			r.fleet(1, func(o *fleet.Options) { o.Crypto, o.TLS, o.Registry = true, words, registry })
			repotest.Eventually(t, "the edge joins", func() bool { return len(r.server.Nodes()) == 1 && len(r.server.Leases()) == 1 })
			r.server.Remove("/api/v1/nodes/edge-0") // which ends its session
			repotest.Eventually(t, "it comes again", func() bool {
				return instrumenttest.Measured(t, registry, "edge_fleet_dials_total", "result=ok").Value >= 2
			})
			if got := instrumenttest.Measured(t, registry, "edge_fleet_resumed_total").Value; (got > 0) != (words == fleet.TLSResume) {
				t.Errorf("%v connections were resumed", got)
			}
		})
	}
}

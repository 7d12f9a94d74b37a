package edge_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/internal/api/door"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/fleet"
	"github.com/windtunnel/windtunnel/planes/edge/internal/hub"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

const runID = "r1" // of the run in somebody else's cluster

func (r *rig) foreignHub(o *hub.Options) { door.Guard(o.Config, object.Stamp{Run: runID}) }

func (r *rig) foreignFleet(o *fleet.Options) { door.Guard(o.Config, object.Stamp{Run: runID}) }

// ended runs a process until it ends by itself.
func (r *rig) ended(f func(context.Context) error) error {
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	go func() { done <- f(ctx) }()
	var err error
	repotest.Eventually(r.t, "the process ends", func() bool {
		select {
		case err = <-done:
			return true
		default:
			return false
		}
	})
	return err
}

// TestEdgesInAClusterOfOthersAreMarked joins edges there: whatever the plane makes has the
// run's label, and the nodes keep off the pods of others.
func TestEdgesInAClusterOfOthersAreMarked(t *testing.T) {
	r := newRig(t)
	r.hub(r.foreignHub)
	r.fleet(2, r.foreignFleet)
	const lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/edge-1"
	repotest.Eventually(t, "the edges have nodes and leases", func() bool { return r.server.Get(lease) != nil })
	for _, path := range []string{
		"/api/v1/nodes/edge-0", "/api/v1/nodes/edge-1", lease, "/api/v1/namespaces/kubeedge/secrets/casecret", "/api/v1/namespaces/kubeedge/secrets/tokensecret",
		"/api/v1/namespaces/kubeedge/configmaps/edge-hubs",
	} {
		if o := r.server.Get(path); o == nil || o.GetLabels()[object.RunLabel] != runID {
			t.Errorf("%s is not marked: %v", path, o)
		}
	}
	var n corev1.Node
	repotest.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(r.server.Get("/api/v1/nodes/edge-0").Object, &n))
	if want := (corev1.Taint{Key: object.RunLabel, Value: runID, Effect: corev1.TaintEffectNoSchedule}); len(n.Spec.Taints) == 0 || n.Spec.Taints[0] != want {
		t.Errorf("the node has the taints %v", n.Spec.Taints)
	}
}

// TestHubLeavesWhatOthersMade finds objects of a KubeEdge that is somebody's: the hub
// neither uses nor replaces them, and says why it ends.
func TestHubLeavesWhatOthersMade(t *testing.T) {
	for _, path := range []string{"/api/v1/namespaces/kubeedge/secrets/casecret", "/api/v1/namespaces/kubeedge/secrets/tokensecret", "/api/v1/namespaces/kubeedge/configmaps/edge-hubs"} {
		t.Run(path, func(t *testing.T) {
			r := newRig(t)
			name := path[strings.LastIndex(path, "/")+1:]
			r.server.Add(path, map[string]any{"metadata": map[string]any{"name": name, "namespace": "kubeedge"}})
			before := r.server.Get(path)
			err := r.ended(func(ctx context.Context) error {
				o := r.hubOptions()
				r.foreignHub(&o)
				return hub.Run(ctx, o)
			})
			if err == nil || !strings.Contains(err.Error(), "kubeedge/"+name+" exists already and was not made by this run: it is left alone") {
				t.Errorf("the hub ends with %v", err)
			}
			if after := r.server.Get(path); after.GetResourceVersion() != before.GetResourceVersion() {
				t.Errorf("it was %v and is %v", before, after)
			}
		})
	}
}

// TestFleetLeavesTheNodesOfOthers finds a node of an edge's name, and a lease.
func TestFleetLeavesTheNodesOfOthers(t *testing.T) {
	for what, path := range map[string]string{"nodes edge-0": "/api/v1/nodes/edge-0", "leases kube-node-lease/edge-0": "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/edge-0"} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			r.server.Add(path, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "edge-0", Labels: map[string]string{"owner": "somebody-else"}}})
			before := r.server.Get(path)
			r.hub(r.foreignHub)
			err := r.ended(func(ctx context.Context) error {
				o := r.fleetOptions(1)
				o.Lease = o.Lease / 10 // the first renewal comes at a random moment of it
				r.foreignFleet(&o)
				return fleet.Run(ctx, o)
			})
			if want := what + " exists already and was not made by this run: it is left alone: --prefix gives the edges other names"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the fleet ends with %v, want %s", err, want)
			}
			if after := r.server.Get(path); after.GetResourceVersion() != before.GetResourceVersion() {
				t.Errorf("it was %v and is %v", before, after)
			}
		})
	}
}

// TestFleetSaysWhatItWaitsFor holds that a fleet without a hub logs what is missing: the token,
// and then the addresses, which --hub-addresses gives in place of the plane.
func TestFleetSaysWhatItWaitsFor(t *testing.T) {
	r, log := newRig(t), &planetest.Lines{}
	o := r.fleetOptions(1)
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- fleet.Run(ctx, o) }()
	repotest.Eventually(t, "the token is missing", func() bool { return log.Has("tokensecret") })
	r.server.Add("/api/v1/namespaces/kubeedge/secrets/tokensecret", map[string]any{"metadata": map[string]any{"name": "tokensecret", "namespace": "kubeedge"}, "data": map[string]any{"tokendata": "YQ=="}})
	repotest.Eventually(t, "the addresses are missing", func() bool { return log.Has("edge-hubs") })
	cancel()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "edge-hubs") {
		t.Errorf("the fleet ends with %v", err)
	}
}

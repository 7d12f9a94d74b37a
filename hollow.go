package windtunnel

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// HollowOptions say what a hollow cluster begins with and what goes on in it. The
// zero value is an empty cluster in which nothing happens by itself, but that a
// namespace is removed with what is in it, and an object with what belongs to it.
type HollowOptions struct {
	// Objects are files of objects that are there from the beginning, with their
	// status: CustomResourceDefinitions, manifests, what kubectl get -o yaml printed,
	// snapshots.
	Objects []string
	// Nodes is how many ready nodes there are from the beginning: node-000000 and so on.
	Nodes int
	// Binder binds pods to nodes in turn, in place of a scheduler.
	Binder bool
	// ServiceAccounts gives every namespace the service account default and the
	// certificate kube-root-ca.crt.
	ServiceAccounts bool
	// Stages are sets and files of what objects become by themselves, such as fast
	// for nodes and pods, and deployments.
	Stages []string
	// Heartbeats is how often the leases of nodes are renewed; 0: never.
	Heartbeats time.Duration
}

// HollowCluster is an API server in the test's own memory.
type HollowCluster struct {
	Config     *rest.Config // a user that may do everything; QPS is unset, so that client-go allows 5 requests/s
	Kubeconfig string       // the same as a file

	cluster *hollow.Cluster
}

// Hollow starts a cluster that ends with the test, within milliseconds. It has an
// address, and clients of any kind talk to it as to a real one; docs/how-to/hollow.md says
// what it has not. Unlike Fly it needs no program.
func Hollow(t testing.TB, o HollowOptions) *HollowCluster {
	t.Helper()
	s, err := hollow.New(hollow.Options{Models: hollow.Models{
		Nodes: o.Nodes, Binder: o.Binder, ServiceAccounts: o.ServiceAccounts, Stages: o.Stages, StagesDir: ".", Heartbeats: o.Heartbeats,
	}})
	if err != nil {
		t.Fatalf("windtunnel: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("windtunnel: %v", err)
		}
	})
	c, err := s.Cluster("hollow")
	if err != nil {
		t.Fatalf("windtunnel: %v", err)
	}
	h := &HollowCluster{Config: c.Endpoint().Config("windtunnel"), cluster: c}
	h.Config.QPS, h.Config.UserAgent = 0, "" // as a client has them that says nothing
	h.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := endpoint.WriteContexts(h.Kubeconfig, "hollow", map[string]endpoint.Endpoint{"hollow": c.Endpoint()}); err != nil {
		t.Fatalf("windtunnel: %v", err)
	}
	for _, path := range o.Objects {
		h.loadFile(t, path)
	}
	return h
}

func (h *HollowCluster) loadFile(t testing.TB, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatalf("windtunnel: %v", err)
	}
	defer f.Close()
	if _, err := h.cluster.Load(f); err != nil {
		t.Fatalf("windtunnel: %s: %v", path, err)
	}
}

// Forget makes the cluster forget the past: who watches must list again, as after a
// long interruption.
func (h *HollowCluster) Forget() { h.cluster.Compact() }

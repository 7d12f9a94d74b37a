package fleet_test

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
)

// bare is a node as somebody else makes it: a name and nothing else.
func bare(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func selector(t *testing.T, s string) labels.Selector {
	t.Helper()
	return repotest.Must(labels.Parse(s))(t)
}

// manage starts a fleet that keeps existing nodes alive.
func manage(t *testing.T, s *apitest.Server, m fleet.ManagedNodes) *fleet.Fleet {
	t.Helper()
	cfg := config(0)
	f, err := fleet.Start(t.Context(), cfg, fleet.Options{Endpoint: s.Endpoint(), Clock: clock.Start(), Seed: 1, Manage: &m, NodePort: 10250, Version: "v7"})
	repotest.NoError(t, err)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func running(s *apitest.Server) (out []string) {
	for _, p := range s.Pods() {
		if p.Status.Phase == corev1.PodRunning {
			out = append(out, p.Name)
		}
	}
	return out
}

func TestNodesOfOthersAreKeptAlive(t *testing.T) {
	s := apitest.New(t)
	s.AddNode(bare("old"))
	s.AddPod(apitest.Pod("on-old", "old"))
	s.AddPod(apitest.Pod("early", "new")) // bound before its node is known
	f := manage(t, s, fleet.ManagedNodes{All: true})
	repotest.Eventually(t, "old runs", func() bool { return fmt.Sprint(running(s)) == "[on-old]" && f.Stats().Schedulable == 1 })
	s.AddNode(bare("new"))
	repotest.Eventually(t, "new runs", func() bool { return len(running(s)) == 2 && len(s.Leases()) == 2 })
	n := s.Nodes()[0]
	if n.Status.DaemonEndpoints.KubeletEndpoint.Port != 10250 || n.Status.Allocatable.Pods().Value() != 110 ||
		n.Status.NodeInfo.KubeletVersion != "windtunnel-v7" || len(n.Status.Addresses) != 2 {
		t.Errorf("status %+v", n.Status)
	}
	if ip := s.Pods()[0].Status.HostIP; ip == "" || ip == s.Pods()[1].Status.HostIP {
		t.Errorf("host addresses %q and %q", ip, s.Pods()[1].Status.HostIP)
	}
	// Deleted under its pods and made again: another uid, a lease of its own.
	s.Remove(apitest.NodesPath + "/new")
	repotest.Eventually(t, "lost", func() bool { return f.Stats().Nodes == 1 && f.Stats().Lost == 1 })
	s.AddNode(bare("new"))
	repotest.Eventually(t, "back", func() bool { return f.Stats().Nodes == 2 && f.Stats().Schedulable == 2 })
}

func TestOnlyTheNodesThatAreMeant(t *testing.T) {
	labelled := func(name string, on map[string]string) *corev1.Node {
		n := bare(name)
		n.Labels, n.Annotations = on, on
		return n
	}
	for name, m := range map[string]fleet.ManagedNodes{
		"label":      {Labels: selector(t, "type=kwok")},
		"annotation": {Annotations: selector(t, "type=kwok")},
		"single":     {Single: "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			s := apitest.New(t)
			s.AddNode(labelled("mine", map[string]string{"type": "kwok"}))
			s.AddNode(labelled("real", map[string]string{"type": "metal"}))
			s.AddPod(apitest.Pod("a", "mine"))
			s.AddPod(apitest.Pod("b", "real"))
			f := manage(t, s, m)
			repotest.Eventually(t, "mine", func() bool { return f.Stats().Schedulable == 1 && len(running(s)) == 1 && len(s.Leases()) == 1 })
			s.AddPod(apitest.Pod("c", "mine")) // comes after b on the same watch
			repotest.Eventually(t, "c", func() bool { return len(running(s)) == 2 })
			if got := fmt.Sprint(running(s)); got != "[a c]" || len(s.Leases()) != 1 || s.Leases()[0].Name != "mine" {
				t.Errorf("running %s, lease of %s", got, s.Leases()[0].Name)
			}
		})
	}
	t.Run("taken away", func(t *testing.T) {
		s := apitest.New(t)
		s.AddNode(labelled("mine", map[string]string{"type": "kwok"}))
		f := manage(t, s, fleet.ManagedNodes{Annotations: selector(t, "type=kwok")})
		repotest.Eventually(t, "mine", func() bool { return f.Stats().Schedulable == 1 })
		apitest.Change(s, apitest.NodesPath+"/mine", func(n *corev1.Node) { n.Annotations = nil })
		repotest.Eventually(t, "let go", func() bool { return f.Stats().Nodes == 0 })
	})
	t.Run("disregarded", func(t *testing.T) {
		s := apitest.New(t)
		s.AddNode(bare("mine"))
		alone := apitest.Pod("alone", "mine")
		alone.Labels = map[string]string{"status": "custom"}
		s.AddPod(alone)
		s.AddPod(apitest.Pod("played", "mine"))
		manage(t, s, fleet.ManagedNodes{All: true, DisregardLabels: selector(t, "status=custom")})
		repotest.Eventually(t, "one", func() bool { return len(running(s)) == 1 })
		s.AddPod(apitest.Pod("played-later", "mine"))
		repotest.Eventually(t, "two", func() bool { return len(running(s)) == 2 })
		if got := fmt.Sprint(running(s)); got != "[played played-later]" {
			t.Errorf("running %s", got)
		}
	})
}

// TestShards: three instances share nodes and pods, none twice and none left out,
// though the server knows nothing of shards.
func TestShards(t *testing.T) {
	s := apitest.New(t)
	for i := range 30 {
		s.AddNode(bare(fmt.Sprintf("n%d", i)))
		s.AddPod(apitest.Pod(fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i)))
	}
	var fleets []*fleet.Fleet
	for i := range 3 {
		fleets = append(fleets, manage(t, s, fleet.ManagedNodes{All: true, Shard: i, Shards: 3}))
	}
	repotest.Eventually(t, "all run", func() bool { return len(running(s)) == 30 && len(s.Leases()) == 30 })
	nodes, pods := 0, 0
	for i, f := range fleets {
		st := f.Stats()
		nodes, pods = nodes+st.Nodes, pods+st.Pods
		if st.Nodes == 0 || st.Pods == 0 {
			t.Errorf("instance %d has %d nodes and %d pods", i, st.Nodes, st.Pods)
		}
	}
	if patches := s.Calls("PATCH pods/status"); nodes != 30 || pods != 30 || patches != 30 {
		t.Errorf("%d nodes, %d pods, %d patches", nodes, pods, patches)
	}
	for _, n := range s.Nodes() { // the ranges are those that the server would select by
		h := fnv.New64a()
		_, _ = h.Write([]byte(n.UID))
		want := int(h.Sum64() / (1<<63/3*2 + 1)) // thirds of 2^64
		held := -1
		for i, f := range fleets {
			if f.Manages(n.Name) {
				held = i
			}
		}
		if held != want {
			t.Errorf("node %s is with %d, its hash is in range %d", n.Name, held, want)
		}
	}
}

// TestNodeThatComesWhilePodsAreListed: a list of pods that is under way when a node comes
// may have shown its pods already, so that another list has to follow.
func TestNodeThatComesWhilePodsAreListed(t *testing.T) {
	s := apitest.New(t)
	s.AddNode(bare("old"))
	s.AddPod(apitest.Pod("a", "late")) // on the first page
	for i := range 1000 {
		s.AddPod(apitest.Pod(fmt.Sprintf("z%d", i), "elsewhere"))
	}
	f := manage(t, s, fleet.ManagedNodes{All: true})
	repotest.Eventually(t, "old", func() bool { return f.Stats().Schedulable == 1 })
	var held atomic.Bool
	s.Inject(func(r *http.Request) *apitest.Injection {
		if r.URL.Path == apitest.PodsPath && r.URL.Query().Get("continue") != "" && held.CompareAndSwap(false, true) {
			return &apitest.Injection{Delay: 3 * time.Second}
		}
		return nil
	})
	s.Compact()
	s.CutWatches()
	repotest.Eventually(t, "the second page is waited for", held.Load)
	s.AddNode(bare("late"))
	repotest.Eventually(t, "a runs", func() bool { return fmt.Sprint(running(s)) == "[a]" })
}

func TestManageIsOneWay(t *testing.T) {
	s := apitest.New(t)
	for want, m := range map[string]fleet.ManagedNodes{
		"not 0":                           {},
		"not 2":                           {All: true, Single: "x"},
		"shard 3 of 3: shards count from": {All: true, Shard: 3, Shards: 3},
	} {
		_, err := fleet.Start(t.Context(), config(0), fleet.Options{Endpoint: s.Endpoint(), Clock: clock.Start(), Manage: &m})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

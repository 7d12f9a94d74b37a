package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

func config(nodes int) scenario.Fleet {
	return scenario.Fleet{Nodes: nodes, Rate: 2000, Lease: unit.Duration(40 * time.Second), Within: unit.Duration(10 * time.Second)}
}

func start(t *testing.T, s *apitest.Server, cfg scenario.Fleet) *fleet.Fleet {
	t.Helper()
	f := repotest.Must(fleet.Start(t.Context(), cfg, fleet.Options{Endpoint: s.Endpoint(), Clock: clock.Start(), Seed: 1}))(t)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func ready(t *testing.T, f *fleet.Fleet) {
	t.Helper()
	repotest.NoError(t, f.Ready(t.Context()))
}

// taintFor makes nodes carry the taint not-ready for as long after their
// creation, as the controller-manager makes them wait.
func taintFor(s *apitest.Server, d time.Duration) {
	s.Admit(func(path string, o *apitest.Object) {
		if o.GetKind() != "Node" {
			return
		}
		taint := map[string]any{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
		_ = unstructured.SetNestedSlice(o.Object, []any{taint}, "spec", "taints")
		time.AfterFunc(d, func() { apitest.Change(s, path, func(n *corev1.Node) { n.Spec.Taints = nil }) })
	})
}

func TestNodesAreBornReady(t *testing.T) {
	s := apitest.New(t)
	taintFor(s, 100*time.Millisecond)
	cfg := config(20)
	cfg.Labels = map[string]string{"zone": "a"}
	cfg.Capacity = map[string]string{"cpu": "64", "example.com/gpu": "8"}
	watch := clock.Start()
	f := start(t, s, cfg)
	ready(t, f)
	if took := time.Duration(watch.Now()); took < 100*time.Millisecond {
		t.Errorf("ready after %v: nodes with a taint are not schedulable", took)
	}
	if n := s.Calls("PATCH nodes/status"); n != 0 {
		t.Errorf("%d patches for nodes that were born ready", n)
	}
	repotest.Eventually(t, "leases", func() bool { return f.Stats().Leases == 20 && len(s.Leases()) == 20 })
	nodes, leases := s.Nodes(), s.Leases()
	n := nodes[7]
	if n.Name != "node-000007" || n.Labels["kubernetes.io/hostname"] != n.Name || n.Labels["zone"] != "a" || n.Labels[object.FleetLabel] != "node" {
		t.Errorf("node %s: labels %v", n.Name, n.Labels)
	}
	if n.Status.NodeInfo.KubeletVersion != apitest.Version || n.Status.Capacity.Cpu().Value() != 64 || n.Status.Allocatable.Pods().Value() != 110 ||
		len(n.Status.Conditions) != 5 || len(n.Status.Addresses) != 2 || n.Status.Addresses[0].Address == nodes[8].Status.Addresses[0].Address {
		t.Errorf("status %+v", n.Status)
	}
	l := leases[7]
	if l.Namespace != "kube-node-lease" || *l.Spec.HolderIdentity != n.Name || *l.Spec.LeaseDurationSeconds != 40 || l.Spec.RenewTime.IsZero() {
		t.Errorf("lease %+v", l)
	}
	if o := l.OwnerReferences; len(o) != 1 || o[0].Kind != "Node" || o[0].UID != n.UID || o[0].APIVersion != "v1" || o[0].Name != n.Name {
		t.Errorf("owner of the lease: %+v", o)
	}
}

func TestLeasesAreRenewed(t *testing.T) {
	s := apitest.New(t)
	cfg := config(10)
	cfg.Lease = unit.Duration(2 * time.Second)
	f := start(t, s, cfg)
	ready(t, f)
	watch, before := clock.Start(), s.Calls("PUT leases")
	const rounds = 4
	repotest.Eventually(t, "renewals", func() bool { return s.Calls("PUT leases") >= before+10*rounds })
	if took := time.Duration(watch.Now()); took < (rounds-1)*400*time.Millisecond {
		t.Errorf("%d rounds of renewals within %v: a quarter of the lease is 500ms", rounds, took)
	}
	if n := s.Calls("GET leases"); n != 0 {
		t.Errorf("%d leases were read", n)
	}
	if late := f.Stats().LeaseLateness; late <= 0 {
		t.Errorf("lateness %v", late)
	}
}

// TestProofLeasesAreRenewedInTime has the machine to itself.
func TestProofLeasesAreRenewedInTime(t *testing.T) {
	repotest.Proof(t)
	s := apitest.New(t)
	cfg := config(10)
	cfg.Lease = unit.Duration(2 * time.Second)
	f := start(t, s, cfg)
	ready(t, f)
	watch := clock.Start()
	repotest.Eventually(t, "renewals", func() bool { return s.Calls("PUT leases") >= 40 })
	for _, l := range s.Leases() {
		if age := watch.Wall(watch.Now()).Sub(l.Spec.RenewTime.Time); age > 2*time.Second {
			t.Errorf("lease %s was renewed %v ago", l.Name, age)
		}
	}
	if late := f.Stats().LeaseLateness; late > 500*time.Millisecond {
		t.Errorf("lateness %v", late)
	}
}

func TestNoLeases(t *testing.T) {
	s := apitest.New(t)
	cfg := config(3)
	cfg.Lease = 0
	f := start(t, s, cfg)
	ready(t, f)
	if n := s.Calls("POST leases"); n != 0 {
		t.Errorf("%d leases", n)
	}
}

// TestLeaseConflict: somebody else wrote the lease; it is read once and renewed.
func TestLeaseConflict(t *testing.T) {
	s := apitest.New(t)
	var conflicts, missing atomic.Int32
	conflicts.Store(1)
	missing.Store(2)
	s.Inject(func(r *http.Request) *apitest.Injection {
		switch {
		case r.Method == http.MethodPost && strings.Contains(r.URL.Path, "leases") && missing.Add(-1) >= 0:
			return &apitest.Injection{Code: 404} // the namespace is not there yet
		case r.Method == http.MethodPut && conflicts.Add(-1) >= 0:
			return &apitest.Injection{Code: 409}
		}
		return nil
	})
	cfg := config(1)
	cfg.Lease = unit.Duration(time.Second)
	f := start(t, s, cfg)
	ready(t, f)
	repotest.Eventually(t, "renewals after the conflict", func() bool { return s.Calls("PUT leases") >= 4 })
	if n := s.Calls("GET leases"); n != 1 {
		t.Errorf("the lease was read %d times, want once", n)
	}
	if d := f.Stats().Dropped; d != 0 {
		t.Errorf("%d dropped", d)
	}
}

func TestPodsRunAndGo(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, config(4))
	ready(t, f)
	const pods = 200
	for i := range pods {
		s.AddPod(apitest.Pod(fmt.Sprintf("p-%03d", i), fmt.Sprintf("node-%06d", i%4)))
	}
	s.AddPod(apitest.Pod("foreign", "other-node"))
	s.AddPod(apitest.Pod("unbound", ""))
	repotest.Eventually(t, "pods running", func() bool { return f.Stats().Running == pods })
	ips := map[string]bool{}
	for _, p := range s.Pods() {
		if p.Spec.NodeName == "" || p.Name == "foreign" {
			if p.Status.Phase != corev1.PodPending {
				t.Errorf("%s is %s", p.Name, p.Status.Phase)
			}
			continue
		}
		if p.Status.Phase != corev1.PodRunning || p.Status.PodIP == "" || ips[p.Status.PodIP] || p.Status.HostIP == "" ||
			len(p.Status.ContainerStatuses) != 1 || !p.Status.ContainerStatuses[0].Ready || p.Status.StartTime == nil {
			t.Fatalf("%s: %+v", p.Name, p.Status)
		}
		ips[p.Status.PodIP] = true
	}
	if n := s.Calls("PATCH pods/status"); n != pods {
		t.Errorf("%d patches for %d pods", n, pods)
	}
	for i := range pods / 2 {
		s.EndPod("default", fmt.Sprintf("p-%03d", i))
	}
	repotest.Eventually(t, "pods gone", func() bool { return len(s.Pods()) == 2+pods/2 && f.Stats().Pods == pods/2 })
	st := f.Stats()
	if st.Running != pods/2 || st.Gone != pods/2 || st.Dropped != 0 || st.StageLag <= 0 {
		t.Errorf("%+v", st)
	}
	if n := s.Calls("DELETE pods"); n != pods/2 {
		t.Errorf("%d deletions for %d pods", n, pods/2)
	}
}

func TestJobPodsComplete(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, config(1))
	ready(t, f)
	const job = "/apis/batch/v1/namespaces/default/jobs/j"
	s.Add(job, batchv1.Job{})
	p := apitest.Pod("j", "node-000000")
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: s.Get(job).GetUID()}}
	s.AddPod(p)
	repotest.Eventually(t, "pod succeeded", func() bool { return s.Pods()[0].Status.Phase == corev1.PodSucceeded })
	if n := s.Calls("PATCH pods/status"); n != 2 {
		t.Errorf("%d patches, want one to run and one to complete", n)
	}
}

// TestPodsAndRefusals: whatever the server answers, every pod runs in the end.
func TestPodsAndRefusals(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, config(2))
	ready(t, f)
	var n atomic.Int32
	s.Inject(func(r *http.Request) *apitest.Injection {
		if r.Method != http.MethodPatch && r.Method != http.MethodDelete {
			return nil
		}
		switch n.Add(1) % 12 {
		case 0:
			return &apitest.Injection{Code: 429, RetryAfter: 0}
		case 1:
			return &apitest.Injection{Code: 500}
		case 2:
			return &apitest.Injection{Code: 409}
		case 3:
			return &apitest.Injection{Done: true} // done, but the answer is lost
		default:
			return nil
		}
	})
	const pods = 60
	for i := range pods {
		s.AddPod(apitest.Pod(fmt.Sprintf("p-%d", i), "node-000001"))
	}
	repotest.Eventually(t, "pods running", func() bool { return f.Stats().Running == pods })
	for i := range pods {
		s.EndPod("default", fmt.Sprintf("p-%d", i))
	}
	repotest.Eventually(t, "pods gone", func() bool { return len(s.Pods()) == 0 && f.Stats().Pods == 0 })
	if st := f.Stats(); st.Retries == 0 || st.Dropped != 0 {
		t.Errorf("%+v", st)
	}
}

// TestPodMadeAgain: a patch that comes too late, since another pod has the name
// already, is refused as a real API server does; the fleet has not given up.
func TestPodMadeAgain(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, config(1))
	ready(t, f)
	var patches, blind atomic.Int32
	s.Inject(func(r *http.Request) *apitest.Injection {
		switch {
		case r.Method == http.MethodGet && blind.Load() == 1:
			return &apitest.Injection{Code: 503} // the fleet does not see it before its patch was refused
		case r.Method != http.MethodPatch:
		case patches.Add(1) == 1:
			blind.Store(1)
			s.CutWatches()
			s.RemovePod("default", "p")
			s.AddPod(apitest.Pod("p", "node-000000"))
		default:
			blind.Store(0)
		}
		return nil
	})
	s.AddPod(apitest.Pod("p", "node-000000"))
	repotest.Eventually(t, "the second pod", func() bool {
		return f.Stats().Running == 1 && s.Pods()[0].Status.Phase == corev1.PodRunning && f.Stats().Gone == 1
	})
	if st := f.Stats(); st.Dropped != 0 {
		t.Errorf("%+v", st)
	}
}

func TestRetryAfter(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, config(1))
	ready(t, f)
	var first atomic.Bool
	s.Inject(func(r *http.Request) *apitest.Injection {
		if r.Method == http.MethodPatch && first.CompareAndSwap(false, true) {
			return &apitest.Injection{Code: 429, RetryAfter: 1}
		}
		return nil
	})
	watch := clock.Start()
	s.AddPod(apitest.Pod("p", "node-000000"))
	repotest.Eventually(t, "pod running", func() bool { return f.Stats().Running == 1 })
	if took := time.Duration(watch.Now()); took < time.Second {
		t.Errorf("tried again after %v though the server asked for 1s", took)
	}
}

// TestRefusedForGood: the object is left alone and counted.
func TestRefusedForGood(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, config(1))
	ready(t, f)
	s.Inject(func(r *http.Request) *apitest.Injection {
		if r.Method == http.MethodPatch {
			return &apitest.Injection{Code: 422}
		}
		return nil
	})
	s.AddPod(apitest.Pod("p", "node-000000"))
	repotest.Eventually(t, "counted", func() bool { return f.Stats().Dropped == 1 })
	s.Inject(nil)
	s.EndPod("default", "p")
	repotest.Eventually(t, "pod gone", func() bool { return f.Stats().Pods == 0 && len(s.Pods()) == 0 })
}

func TestWatchesBreak(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, config(2))
	ready(t, f)
	s.AddPod(apitest.Pod("stays", "node-000000"))
	s.AddPod(apitest.Pod("vanishes", "node-000001"))
	repotest.Eventually(t, "two pods", func() bool { return f.Stats().Running == 2 })

	s.CutWatches() // it goes on where it was
	s.AddPod(apitest.Pod("third", "node-000001"))
	repotest.Eventually(t, "the third pod", func() bool { return f.Stats().Running == 3 })
	if f.Stats().Relists != 0 {
		t.Error("a cut watch was listed anew")
	}

	// What happens while no watch sees it, and is forgotten by the server, shows
	// in the list only.
	s.CutWatches()
	s.RemovePod("default", "vanishes")
	s.AddPod(apitest.Pod("fourth", "node-000000"))
	s.Compact()
	repotest.Eventually(t, "the fourth pod", func() bool {
		st := f.Stats()
		return st.Running == 3 && st.Pods == 3 && st.Gone == 1
	})
	for _, p := range s.Pods() {
		if p.Status.Phase != corev1.PodRunning {
			t.Errorf("%s is %s", p.Name, p.Status.Phase)
		}
	}
	if f.Stats().Lost != 0 {
		t.Error("nodes were taken for lost")
	}
}

// TestOneLineForEachOutage: a server that is away refuses each attempt to watch again,
// and is told of once; when it was back and goes again, once more.
func TestOneLineForEachOutage(t *testing.T) {
	s := apitest.New(t)
	lines := &lineCount{of: "watch interrupted"}
	f, err := fleet.Start(t.Context(), config(1), fleet.Options{Endpoint: s.Endpoint(), Clock: clock.Start(), Seed: 1, Log: slog.New(lines)})
	repotest.NoError(t, err)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	ready(t, f)
	s.AddPod(apitest.Pod("first", "node-000000"))
	repotest.Eventually(t, "it runs", func() bool { return f.Stats().Running == 1 })
	for outage := int64(1); outage <= 2; outage++ {
		var refused atomic.Int64
		s.Inject(func(r *http.Request) *apitest.Injection {
			if r.URL.Query().Get("watch") == "" || !strings.HasSuffix(r.URL.Path, "/pods") {
				return nil
			}
			refused.Add(1)
			return &apitest.Injection{Code: http.StatusServiceUnavailable}
		})
		s.CutWatches()
		repotest.Eventually(t, "several attempts", func() bool { return refused.Load() >= 3 })
		s.Inject(nil)
		s.AddPod(apitest.Pod(fmt.Sprint("after", outage), "node-000000"))
		repotest.Eventually(t, "it runs", func() bool { return f.Stats().Running == int(outage)+1 })
		if got := lines.pods.Load(); got != outage {
			t.Errorf("%d lines about the watch of pods after %d outages", got, outage)
		}
	}
}

// lineCount counts the lines of a log that are about the resource pods.
type lineCount struct {
	of   string
	pods atomic.Int64
}

func (l *lineCount) Enabled(context.Context, slog.Level) bool { return true }
func (l *lineCount) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lineCount) WithGroup(string) slog.Handler            { return l }

func (l *lineCount) Handle(_ context.Context, r slog.Record) error {
	if r.Message == l.of {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "resource" && a.Value.String() == "pods" {
				l.pods.Add(1)
			}
			return true
		})
	}
	return nil
}

// TestBusyServerEndsWatches: a server under load ends watches that work, and what
// they would have shown is not waited for.
func TestBusyServerEndsWatches(t *testing.T) {
	const times = 9 // with a pause that doubles, 25 s
	s := apitest.New(t)
	f := start(t, s, config(1))
	ready(t, f)
	began := time.Now()
	for i := range times {
		s.AddPod(apitest.Pod(fmt.Sprint("p", i), "node-000000"))
		repotest.Eventually(t, "it runs", func() bool { return f.Stats().Running == i+1 })
		s.CutWatches()
	}
	if took := time.Since(began); took > 12*time.Second {
		t.Errorf("%d pods took %v with a watch each", times, took)
	}
}

func TestNodeTurnsNotReady(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, config(2))
	ready(t, f)
	apitest.Change(s, apitest.NodesPath+"/node-000001", func(n *corev1.Node) {
		for i := range n.Status.Conditions {
			n.Status.Conditions[i].Status = corev1.ConditionUnknown
		}
	})
	repotest.Eventually(t, "node ready again", func() bool {
		for _, c := range s.Nodes()[1].Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return f.Stats().Schedulable == 2
			}
		}
		return false
	})
	apitest.Change(s, apitest.NodesPath+"/node-000000", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	repotest.Eventually(t, "a cordoned node counted", func() bool { return f.Stats().Schedulable == 1 })
	s.Remove(apitest.NodesPath + "/node-000000")
	repotest.Eventually(t, "a lost node counted", func() bool { return f.Stats().Lost == 1 })
}

func TestForeignNode(t *testing.T) {
	s := apitest.New(t)
	s.AddNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-000001"}})
	f := start(t, s, config(3))
	err := f.Ready(t.Context())
	if !errors.Is(err, fleet.ErrForeign) || !strings.Contains(err.Error(), "node-000001") {
		t.Errorf("got %v", err)
	}
	if err := f.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	if nodes := s.Nodes(); len(nodes) != 1 || nodes[0].Name != "node-000001" {
		t.Errorf("Delete left %d nodes", len(nodes))
	}
}

// TestLostAnswers: nodes whose POST was done but not answered are not made twice.
func TestLostAnswers(t *testing.T) {
	s := apitest.New(t)
	var n atomic.Int32
	s.Inject(func(r *http.Request) *apitest.Injection {
		if r.Method == http.MethodPost && r.URL.Path == "/api/v1/nodes" && n.Add(1)%3 == 0 {
			return &apitest.Injection{Done: true}
		}
		return nil
	})
	f := start(t, s, config(9))
	ready(t, f)
	repotest.Eventually(t, "leases", func() bool { return len(s.Leases()) == 9 })
	owners := map[string]bool{}
	for _, l := range s.Leases() {
		owners[string(l.OwnerReferences[0].UID)] = true
	}
	for _, n := range s.Nodes() {
		if !owners[string(n.UID)] {
			t.Errorf("no lease is owned by %s", n.Name)
		}
	}
}

func TestAdoptAndDelete(t *testing.T) {
	s := apitest.New(t)
	first := start(t, s, config(5))
	ready(t, first)
	s.AddPod(apitest.Pod("p", "node-000002"))
	repotest.Eventually(t, "a pod", func() bool { return first.Stats().Running == 1 })
	repotest.NoError(t, first.Close())
	made := s.Calls("POST nodes")
	second := start(t, s, config(6))
	ready(t, second)
	if n := s.Calls("POST nodes") - made; n != 1 {
		t.Errorf("%d nodes were made though 5 of 6 existed", n)
	}
	repotest.Eventually(t, "adopted leases and pods", func() bool { st := second.Stats(); return st.Leases == 6 && st.Running == 1 })
	repotest.NoError(t, second.Delete(t.Context()))
	if n := len(s.Nodes()); n != 0 {
		t.Errorf("%d nodes are left", n)
	}
	if err := second.Delete(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestDeleteWhileCreating(t *testing.T) {
	s := apitest.New(t)
	cfg := config(500)
	cfg.Rate = 1000
	f := start(t, s, cfg)
	repotest.Eventually(t, "some nodes", func() bool { return f.Stats().Created > 50 })
	repotest.NoError(t, f.Delete(t.Context()))
	if n := len(s.Nodes()); n != 0 {
		t.Errorf("%d nodes are left", n)
	}
}

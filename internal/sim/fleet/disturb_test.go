package fleet_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// lively is a fleet whose leases are renewed every 250 ms.
func lively(nodes int) scenario.Fleet {
	cfg := config(nodes)
	cfg.Lease = unit.Duration(time.Second)
	cfg.Spread = map[string]int{"topology.kubernetes.io/zone": 2}
	return cfg
}

func disturb(t *testing.T, f *fleet.Fleet, d scenario.Disturbance) func() {
	t.Helper()
	end := repotest.Must(f.Disturb(t.Context(), d))(t)
	return func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

// notReady names the nodes that say that they are not ready.
func notReady(s *apitest.Server) (out []string) {
	for _, n := range s.Nodes() {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				out = append(out, n.Name)
			}
		}
	}
	return out
}

// renewals returns when each lease was last renewed.
func renewals(s *apitest.Server) map[string]time.Time {
	out := map[string]time.Time{}
	for _, l := range s.Leases() {
		out[l.Name] = l.Spec.RenewTime.Time
	}
	return out
}

func TestNodesNotReady(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, lively(4))
	ready(t, f)
	undo := disturb(t, f, scenario.Disturbance{Action: fleet.NotReady, Nodes: &scenario.Victims{Selector: "topology.kubernetes.io/zone=zone-1"}})
	repotest.Eventually(t, "zone-1", func() bool { return fmt.Sprint(notReady(s)) == "[node-000001 node-000003]" })
	before := renewals(s)
	repotest.Eventually(t, "renewals go on", func() bool { return renewals(s)["node-000001"].After(before["node-000001"]) })
	if _, err := f.Disturb(t.Context(), scenario.Disturbance{Action: fleet.Slow, Nodes: &scenario.Victims{Selector: "topology.kubernetes.io/zone=zone-1"}}); !errors.Is(err, fleet.ErrVictims) {
		t.Errorf("twice: %v", err)
	}
	undo()
	undo()
	repotest.Eventually(t, "well", func() bool { return len(notReady(s)) == 0 && f.Stats().Schedulable == 4 })
}

func TestSilentNodes(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, lively(4))
	ready(t, f)
	repotest.Eventually(t, "leases", func() bool { return len(s.Leases()) == 4 })
	silentAt := time.Now()
	undo := disturb(t, f, scenario.Disturbance{Action: fleet.Silent, Nodes: &scenario.Victims{Count: 2}})
	// Each silent node has kept a renewal back: what was under way has ended.
	repotest.Eventually(t, "withheld", func() bool { return f.Stats().Withheld >= 4 })
	before, withheld := renewals(s), f.Stats().Withheld
	boundAt := time.Now()
	for i := range 4 {
		s.AddPod(apitest.Pod(fmt.Sprintf("p%d", i), fmt.Sprintf("node-00000%d", i)))
	}
	s.AddPod(apitest.Pod("short", "node-000000"))
	s.AddPod(apitest.Pod("short", "node-000001"))
	repotest.Eventually(t, "the others go on", func() bool {
		renewed := 0
		for name, at := range renewals(s) {
			if at.After(before[name]) {
				renewed++
			}
		}
		return renewed >= 2 && len(running(s)) >= 2 && f.Stats().Withheld >= withheld+4
	})
	after := renewals(s)
	silent := 0
	for name := range before {
		if after[name].Equal(before[name]) {
			silent++
		}
	}
	if n := len(running(s)); silent != 2 || n < 2 || n > 4 || f.Stats().Withheld == 0 {
		t.Errorf("%d nodes are silent, %d pods run, %d renewals withheld", silent, n, f.Stats().Withheld)
	}
	if late, silence := f.Stats().LeaseLateness, time.Since(silentAt); late >= silence {
		t.Errorf("a silent node counts as a late fleet: %v of %v", late, silence)
	}
	s.RemovePod("default", "short") // while its stage is withheld, for one of them
	held := time.Since(boundAt)
	undo()
	repotest.Eventually(t, "all run", func() bool { return len(running(s)) == 4 })
	if lag := f.Stats().StageLag; lag >= held {
		t.Errorf("what was withheld for %v counts as late: %v", held, lag)
	}
	repotest.Eventually(t, "all renew", func() bool {
		for name, at := range renewals(s) {
			if !at.After(after[name]) {
				return false
			}
		}
		return true
	})
}

func TestFlappingSlowAndSkewed(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, lively(6))
	ready(t, f)
	undo := disturb(t, f, scenario.Disturbance{
		Action: fleet.Flap, Nodes: &scenario.Victims{Percent: 50},
		Between: unit.Duration(50 * time.Millisecond), Down: unit.Duration(50 * time.Millisecond),
	})
	seen := map[string]bool{}
	repotest.Eventually(t, "three flap", func() bool {
		for _, n := range notReady(s) {
			seen[n] = true
		}
		return len(seen) == 3 && s.Calls("PATCH nodes/status") > 20
	})
	undo()
	repotest.Eventually(t, "well", func() bool { return len(notReady(s)) == 0 })
	const delay = 2 * time.Second // longer than a busy machine holds the fleet up
	slow := disturb(t, f, scenario.Disturbance{Action: fleet.Slow, Delay: unit.Duration(delay), Nodes: &scenario.Victims{}})
	begin := time.Now()
	s.AddPod(apitest.Pod("late", "node-000003"))
	repotest.Eventually(t, "late", func() bool { return len(running(s)) == 1 })
	if took := time.Since(begin); took < delay {
		t.Errorf("a slow node's pod ran after %v", took)
	}
	if f.Stats().SendLag >= delay {
		t.Errorf("a slow node counts as a late fleet: %v", f.Stats().SendLag)
	}
	slow()
	disturb(t, f, scenario.Disturbance{Action: fleet.Skew, Delay: unit.Duration(-time.Hour), Nodes: &scenario.Victims{Count: 1}})
	repotest.Eventually(t, "one clock is wrong", func() bool {
		n := 0
		for _, at := range renewals(s) {
			if time.Since(at) > 59*time.Minute {
				n++
			}
		}
		return n == 1
	})
}

func TestMassReconnect(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, lively(3))
	ready(t, f)
	watches := s.Calls("WATCH pods")
	disturb(t, f, scenario.Disturbance{Action: fleet.Reconnect, Nodes: &scenario.Victims{}})
	repotest.Eventually(t, "watched again", func() bool { return s.Calls("WATCH pods") > watches })
	s.AddPod(apitest.Pod("p", "node-000001"))
	repotest.Eventually(t, "goes on", func() bool { return len(running(s)) == 1 })
	if n := s.Calls("GET pods"); n != 1 {
		t.Errorf("%d lists: a watch that was cut goes on where it was", n)
	}
}

func TestPodsFailAndCrash(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, lively(2))
	ready(t, f)
	for i := range 10 {
		s.AddPod(apitest.Pod(fmt.Sprintf("p%d", i), "node-000001"))
	}
	if _, err := f.Disturb(t.Context(), scenario.Disturbance{Action: fleet.Crash, Pods: &scenario.Victims{Selector: "app=none"}}); !errors.Is(err, fleet.ErrVictims) {
		t.Errorf("nothing to crash: %v", err)
	}
	repotest.Eventually(t, "run", func() bool { return len(running(s)) == 10 })
	undo := disturb(t, f, scenario.Disturbance{Action: fleet.Fail, Pods: &scenario.Victims{Percent: 30}})
	undo()
	if n := 10 - len(running(s)); n != 3 {
		t.Errorf("%d pods failed, want 3", n)
	}
	undo = disturb(t, f, scenario.Disturbance{
		Action: fleet.Crash, Pods: &scenario.Victims{}, Between: unit.Duration(20 * time.Millisecond), Down: unit.Duration(30 * time.Millisecond),
	})
	restarts := func() (n int32) {
		for _, p := range s.Pods() {
			for _, c := range p.Status.ContainerStatuses {
				n += c.RestartCount
			}
		}
		return n
	}
	repotest.Eventually(t, "restarts", func() bool { return restarts() >= 10 })
	undo()
	for _, p := range s.Pods() {
		if p.Status.Phase == corev1.PodRunning && !p.Status.ContainerStatuses[0].Ready {
			t.Errorf("pod %s did not come back", p.Name)
		}
	}
}

// TestDisturbancesThatDidNotHappen ask for more than there is, or for what has no time to
// come, or for what the server refuses: their end says it.
func TestDisturbancesThatDidNotHappen(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, lively(2))
	ready(t, f)
	s.AddPod(apitest.Pod("p", "node-000001"))
	repotest.Eventually(t, "run", func() bool { return len(running(s)) == 1 })
	long := unit.Duration(1000 * time.Hour)
	for want, d := range map[string]scenario.Disturbance{
		"notready: nothing to disturb: of 3 nodes that were asked for, 2 matched and were well": {Action: fleet.NotReady, Nodes: &scenario.Victims{Count: 3}},
		"flap: nothing to disturb: no node went down; between is 1000h":                         {Action: fleet.Flap, Nodes: &scenario.Victims{}, Between: long, Down: long},
		"crash: nothing to disturb: of 2 pods that were asked for, 1 matched and ran":           {Action: fleet.Crash, Pods: &scenario.Victims{Count: 2}},
		"fail: nothing to disturb: no pod was hit; between is 1000h":                            {Action: fleet.Fail, Pods: &scenario.Victims{}, Between: long},
		"fail: nothing to disturb: 1 of 1 pods were not changed: status 403":                    {Action: fleet.Fail, Pods: &scenario.Victims{}},
	} {
		s.Inject(func(r *http.Request) *apitest.Injection {
			if strings.Contains(want, "403") && r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/pods/p/status") {
				return &apitest.Injection{Code: http.StatusForbidden}
			}
			return nil
		})
		undo := repotest.Must(f.Disturb(t.Context(), d))(t)
		if err := undo(); !errors.Is(err, fleet.ErrVictims) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if d.Action == fleet.Crash {
			repotest.Eventually(t, "run again", func() bool { return len(running(s)) == 1 })
		}
	}
}

func TestDisturbancesThatCannotBe(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, lively(1))
	ready(t, f)
	for want, d := range map[string]scenario.Disturbance{
		`"explode" is no way to disturb nodes`: {Action: "explode", Nodes: &scenario.Victims{}},
		`"explode" is no way to disturb pods`:  {Action: "explode", Pods: &scenario.Victims{}},
		"neither nodes nor pods":               {Action: "slow"},
	} {
		if _, err := f.Disturb(t.Context(), d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}

// TestStagesOfAnyKind: what the typed way does not know is played by a
// player, on the same nodes, with their addresses.
func TestStagesOfAnyKind(t *testing.T) {
	set := repotest.Must(builtin.Load("general"))(t)
	m := repotest.Must(machine.Compile(set.Stages))(t)
	s := apitest.New(t)
	f, err := fleet.Start(t.Context(), config(2), fleet.Options{Endpoint: s.Endpoint(), Clock: clock.Start(), Seed: 1, Stages: m, Version: "test"})
	repotest.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	ready(t, f)
	s.AddPod(apitest.Pod("p", "node-000001"))
	s.AddPod(apitest.Pod("foreign", "elsewhere"))
	repotest.Eventually(t, "runs", func() bool { return len(running(s)) == 1 })
	repotest.Eventually(t, "ready", func() bool {
		for _, c := range s.Pods()[1].Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	})
	p := s.Pods()[1]
	if p.Status.HostIP != s.Nodes()[1].Status.Addresses[0].Address || !strings.HasPrefix(p.Status.PodIP, "10.64.") {
		t.Errorf("host %s, pod %s", p.Status.HostIP, p.Status.PodIP)
	}
	s.EndPod("default", "p")
	repotest.Eventually(t, "gone", func() bool { return len(s.Pods()) == 1 })
}

// TestPodsAreReadyAgain: what the node lifecycle controller does to the pods of a
// node that it does not hear of, a kubelet undoes when it is back, whoever plays
// its stages.
func TestPodsAreReadyAgain(t *testing.T) {
	const own = `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: own-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .status.phase, operator: NotIn, values: [Running]}
  next:
%s    statusTemplate: |
      phase: Running
      conditions:
      - {type: Ready, status: "True"}
`
	for name, c := range map[string]struct{ set, traffic, stage string }{
		"fast": {set: "fast"}, "fast, as kubelets": {set: "fast", traffic: fleet.KubeletTraffic}, "general": {set: "general"},
		"own":                 {stage: fmt.Sprintf(own, "")},
		"own, played on JSON": {stage: fmt.Sprintf(own, "    event: {type: Normal, reason: Created, message: created}\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := startStages(t, c.set, c.stage, c.traffic)
			s.AddPod(apitest.Pod("p", "node-000001"))
			repotest.Eventually(t, "ready", func() bool { return podReady(s, "p") == corev1.ConditionTrue })
			unready := func() {
				apitest.Change(s, "/api/v1/namespaces/default/pods/p", func(p *corev1.Pod) {
					for i := range p.Status.Conditions {
						if p.Status.Conditions[i].Type == corev1.PodReady {
							p.Status.Conditions[i].Status = corev1.ConditionFalse
						}
					}
				})
			}
			undo := disturb(t, f, scenario.Disturbance{Action: fleet.Silent, Nodes: &scenario.Victims{}})
			unready()
			undo()
			repotest.Eventually(t, "ready again", func() bool { return podReady(s, "p") == corev1.ConditionTrue })
		})
	}
}

// TestPodsOfBeforeAreReadyAgain: a fleet that starts again finds pods that were taken
// for lost meanwhile, as a kubelet that was restarted does.
func TestPodsOfBeforeAreReadyAgain(t *testing.T) {
	for _, set := range []string{"fast", "general"} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			pod := func(name string, ready, containers corev1.ConditionStatus, reason string) *corev1.Pod {
				p := apitest.Pod(name, "node-000001")
				p.Status.Phase, p.Status.PodIP, p.Status.HostIP = corev1.PodRunning, "10.64.0.9", "10.0.0.1"
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: ready, Reason: reason}, {Type: corev1.ContainersReady, Status: containers}}
				return p
			}
			f, s := startStages(t, set, "", "")
			s.AddPod(pod("lost", corev1.ConditionFalse, corev1.ConditionTrue, ""))
			repotest.Eventually(t, "ready again", func() bool { return podReady(s, "lost") == corev1.ConditionTrue })
			if f.Stats().Dropped != 0 {
				t.Errorf("%+v", f.Stats())
			}
		})
	}
}

// startStages starts a fleet of two nodes with a built-in set of stages and one more.
func startStages(t *testing.T, set, stage, traffic string) (*fleet.Fleet, *apitest.Server) {
	t.Helper()
	var stages []*kwok.Stage
	if stage != "" {
		file := repotest.Must(kwok.Load("own.yaml", []byte(stage)))(t)
		node := repotest.Must(builtin.Load("fast"))(t)
		for _, s := range node.Stages {
			if s.Spec.ResourceRef.Kind == "Node" {
				stages = append(stages, s)
			}
		}
		stages = append(stages, file.Stages...)
	} else {
		file := repotest.Must(builtin.Load(set))(t)
		stages = file.Stages
	}
	m := repotest.Must(machine.Compile(stages))(t)
	s := apitest.New(t)
	cfg := config(2)
	cfg.Traffic = traffic
	f, err := fleet.Start(t.Context(), cfg, fleet.Options{Endpoint: s.Endpoint(), Clock: clock.Start(), Seed: 1, Stages: m, Version: "test"})
	repotest.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	ready(t, f)
	return f, s
}

// podReady is the status of a pod's condition Ready; empty without one.
func podReady(s *apitest.Server, name string) corev1.ConditionStatus {
	for _, p := range s.Pods() {
		for _, c := range p.Status.Conditions {
			if p.Name == name && c.Type == corev1.PodReady {
				return c.Status
			}
		}
	}
	return ""
}

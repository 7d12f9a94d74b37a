package vm_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
	"github.com/windtunnel/windtunnel/planes/vm"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestMain(m *testing.M) { planetest.Main(m, vm.Verbs) }

// realRig is a real plane with a fleet of two nodes and the VM plane's kinds.
func realRig(t *testing.T) (c *api.Client, kubeconfig string) {
	t.Helper()
	p := repotest.Must(plane.Start(t.Context(), scenario.Plane{}, plane.Options{LogDir: t.TempDir(), Executable: repotest.Binary(t)}))(t)
	t.Cleanup(func() { _ = p.Close() })
	startFleet(t, p)
	config := p.Endpoint("admin").Config("vm-test")
	repotest.NoError(t, api.Install(t.Context(), config, false))
	config.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	return repotest.Must(api.NewClient(config, api.Scheme()))(t), planetest.WriteKubeconfig(t, p.Endpoint("admin"))
}

func startFleet(t *testing.T, p *plane.Plane) {
	t.Helper()
	file := repotest.Must(builtin.Sets([]string{"stages.yaml"}, repotest.Path(t, "examples", "vm")))(t)
	stages := repotest.Must(machine.Compile(file.Stages))(t)
	f := repotest.Must(fleet.Start(t.Context(), scenario.Fleet{Nodes: 2, Lease: unit.Duration(40 * time.Second)}, fleet.Options{
		Endpoint: p.Endpoint("fleet"), Clock: clock.Start(), Seed: 1, Stages: stages,
	}))(t)
	t.Cleanup(func() { _ = f.Close() })
	repotest.NoError(t, f.Ready(t.Context()))
}

// made counts the launcher pods that were ever created, by instance.
func made(t *testing.T, c *api.Client) func() map[string]int {
	t.Helper()
	pods := c.Core.Pods("")
	list := repotest.Must(pods.List(t.Context(), metav1.ListOptions{LabelSelector: api.LabelApp}))(t)
	// An API server ends the watch of a client that is slow, as it is on a busy machine: it goes on
	// where it ended.
	w := repotest.Must(watch.NewRetryWatcherWithContext(t.Context(), list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector = api.LabelApp
			return pods.Watch(ctx, o)
		},
	}))(t)
	var mu sync.Mutex
	counts := map[string]int{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok && e.Type == "ADDED" {
				mu.Lock()
				counts[pod.Labels[api.LabelCreatedBy]]++
				mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { w.Stop(); <-done })
	return func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(counts)
	}
}

// instances counts those that are in a phase, or with "" all that there are.
func instances(ctx context.Context, c *api.Client, names int, phase api.Phase) (n int) {
	for i := range names {
		vmi, err := c.Instances.Get(ctx, "default", fmt.Sprintf("vm-%d", i))
		if err == nil && (phase == "" || vmi.Status.Phase == phase) {
			n++
		}
	}
	return n
}

func TestRealPlaneSurvivesKills(t *testing.T) {
	c, kubeconfig := realRig(t)
	const count = 30
	processes := map[string]*planetest.Process{}
	start := func(verb string) {
		args := map[string][]string{
			"vm-controller": {"--limiter=50/100", "--leader-election=none"}, // it is killed too often to wait for its lease
			"vm-agent":      {"--limiter=50/100", "--max-devices=110", "--start=300ms", "--guest=200ms", "--stop=200ms"},
		}[verb]
		processes[verb] = planetest.Spawn(t, append([]string{verb, "--kubeconfig=" + kubeconfig}, args...)...)
	}
	for _, verb := range []string{"vm-webhook", "vm-controller", "vm-agent"} {
		start(verb)
	}
	counts := made(t, c)
	yes := true
	for i := range count {
		vm := &api.Machine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("vm-%d", i), Namespace: "default"}, Spec: api.MachineSpec{Running: &yes}}
		repotest.Must(c.Machines.Create(t.Context(), vm))(t)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	kill := func(times int) {
		for range times {
			verb := []string{"vm-controller", "vm-agent"}[rng.IntN(2)]
			time.Sleep(time.Duration(200+rng.IntN(1200)) * time.Millisecond)
			_ = processes[verb].Kill()
			start(verb)
		}
	}
	kill(8)
	repotest.Eventually(t, "all run", func() bool { return instances(t.Context(), c, count, api.Running) == count })
	// The watch may show the last pods after the list does.
	repotest.Eventually(t, "the watch shows a pod of each instance", func() bool { return len(counts()) == count })
	for uid, n := range counts() {
		if n != 1 {
			t.Errorf("instance %s had %d launcher pods", uid, n)
		}
	}
	machines := func() []*api.Machine {
		return repotest.Must(c.Machines.List(t.Context(), "default", ""))(t)
	}
	for _, vm := range machines() {
		repotest.NoError(t, c.Machines.Delete(t.Context(), vm))
	}
	kill(5)
	repotest.Eventually(t, "nothing is left", func() bool {
		pods, err := c.Core.Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: api.LabelApp})
		return err == nil && len(pods.Items) == 0 && len(machines()) == 0 && instances(t.Context(), c, count, "") == 0
	})
}

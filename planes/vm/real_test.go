package vm_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/vm/internal/agent"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/planes/vm/internal/controller"
	"github.com/windtunnel/windtunnel/planes/vm/internal/webhook"
	"github.com/windtunnel/windtunnel/scenario"
)

// roleVariable makes this test binary one of the plane's processes, so that it
// can be killed as a process is.
const roleVariable = "WINDTUNNEL_VM_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
		defer stop()
		if err := play(ctx, role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// play is what a process of the plane does.
func play(ctx context.Context, role string) error {
	ep, err := endpoint.FromKubeconfig(os.Getenv("KUBECONFIG"), "")
	if err != nil {
		return err
	}
	config, registry, c := ep.Config("vm-test"), instrument.New("kubevirt"), clock.Start()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	env, rate := process.Env{Config: config, Registry: registry, Clock: c, Log: log}, limiter.Rate{QPS: 50, Burst: 100}
	switch role {
	case "webhook":
		o := webhook.Default()
		o.Env = env
		return webhook.Run(ctx, o)
	case "agent":
		o := agent.Default()
		o.Env, o.Limiter, o.MaxDevices = env, rate, 110
		o.Model.Start, o.Model.Guest, o.Model.Stop = 300*time.Millisecond, 200*time.Millisecond, 200*time.Millisecond
		return agent.Run(ctx, o)
	}
	o := controller.Default()
	o.Env, o.Limiter, o.Election = env, rate, controller.ElectionNone // it is killed too often to wait for its lease
	return controller.Run(ctx, o)
}

// killed is one of the plane's processes, which a test kills.
type killed struct {
	t    *testing.T
	role string
	env  []string
	cmd  *exec.Cmd
}

func (p *killed) start() {
	p.t.Helper()
	self := repotest.Must(os.Executable())(p.t)
	p.cmd = exec.Command(self)
	p.cmd.Env = append(os.Environ(), append(p.env, roleVariable+"="+p.role)...)
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	repotest.NoError(p.t, p.cmd.Start())
}

func (p *killed) end(s os.Signal) {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s)
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// realRig is a real plane with a fleet of two nodes and the VM plane's kinds.
func realRig(t *testing.T) (*api.Client, []string) {
	t.Helper()
	path := repotest.Binary(t)
	p := repotest.Must(plane.Start(t.Context(), scenario.Plane{}, plane.Options{LogDir: t.TempDir(), Executable: path}))(t)
	t.Cleanup(func() { _ = p.Close() })
	startFleet(t, p)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	repotest.NoError(t, p.Endpoint("admin").WriteKubeconfig(file))
	config := p.Endpoint("admin").Config("vm-test")
	repotest.NoError(t, api.Install(t.Context(), config, false))
	config.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	client := repotest.Must(api.NewClient(config, api.Scheme()))(t)
	return client, []string{"KUBECONFIG=" + file}
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
		out := map[string]int{}
		for k, v := range counts {
			out[k] = v
		}
		return out
	}
}

func waitFor(t *testing.T, what string, within time.Duration, ok func() (string, error)) {
	t.Helper()
	errWait := errors.New("not yet")
	for begin := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		state, err := ok()
		if err == nil && state == "" {
			return
		}
		if time.Since(begin) > within {
			t.Fatalf("not within %v: %s: %s %v", within, what, state, errors.Join(errWait, err))
		}
	}
}

func instances(ctx context.Context, c *api.Client, names int, phase api.Phase) (int, error) {
	n := 0
	for i := range names {
		vmi, err := c.Instances.Get(ctx, "default", fmt.Sprintf("vm-%d", i))
		if err == nil && (phase == "" || vmi.Status.Phase == phase) {
			n++
		}
	}
	return n, ctx.Err()
}

func TestRealPlaneSurvivesKills(t *testing.T) {
	c, env := realRig(t)
	const count = 30
	processes := map[string]*killed{}
	for _, role := range []string{"webhook", "controller", "agent"} {
		p := &killed{t: t, role: role, env: env}
		processes[role] = p
		p.start()
		t.Cleanup(func() { p.end(syscall.SIGTERM) })
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
			p := processes[[]string{"controller", "agent"}[rng.IntN(2)]]
			time.Sleep(time.Duration(200+rng.IntN(1200)) * time.Millisecond)
			p.end(syscall.SIGKILL)
			p.start()
		}
	}
	kill(8)
	waitFor(t, "all run", 2*time.Minute, func() (string, error) {
		n, err := instances(t.Context(), c, count, api.Running)
		return mismatch(n, count), err
	})
	// The watch may show the last pods after the list does.
	waitFor(t, "the watch shows a pod of each instance", 2*time.Minute, func() (string, error) { return mismatch(len(counts()), count), nil })
	for uid, n := range counts() {
		if n != 1 {
			t.Errorf("instance %s had %d launcher pods", uid, n)
		}
	}
	for i := range count {
		name := fmt.Sprintf("vm-%d", i)
		repotest.NoError(t, c.Machines.Delete(t.Context(), &metav1.ObjectMeta{Name: name, Namespace: "default", UID: uidOf(t, c, name)}))
	}
	kill(5)
	waitFor(t, "nothing is left", 2*time.Minute, func() (string, error) {
		n, err := instances(t.Context(), c, count, "")
		pods, listed := c.Core.Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: api.LabelApp})
		vms := 0
		for i := range count {
			if _, err := c.Machines.Get(t.Context(), "default", fmt.Sprintf("vm-%d", i)); err == nil {
				vms++
			}
		}
		return mismatch(n+vms+len(pods.Items), 0), errors.Join(err, listed)
	})
}

func mismatch(got, want int) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%d, want %d", got, want)
}

func uidOf(t *testing.T, c *api.Client, name string) types.UID {
	t.Helper()
	vm := repotest.Must(c.Machines.Get(t.Context(), "default", name))(t)
	return vm.UID
}

package vm_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/vm/internal/agent"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/planes/vm/internal/controller"
)

// rig is a VM plane against an API server in memory.
type rig struct {
	t      *testing.T
	server *apitest.Server
	client *api.Client
	sub    bool
	asked  atomic.Int64 // requests since lose was called first
	agents func(*agent.Options)
	change func(*controller.Options)
}

func newRig(t *testing.T, nodes ...string) *rig {
	t.Helper()
	return newRigOf(t, apitest.New(t, kinds()...), nodes...)
}

func newRigOf(t *testing.T, server *apitest.Server, nodes ...string) *rig {
	t.Helper()
	r := &rig{t: t, server: server, agents: func(*agent.Options) {}, change: func(*controller.Options) {}}
	for _, n := range nodes {
		r.server.Add(apitest.NodesPath+"/"+n, map[string]any{})
	}
	r.server.Play((&cluster{nodes: nodes}).playPod)
	config := r.config()
	config.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	r.client = repotest.Must(api.NewClient(config, api.Scheme()))(t)
	return r
}

// setSub says whether instances have a status subresource.
func (r *rig) setSub(sub bool) {
	r.sub = sub
	instances := kinds()[0]
	instances.Status = sub
	r.server.Define(instances)
}

// config reaches the server, without a limit of rate or of a watch's time.
func (r *rig) config() *rest.Config {
	c := r.server.Endpoint().Config("vm-test")
	c.Timeout = 0
	return c
}

// lose lets the answers of some requests be lost after they were carried out;
// nil: of none.
func (r *rig) lose(which func() bool) {
	r.server.Inject(func(q *http.Request) *apitest.Injection {
		r.asked.Add(1)
		if which != nil && q.Method != http.MethodGet && which() {
			return &apitest.Injection{Done: true}
		}
		return nil
	})
}

// kinds are those of the VM plane.
func kinds() []apitest.Resource {
	const version = "kubevirt.io/v1"
	return []apitest.Resource{
		{Version: version, Plural: api.ResourceInstances, Kind: "VirtualMachineInstance", Namespaced: true},
		{Version: version, Plural: api.ResourceMachines, Kind: "VirtualMachine", Namespaced: true, Status: true},
		{Version: version, Plural: api.ResourceMigrations, Kind: "VirtualMachineInstanceMigration", Namespaced: true, Status: true},
		{Version: version, Plural: api.ResourceInstallation, Kind: "KubeVirt", Namespaced: true},
	}
}

// objects returns what there is of a resource of the VM plane.
func (r *rig) objects(resource string) []*apitest.Object {
	return r.server.Objects("/apis/kubevirt.io/v1/" + resource)
}

// doubles returns how many launcher pods were created that an instance, or a
// migration, had already had.
func (r *rig) doubles() int {
	made := map[string]bool{}
	all := r.server.Created(apitest.PodsPath)
	for _, o := range all {
		made[o.GetLabels()[api.LabelCreatedBy]+"/"+o.GetLabels()[api.LabelMigrationJob]] = true
	}
	return len(all) - len(made)
}

// env is what a process of the plane works with.
func (r *rig) env() process.Env {
	return process.Env{Config: r.config(), Registry: instrument.New("kubevirt"), Clock: clock.Start(), Log: planetest.Quiet()}
}

func (r *rig) controller() func() {
	o := controller.Default()
	o.Env, o.Limiter, o.StatusSubresource, o.Events = r.env(), limiter.Rate{QPS: 1000, Burst: 1000}, r.sub, false
	o.NodeTimeout, o.Election = time.Minute, controller.ElectionNone // the next one would wait for the lease of one that was killed
	r.change(&o)
	return planetest.Start(r.t, func(ctx context.Context) error { return controller.Run(ctx, o) })
}

func (r *rig) agent() func() {
	o := agent.Default()
	o.Env, o.Limiter, o.StatusSubresource, o.MaxDevices = r.env(), limiter.Rate{QPS: 1000, Burst: 1000}, r.sub, 110
	m := &o.Model
	m.Start, m.Guest, m.Stop, m.Unmount, m.Concurrency = 20*time.Millisecond, 5*time.Millisecond, 5*time.Millisecond, time.Millisecond, 4
	r.agents(&o)
	return planetest.Start(r.t, func(ctx context.Context) error { return agent.Run(ctx, o) })
}

// newMachine returns the i-th one, which wants to run.
func newMachine(i int) *api.Machine {
	return &api.Machine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("vm-%d", i), Namespace: "n"}, Spec: api.MachineSpec{Running: new(true)}}
}

func (r *rig) create(n int) {
	r.t.Helper()
	for i := range n {
		vm := newMachine(i)
		vm.Spec.Template.Metadata.Labels = map[string]string{"i": fmt.Sprint(i)}
		repotest.Must(r.client.Machines.Create(r.t.Context(), vm))(r.t)
	}
}

func (r *rig) remove() {
	r.t.Helper()
	for _, o := range r.objects(api.ResourceMachines) {
		repotest.NoError(r.t, r.client.Machines.Delete(r.t.Context(), o))
	}
}

// count returns how many instances are in a phase.
func (r *rig) count(phase api.Phase) int {
	n := 0
	for _, o := range r.objects(api.ResourceInstances) {
		if text(o.Object, "status", "phase") == string(phase) {
			n++
		}
	}
	return n
}

func (r *rig) left() int {
	return len(r.objects(api.ResourceMachines)) + len(r.objects(api.ResourceInstances)) + len(r.server.Objects(apitest.PodsPath))
}

// until waits for a condition.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	repotest.Eventually(r.t, what, ok, func() any {
		var state strings.Builder
		for _, o := range slices.Concat(r.objects(api.ResourceMachines), r.objects(api.ResourceInstances), r.server.Objects(apitest.PodsPath)) {
			raw, _ := o.MarshalJSON()
			fmt.Fprintf(&state, "%s\n", raw)
		}
		return state.String()
	})
}

// TestMachinesComeAndGo holds the life of machines where instances have a status
// subresource; TestShardsShareTheWork does where they have none.
func TestMachinesComeAndGo(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a", "b")
	r.setSub(true)
	defer r.agent()()
	defer r.controller()()
	r.create(20)
	r.until("all run", func() bool { return r.count(api.Running) == 20 })
	r.until("all are ready", func() bool {
		n := 0
		for _, o := range r.objects(api.ResourceMachines) {
			if status, _ := o.Object["status"].(map[string]any); status["ready"] == true && status["printableStatus"] == "Running" {
				n++
			}
		}
		return n == 20
	})
	if len(r.server.Objects(apitest.PodsPath)) != 20 || r.doubles() != 0 {
		t.Errorf("%d pods, %d of them double", len(r.server.Objects(apitest.PodsPath)), r.doubles())
	}
	r.remove()
	r.until("nothing is left", func() bool { return r.left() == 0 })
}

func TestShardsShareTheWork(t *testing.T) {
	r := newRig(t, "a", "b")
	defer r.agent()()
	for shard := range 3 {
		r.change = func(o *controller.Options) { o.Shard, o.Shards, o.DropNoopEvents = shard, 3, true }
		defer r.controller()()
	}
	r.create(20)
	r.until("all run", func() bool { return r.count(api.Running) == 20 })
	if n, d := len(r.server.Objects(apitest.PodsPath)), r.doubles(); n != 20 || d != 0 {
		t.Errorf("%d pods, %d of them double", n, d)
	}
	r.remove()
	r.until("nothing is left", func() bool { return r.left() == 0 })
}

// TestPodThatIsToEndShutsItsMachineDown deletes launcher pods as the deletion of their
// namespace does, before anything else: machines are shut down, the pods go, and the
// machines, which stay, start anew.
func TestPodThatIsToEndShutsItsMachineDown(t *testing.T) {
	r := newRig(t, "a", "b")
	defer r.agent()()
	defer r.controller()()
	r.create(10)
	r.until("all run", func() bool { return r.count(api.Running) == 10 })
	first := map[types.UID]bool{}
	for _, o := range r.objects(api.ResourceInstances) {
		first[o.GetUID()] = true
	}
	for _, pod := range r.server.Objects(apitest.PodsPath) {
		repotest.NoError(t, r.client.Core.Pods("n").Delete(t.Context(), pod.GetName(), metav1.DeleteOptions{}))
	}
	r.until("others run", func() bool {
		return r.count(api.Running) == 10 && !slices.ContainsFunc(r.objects(api.ResourceInstances), func(o *apitest.Object) bool { return first[o.GetUID()] })
	})
	for _, o := range r.objects(api.ResourceMachines) {
		if status, _ := o.Object["status"].(map[string]any); status["startFailure"] != nil {
			t.Errorf("%s: its instance failed: %v", o.GetName(), status["startFailure"])
		}
	}
}

// TestKilledAtAnyMoment ends controller and agent at seeded requests, again and again, and
// loses answers of requests that were carried out, as a kill between the two would.
// WINDTUNNEL_SEEDS says with how many seeds.
func TestKilledAtAnyMoment(t *testing.T) {
	for seed := range uint64(repotest.Times(t, "WINDTUNNEL_SEEDS", 1)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng, chance := rand.New(rand.NewPCG(seed, 7)), rand.New(rand.NewPCG(seed, 8))
			r := newRig(t, "a", "b", "c")
			lost := func() bool { return chance.IntN(12) == 0 } // asked of one request at a time
			r.lose(lost)
			stopAgent, stopController := r.agent(), r.controller()
			churn := func(times int, done func() bool) {
				for range times {
					at := r.asked.Load() + rng.Int64N(60)
					r.until("the moment of the kill", func() bool { return r.asked.Load() >= at || done() })
					if rng.IntN(2) == 0 {
						stopAgent()
						stopAgent = r.agent()
					} else {
						stopController()
						stopController = r.controller()
					}
				}
			}
			func() {
				defer r.lose(nil)
				for i := range 30 {
					_, _ = r.client.Machines.Create(t.Context(), newMachine(i)) // the answer may be lost
				}
				churn(12, func() bool { return r.count(api.Running) == 30 })
			}()
			r.until("all run", func() bool { return r.count(api.Running) == 30 })
			if n, d := len(r.server.Objects(apitest.PodsPath)), r.doubles(); n != 30 || d != 0 {
				t.Errorf("%d pods, %d of them double", n, d)
			}
			r.lose(lost)
			for _, o := range r.objects(api.ResourceMachines) {
				_ = r.client.Machines.Delete(t.Context(), o)
			}
			churn(8, func() bool { return r.left() == 0 })
			r.lose(nil)
			r.until("nothing is left", func() bool { return r.left() == 0 })
			stopAgent()
			stopController()
		})
	}
}

func TestMachineMoves(t *testing.T) {
	for _, sub := range []bool{false, true} {
		t.Run(fmt.Sprint("status subresource=", sub), func(t *testing.T) { checkMove(t, sub) })
	}
}

// checkMove moves a machine. Where status and label are two writes, the second fails once.
func checkMove(t *testing.T, sub bool) {
	r := newRig(t, "a", "b")
	r.setSub(sub)
	var refused atomic.Bool
	r.server.Inject(func(q *http.Request) *apitest.Injection {
		if sub && q.Method == http.MethodPatch && strings.HasSuffix(q.URL.Path, "/virtualmachineinstances/vm-0") && strings.HasPrefix(q.UserAgent(), "windtunnel-vm-agent") && refused.CompareAndSwap(false, true) {
			return &apitest.Injection{Code: http.StatusInternalServerError}
		}
		return nil
	})
	defer r.agent()()
	defer r.controller()()
	r.create(1)
	r.until("it runs", func() bool { return r.count(api.Running) == 1 })
	vmi := repotest.Must(r.client.Instances.Get(t.Context(), "n", "vm-0"))(t)
	source := vmi.Status.NodeName
	m := &api.Migration{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "n"}, Spec: api.MigrationSpec{VMIName: "vm-0"}}
	repotest.Must(r.client.Migrations.Create(t.Context(), m))(t)
	r.until("it has moved", func() bool {
		m, err := r.client.Migrations.Get(t.Context(), "n", "m")
		return err == nil && m.Status.Phase == api.Succeeded
	})
	r.until("it is told to run elsewhere, by its label too", func() bool { // which is a write of its own, and comes later if the first was refused
		vmi, err := r.client.Instances.Get(t.Context(), "n", "vm-0")
		return err == nil && vmi.Status.NodeName != source && vmi.Labels[api.LabelNode] == vmi.Status.NodeName && vmi.Status.Phase == api.Running
	})
	if m, err := r.client.Migrations.Get(t.Context(), "n", "m"); err != nil || len(m.Status.PhaseTransitionTimestamps) < 4 {
		t.Errorf("phases of the migration: %v, %v", m.Status.PhaseTransitionTimestamps, err)
	}
	if sub != refused.Load() {
		t.Error("no second write was refused")
	}
	r.remove()
	r.until("nothing is left", func() bool { return r.left() == 0 })
}

func TestFaultsHoldInstancesForTheirTime(t *testing.T) {
	for name, faults := range map[string]agent.Faults{
		"unmount": {UnmountShare: 1, UnmountFor: 400 * time.Millisecond, UnmountTakes: time.Millisecond, Selector: "i in (0,1,2)"},
		"stuck":   {StuckShare: 1, StuckFor: 400 * time.Millisecond, Selector: "i in (0,1,2)"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "a")
			var registry *instrument.Registry
			r.agents = func(o *agent.Options) { o.Faults, registry = faults, o.Registry }
			defer r.agent()()
			defer r.controller()()
			r.create(6)
			r.until("all run", func() bool { return r.count(api.Running) == 6 })
			begin := time.Now()
			r.remove()
			held := func() int {
				return len(slices.DeleteFunc(r.objects(api.ResourceInstances), func(o *apitest.Object) bool { return o.GetName() > "vm-2" }))
			}
			r.until("the others are gone", func() bool { return len(r.objects(api.ResourceInstances)) == held() })
			if n := held(); n != 3 && time.Since(begin) < 400*time.Millisecond { // a slow machine sees it later
				t.Errorf("%d instances are held, want 3", n)
			}
			r.until("nothing is left", func() bool { return r.left() == 0 })
			if d := time.Since(begin); d < 400*time.Millisecond {
				t.Errorf("gone after %v", d)
			}
			if n := instrumenttest.Measured(t, registry, "kubevirt_workqueue_adds_total", "name=virt-handler-vm").Value; n == 0 || n > 500 {
				t.Errorf("%v looks at six instances: what is held is to be looked at now and then", n)
			}
		})
	}
}

func TestLimitIsSetByTheKubeVirtObject(t *testing.T) {
	r := newRig(t, "a")
	o := controller.Default()
	o.Env, o.Limiter = r.env(), limiter.Rate{QPS: 5, Burst: 10}
	stop := planetest.Start(r.t, func(ctx context.Context) error { return controller.Run(ctx, o) })
	defer stop()
	kv := &api.Installation{ObjectMeta: metav1.ObjectMeta{Name: "kubevirt", Namespace: "kubevirt"}}
	kv.Spec.Configuration.Controller.RestClient.RateLimiter.TokenBucketRateLimiter = &api.TokenBucket{QPS: 200, Burst: 400}
	repotest.Must(r.client.Installations.Create(t.Context(), kv))(t)
	r.until("the limit has changed", func() bool {
		w := httptest.NewRecorder()
		o.Registry.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/limiter", nil))
		return w.Body.String() == "200/400\n"
	})
}

// TestLimitsAreSeparateOrOne uses up a limit of one request: with separate limits there is one
// more for pods. A request that would have to wait for longer than it may fails at once.
func TestLimitsAreSeparateOrOne(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name  string
		limit func(limiter.Rate) *limiter.Reloadable
		more  bool
	}{{"one", limiter.New, false}, {"separate", limiter.NewNamed, true}} {
		config := r.config()
		config.RateLimiter = c.limit(limiter.Rate{QPS: 1e-6, Burst: 1})
		client := repotest.Must(api.NewClient(config, api.Scheme()))(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := client.Instances.Get(ctx, "n", "none"); !apierrors.IsNotFound(err) {
			t.Errorf("%s: the first request: %v", c.name, err)
		}
		if _, err := client.Core.Pods("n").Get(ctx, "none", metav1.GetOptions{}); apierrors.IsNotFound(err) != c.more {
			t.Errorf("%s: a request on pods after one on instances: %v", c.name, err)
		}
		if _, err := client.Machines.Get(ctx, "n", "none"); err == nil || apierrors.IsNotFound(err) {
			t.Errorf("%s: one more request on machines: %v", c.name, err)
		}
	}
}

// TestAControllerWorksWithItsLease runs two controllers, of which one has the lease.
func TestAControllerWorksWithItsLease(t *testing.T) {
	r := newRig(t, "a")
	r.change = func(o *controller.Options) { o.Election = controller.Default().Election }
	for range 2 {
		defer r.controller()()
	}
	defer r.agent()()
	r.create(2)
	r.until("both run", func() bool { return r.count(api.Running) == 2 })
	repotest.Equal(t, len(r.server.Created("/apis/coordination.k8s.io/v1/leases")), 1, "leases")
}

func TestNodeWithoutHeartbeatIsGivenUp(t *testing.T) {
	r := newRig(t, "a")
	stop := r.agent()
	r.until("the node is schedulable", func() bool {
		n := r.server.Objects(apitest.NodesPath)[0]
		return n.GetLabels()[api.LabelSchedulable] == "true" && text(n.Object, "status", "allocatable", string(api.ResourceKVM)) != ""
	})
	node := r.server.Objects(apitest.NodesPath)[0]
	repotest.Equal(t, text(node.Object, "status", "allocatable", string(api.ResourceKVM)), "110", "devices")
	stop()
	long := time.Now().Add(-time.Hour).Format(time.RFC3339Nano)
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationHeartbeat, long)
	repotest.Must(r.client.Core.Nodes().Patch(t.Context(), "a", "application/merge-patch+json", []byte(body), metav1.PatchOptions{}))(t)
	defer r.controller()()
	r.until("it is not schedulable any more", func() bool {
		return r.server.Objects(apitest.NodesPath)[0].GetLabels()[api.LabelSchedulable] == "false"
	})
}

// text returns a text inside an object.
func text(o map[string]any, path ...string) string {
	s, _, _ := unstructured.NestedString(o, path...)
	return s
}

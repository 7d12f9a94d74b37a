package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

func TestMain(m *testing.M) { planetest.Main(m, app.Verbs) }

// Who is killed, and while what is done.
const (
	killController = "controller"
	killGateway    = "gateway"
	killMember     = "member"
	killWebhook    = "webhook"

	whilePublishing = "publishing"
	whileUpdating   = "updating"
	whileCollecting = "collecting"
)

// killRig is a hub, a gateway and members that can be killed.
type killRig struct {
	*rig
	members map[string]memberEndpoint
	links   map[string]*proxy.Proxy       // to the members, from the gateway
	direct  bool                          // the gateway is connected to, not proxied to by the hub
	file    string                        // kubeconfig of the hub
	running map[string]*planetest.Process // by verb
	probe   kubernetes.Interface
}

// newKillRig joins members by links that can be cut, and starts a gateway.
func newKillRig(t *testing.T, r *rig, members map[string]memberEndpoint, direct bool) *killRig {
	t.Helper()
	kills := &killRig{rig: r, members: members, links: map[string]*proxy.Proxy{}, direct: direct, running: map[string]*planetest.Process{}, probe: r.hub()}
	linked := map[string]memberEndpoint{}
	for name, m := range members {
		to := repotest.Must(m.endpoint.Address())(t)
		p := repotest.Must(proxy.Start(proxy.Options{To: to, Clock: clock.Start()}))(t)
		t.Cleanup(func() { _ = p.Close() })
		via := repotest.Must(m.endpoint.Via(p.Addr()))(t)
		kills.links[name], linked[name] = p, memberEndpoint{m.Interface, via}
	}
	r.join(linked, map[string]int{"region": 1})
	kills.file = planetest.WriteKubeconfig(t, r.endpoint)
	kills.startProcess("app-gateway", "--aggregated="+strconv.FormatBool(!direct))
	return kills
}

// startProcess starts one of the plane's processes and returns when it is ready.
func (kills *killRig) startProcess(verb string, args ...string) {
	kills.t.Helper()
	kills.running[verb] = planetest.Spawn(kills.t, append([]string{verb, "--kubeconfig=" + kills.file}, args...)...)
}

// moment is one kill: just before or just after the at-th request of the controllers.
type moment struct {
	victim, while string
	at            int64
	answered      bool // the request is, but nobody hears it
	n             atomic.Int64
	struck        chan struct{}
}

func (m *moment) String() string {
	when := "before"
	if m.answered {
		when = "after"
	}
	return fmt.Sprintf("%s killed while %s, %s request %d", m.victim, m.while, when, m.at)
}

// killable is a controller that can be killed between any two of its requests: those
// under way are broken off, and there are no more.
type killable struct {
	dead   atomic.Bool
	cancel context.CancelFunc
	moment *moment // nil: nothing happens to it
	kill   func()  // ends it without its knowing, and returns when nothing of it runs
}

var errKilled = errors.New("killed")

// startKillable runs a controller of a shard, whose requests count towards a moment.
func (kills *killRig) startKillable(shard string, m *moment) *killable {
	out := &killable{moment: m}
	config := rest.CopyConfig(kills.config)
	planetest.Intercept(config, out.sendCounted)
	o, _ := profiled(kills.t, "v18")
	o.Config, o.Limiter, o.Workers, o.Resync, o.ShardID = config, limiter.Rate{QPS: 1000, Burst: 1000}, 2, time.Second, shard
	o.Events, o.Registry, o.Clock, o.Log = false, instrument.New(""), clock.Start(), slog.New(slog.NewTextHandler(io.Discard, nil))
	if kills.direct {
		o.Gateway.URL = cluster.Registered
	}
	var ctx context.Context
	ctx, out.cancel = context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- controller.Run(ctx, o) }()
	out.kill = sync.OnceFunc(func() {
		out.dead.Store(true)
		out.cancel()
		<-done // that it was broken off
	})
	kills.t.Cleanup(out.kill)
	return out
}

func (c *killable) sendCounted(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	if c.dead.Load() {
		return nil, errKilled
	}
	m := c.moment
	counts := m != nil && r.URL.Query().Get("watch") == ""
	now := counts && m.n.Add(1) == m.at
	if now && !m.answered {
		c.killNow()
	}
	if c.dead.Load() {
		return nil, errKilled
	}
	answer, err := next.RoundTrip(r)
	if now && m.answered {
		c.killNow()
	}
	if c.dead.Load() && err == nil {
		_ = answer.Body.Close()
		return nil, errKilled
	}
	return answer, err
}

// killNow says that the moment has come; a controller is dead at once.
func (c *killable) killNow() {
	if c.moment.victim == killController {
		c.dead.Store(true)
		c.cancel()
	}
	close(c.moment.struck)
}

// objectCounts is how many of everything there is of some applications, everywhere.
type objectCounts struct {
	Deployments, Secrets, ConfigMaps, Revisions, Trackers, Applications int
}

const perMoment = 3 // applications

// takeCounts counts what there is of a moment's applications in the hub and the members.
func (kills *killRig) takeCounts(prefix string) (c objectCounts) {
	kills.t.Helper()
	for i := range perMoment {
		name := fmt.Sprintf("%s-%d", prefix, i)
		for _, in := range kills.allClients() {
			got := holds(kills.t, in, "default", name)
			c.Deployments, c.Secrets, c.ConfigMaps = c.Deployments+got[0], c.Secrets+got[1], c.ConfigMaps+got[2]
		}
		l := kills.left(name)
		c.Revisions, c.Trackers = c.Revisions+l.revisions, c.Trackers+l.trackers
		if _, err := kills.client.Applications.Get(kills.t.Context(), "default", name); err == nil {
			c.Applications++
		}
	}
	return c
}

func (kills *killRig) allClients() []kubernetes.Interface {
	out := []kubernetes.Interface{kills.probe}
	for _, m := range kills.members {
		out = append(out, m)
	}
	return out
}

// newApplications of a moment: at home, in members, and in both, over two shards.
func (kills *killRig) newApplications(prefix string, version int) (out []*api.Application) {
	for i, properties := range []string{`{"clusters":["local"]}`, `{"clusters":["m-1","m-2"]}`, `{"clusterLabelSelector":{"region":"region-0"}}`} {
		o := application(kills.t, fmt.Sprintf("%s-%d", prefix, i), "light", version)
		o.Labels = map[string]string{api.LabelShard: fmt.Sprintf("%s-shard-%d", prefix, i%2)}
		o.Spec.Policies = []api.Policy{{Name: "where", Type: "topology", Properties: json.RawMessage(properties)}}
		out = append(out, o)
	}
	return out
}

// playStages takes applications to the end of a phase, with a kill in it, and returns what
// there is then. Without a moment nothing happens to anybody.
func (kills *killRig) playStages(prefix, while string, m *moment) objectCounts {
	kills.t.Helper()
	shards := []string{prefix + "-shard-0", prefix + "-shard-1"}
	var running []*killable
	run := func(m *moment) {
		for _, c := range running {
			c.kill()
		}
		running = nil
		for _, shard := range shards {
			running = append(running, kills.startKillable(shard, m))
		}
	}
	write := map[string]func(*api.Application) error{
		whilePublishing: kills.createApplication, whileUpdating: kills.updateApplication, whileCollecting: kills.deleteApplication,
	}
	for i, phase := range []string{whilePublishing, whileUpdating, whileCollecting} {
		if phase == while {
			run(m)
		} else {
			run(nil)
		}
		for _, o := range kills.newApplications(prefix, min(i+1, 2)) {
			kills.retryWrite(func() error { return write[phase](o) })
		}
		if phase == while && m != nil {
			kills.killAtMoment(m)
			run(nil)
		}
		kills.awaitSettled(prefix, phase)
		if phase == while {
			break
		}
	}
	out := kills.takeCounts(prefix)
	for _, c := range running {
		c.kill()
	}
	return out
}

// retryWrite repeats a write until it succeeds: a webhook may be away.
func (kills *killRig) retryWrite(write func() error) {
	kills.t.Helper()
	var err error
	repotest.Eventually(kills.t, "a write of an application", func() bool {
		err = write()
		return err == nil
	}, func() any { return err })
}

func (kills *killRig) createApplication(o *api.Application) error {
	_, err := kills.client.Applications.Create(kills.t.Context(), o)
	return err
}

func (kills *killRig) updateApplication(o *api.Application) error {
	there, err := kills.client.Applications.Get(kills.t.Context(), o.Namespace, o.Name)
	if err != nil {
		return err
	}
	there.Spec = o.Spec
	_, err = kills.client.Applications.Update(kills.t.Context(), there)
	return err
}

func (kills *killRig) deleteApplication(o *api.Application) error {
	return deleteAsRead(kills.t.Context(), kills.client, o.Name)
}

// killAtMoment waits for the moment and kills who is to be killed; all but a controller come
// back here.
func (kills *killRig) killAtMoment(m *moment) {
	kills.t.Helper()
	select {
	case <-m.struck:
	case <-time.After(2 * time.Minute):
		kills.t.Fatalf("%v: there were only %d requests", m, m.n.Load())
	}
	switch m.victim {
	case killGateway:
		_ = kills.running["app-gateway"].Kill()
		kills.startProcess("app-gateway", "--aggregated="+strconv.FormatBool(!kills.direct))
	case killWebhook:
		_ = kills.running["app-webhook"].Kill()
		kills.startProcess("app-webhook")
	case killMember:
		cut(kills.t, kills.links["m-1"], true)
		cut(kills.t, kills.links["m-1"], false)
	}
}

// awaitSettled waits until a phase is over for all applications of a moment.
func (kills *killRig) awaitSettled(prefix, phase string) {
	kills.t.Helper()
	for i := range perMoment {
		if phase != whileCollecting {
			kills.becomes(fmt.Sprintf("%s-%d", prefix, i), api.Running)
		}
	}
	want := map[string][2]int{whilePublishing: {perMoment, perMoment}, whileUpdating: {2 * perMoment, perMoment}}[phase]
	var got objectCounts
	repotest.Eventually(kills.t, "what is superfluous after "+phase+" goes", func() bool {
		got = kills.takeCounts(prefix)
		return got.Trackers == want[1] && got.Revisions == want[0] && (phase != whileCollecting || got.Applications == 0)
	}, func() any { return fmt.Sprintf("%+v", got) })
}

// TestNothingIsLostOrDoubled kills a controller, the gateway and a member once each,
// on a hub in memory.
func TestNothingIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	killAt(t, 1, 3, []string{killController, killGateway, killMember}, func(t *testing.T) *killRig {
		r, members := hollowRig(t, "m-1", "m-2")
		return newKillRig(t, r, members, true)
	})
}

// TestProofNothingIsLostOrDoubled kills a controller, the gateway, the webhook and a
// member at forty moments of publishing, updating and collecting, on a real hub that
// proxies to the gateway. WINDTUNNEL_SEED and WINDTUNNEL_KILLS say which and how many.
func TestProofNothingIsLostOrDoubled(t *testing.T) {
	repotest.Proof(t)
	seed := uint64(repotest.Times(t, "WINDTUNNEL_SEED", 1))
	killAt(t, seed, repotest.Times(t, "WINDTUNNEL_KILLS", 40), []string{killController, killGateway, killMember, killWebhook}, func(t *testing.T) *killRig {
		th := newKillRig(t, newRig(t), newMemberEndpoints(t, "m-1", "m-2"), false)
		th.startProcess("app-webhook")
		return th
	})
}

// killAt plays phases without a kill, then so many times with one, and compares what
// there is afterwards.
func killAt(t *testing.T, seed uint64, times int, victims []string, stage func(*testing.T) *killRig) {
	th := stage(t)
	chance := rand.New(rand.NewPCG(seed, 0))
	phases := []string{whilePublishing, whileUpdating, whileCollecting}
	requests := map[string]int64{whilePublishing: 120, whileUpdating: 120, whileCollecting: 40} // fewer than each takes
	var calm sync.Map
	for i, while := range phases {
		calm.Store(while, th.playStages(fmt.Sprintf("calm%d", i), while, nil))
	}
	for i := range times {
		while := phases[i%len(phases)]
		m := &moment{
			victim: victims[(i/len(phases)+i%len(phases))%len(victims)], while: while, at: 1 + chance.Int64N(requests[while]), answered: i%2 == 1, struck: make(chan struct{}),
		}
		want, _ := calm.Load(while)
		if got := th.playStages(fmt.Sprintf("k%d", i), while, m); got != want.(objectCounts) {
			t.Errorf("%v: there is %+v, want %+v", m, got, want)
		} else {
			t.Logf("%v: %+v", m, got)
		}
		if t.Failed() {
			return
		}
	}
	for _, in := range th.allClients() { // and nothing else is there
		all, err := in.AppsV1().Deployments(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{LabelSelector: "!" + api.LabelName})
		if err != nil || len(all.Items) > 0 {
			t.Errorf("%v: Deployments of nobody: %d", err, len(all.Items))
		}
	}
}

package tree

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// counted is the table of testdata/v0.5.5.calls, by "STEP MODE SIDE".
func counted(t *testing.T) map[string]string {
	t.Helper()
	text := repotest.Must(os.ReadFile("testdata/v0.5.5.calls"))(t)
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if row, calls, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.HasPrefix(line, "#") {
			out[row] = calls
		}
	}
	return out
}

// callLog are the calls that a server was sent, in order.
type callLog struct {
	mu   sync.Mutex
	made []string
}

// recordCalls returns an endpoint that leads to another, and the calls that pass.
func recordCalls(t *testing.T, to endpoint.Endpoint) (endpoint.Endpoint, *callLog) {
	t.Helper()
	client, base, err := to.Client()
	repotest.NoError(t, err)
	l, proxy := &callLog{}, httputil.NewSingleHostReverseProxy(base)
	proxy.Transport, proxy.FlushInterval = client.Transport, -1
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) } // of watches that end
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		l.mu.Lock()
		l.made = append(l.made, nameOf(q))
		l.mu.Unlock()
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return endpoint.Plain(server.URL), l
}

// nameOf names a call as the table does.
func nameOf(q *http.Request) string {
	parts := strings.Split(strings.Trim(q.URL.Path, "/"), "/")
	parts = parts[min(map[string]int{"api": 2, "apis": 3}[parts[0]], len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	query := q.URL.Query()
	switch {
	case len(parts) == 0:
		return "discovery"
	case query.Get("watch") != "":
		return "WATCH " + parts[0]
	case len(parts) > 2:
		return q.Method + " " + parts[0] + "/" + parts[2]
	case q.Method != http.MethodGet || len(parts) > 1 || parts[0] == "version":
		return q.Method + " " + parts[0]
	case query.Get("fieldSelector") != "":
		return "LIST " + parts[0] + " by field"
	case query.Get("labelSelector") != "":
		return "LIST " + parts[0] + " by label"
	}
	return "LIST " + parts[0]
}

// take returns the calls since the last take that name a verb and resource of these, all without any.
func (l *callLog) take(of ...string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, call := range l.made {
		if len(of) == 0 || slices.ContainsFunc(of, func(s string) bool { return strings.HasPrefix(call, s) }) {
			out = append(out, call)
		}
	}
	l.made = nil
	return out
}

// asRow writes calls as a row of the table has them: in their order if it is of that.
func asRow(calls []string, like string) string {
	joint := " > "
	if !strings.Contains(like, joint) {
		joint, calls = ", ", slices.SortedFunc(slices.Values(calls), func(a, b string) int { return cmp.Compare(strings.Index(like, a), strings.Index(like, b)) })
	}
	if len(calls) == 0 {
		return "none"
	}
	var out []string
	for i := 0; i < len(calls); {
		n := 1
		for i+n < len(calls) && calls[i+n] == calls[i] {
			n++
		}
		out = append(out, strings.TrimPrefix(fmt.Sprint(n, " ", calls[i]), "1 "))
		i += n
	}
	return strings.Join(out, joint)
}

// countedRig is a manager of one member on hollow clusters, which renews nothing by itself
// after the first time.
type countedRig struct {
	t            *testing.T
	m            *manager
	o            Options
	mode         string
	rows         map[string]string
	held         *sync.Map // rows that a step was compared with
	host, member *callLog
	client       kubernetes.Interface // of the host
	inMember     kubernetes.Interface
}

func newCountedRig(t *testing.T, mode string, rows map[string]string, held *sync.Map) *countedRig {
	r := &countedRig{t: t, mode: mode, rows: rows, held: held, o: Default()}
	hosting := planetest.Cluster(t, "host", hollow.Models{Binder: true})
	other := planetest.Cluster(t, "member", hollow.Models{Binder: true, Stages: []string{"fast"}})
	r.client, r.inMember = planetest.Client(t, hosting.Endpoint()), planetest.Client(t, other.Endpoint())
	makeNode(t, r.client, "ordinary", "")
	for i := range 3 {
		makeNode(t, r.inMember, fmt.Sprint("n", i), fmt.Sprint("z", i%2))
	}
	var host, member endpoint.Endpoint
	host, r.host = recordCalls(t, hosting.Endpoint())
	member, r.member = recordCalls(t, other.Endpoint())
	repotest.NoError(t, api.Install(t.Context(), hosting.Endpoint().Config("test")))
	r.o.Config, r.o.Registry, r.o.Clock, r.o.Log = host.Config("tree"), instrument.New(""), clock.Start(), planetest.Log(t)
	r.o.Limiter, r.o.LeaseInterval, r.o.StatusInterval = limiter.Rate{QPS: 5000, Burst: 5000}, time.Hour, time.Hour
	r.m = repotest.Must(newManager(r.o))(t)
	planetest.Start(t, func(ctx context.Context) error { return r.m.run(ctx) })
	r.join(member)
	return r
}

func makeNode(t *testing.T, c kubernetes.Interface, name, zone string) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	repotest.Must(c.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}))(t)
}

// join registers the member and waits until all that follows is done. Its Cluster has
// options of the network, which the tree leaves alone.
func (r *countedRig) join(member endpoint.Endpoint) {
	r.t.Helper()
	kubeconfig := repotest.Must(os.ReadFile(planetest.WriteKubeconfig(r.t, member)))(r.t)
	var models []api.LeafModel
	switch r.mode {
	case api.LeafParty:
		for i := range 2 {
			models = append(models, api.LeafModel{LeafNodeName: "zone", NodeSelector: api.NodeSelector{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": fmt.Sprint("z", i)}}}})
		}
	case api.LeafNode:
		for i := range 3 {
			models = append(models, api.LeafModel{NodeSelector: api.NodeSelector{NodeName: fmt.Sprint("n", i)}})
		}
	}
	c := &api.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	c.Spec = api.ClusterSpec{Kubeconfig: kubeconfig, Tree: &api.TreeOptions{Enable: true, LeafModels: models}}
	repotest.Must(r.m.tree.hub.client.Clusters.Create(r.t.Context(), c))(r.t)
	passes := func(of string) int { return r.measured("tree_pass_seconds", "of="+of) }
	repotest.Eventually(r.t, "it has joined", func() bool { return passes("statuses") == 1 && passes("leases") == 1 && r.rests() })
}

func (r *countedRig) measured(name string, labels ...string) int {
	m := instrumenttest.Measured(r.t, r.o.Registry, name, labels...)
	return m.Observed + int(m.Value)
}

// rests tells whether no queue has a key.
func (r *countedRig) rests() bool {
	worked := r.measured("workqueue_work_duration_seconds")
	return worked == r.measured("workqueue_adds_total")
}

// hold compares calls with a row of the table, if it has one.
func (r *countedRig) hold(step, side string, calls []string) {
	r.t.Helper()
	row := step + " " + r.mode + " " + side
	want, listed := r.rows[row]
	r.held.Store(row, true)
	if got := asRow(calls, want); listed && got != want {
		r.t.Errorf("%s\n here: %s\nthere: %s", row, got, want)
	}
}

// play does something of the manager's that is over when it returns, and holds its calls.
func (r *countedRig) play(step string, do func(context.Context) error) (host, member int) {
	r.t.Helper()
	r.host.take()
	r.member.take()
	repotest.NoError(r.t, do(r.t.Context()))
	h, m := r.host.take(), r.member.take()
	r.hold(step, "host", h)
	r.hold(step, "member", m)
	return len(h), len(m)
}

// TestCountedCalls holds the calls of the default against those that were counted on the
// release, step by step.
func TestCountedCalls(t *testing.T) {
	rows, held := counted(t), &sync.Map{}
	t.Cleanup(func() {
		for row := range rows {
			if _, ok := held.Load(row); !ok && !t.Failed() {
				t.Errorf("no step was held against the row %q", row)
			}
		}
	})
	for _, mode := range []string{api.LeafAll, api.LeafParty, api.LeafNode} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newCountedRig(t, mode, rows, held)
			joined := r.host.take("GET nodes", "POST nodes", "POST leases", "PUT leases", "POST clusters", "PUT clusters")
			r.holdJoin(joined)
			r.holdNodes()
			if mode == api.LeafNode {
				r.holdPods()
				r.holdDeletion()
				r.hold("missing", "host", missing(t, &r.o))
			}
		})
	}
}

// holdJoin holds the calls of a join, without those of the first status.
func (r *countedRig) holdJoin(calls []string) {
	r.t.Helper()
	statuses, writes := len(r.leaves()), []string(nil)
	calls = slices.DeleteFunc(calls, func(c string) bool {
		if c == "PUT clusters" {
			writes = append(writes, c)
		}
		if c == "GET nodes" && statuses > 0 {
			statuses--
			return true
		}
		return strings.HasSuffix(c, "clusters")
	})
	r.hold("join", "host", calls)
	r.hold("join", "writes", writes)
}

func (r *countedRig) leaves() []*leaf { return r.nodes().member.leaves }

func (r *countedRig) nodes() *nodeController { return r.m.tree.leaves.memberNamed("m").nodes }

// holdNodes holds what renews virtual nodes, and what a minute of rest costs by that.
func (r *countedRig) holdNodes() {
	r.t.Helper()
	c, released := r.nodes(), Default()
	r.play("status", func(ctx context.Context) error { return c.renewStatus(ctx, r.leaves()[0], nil) })
	c.tree.o.NodeReads = 2
	r.play("status-main", func(ctx context.Context) error { return c.renewStatus(ctx, r.leaves()[0], nil) })
	c.tree.o.NodeReads = released.NodeReads
	r.play("pass", func(ctx context.Context) error { return c.renewResources(ctx, "n0") })
	host, member := r.play("leases", c.passLeases)
	hostStatus, memberStatus := r.play("statuses", c.passStatuses)
	leases, statuses := int(time.Minute/released.LeaseInterval), int(time.Minute/released.StatusInterval)
	for side, n := range map[string]int{"host": host*leases + hostStatus*statuses, "member": member*leases + memberStatus*statuses} {
		r.hold("rest", side, []string{fmt.Sprint(n)})
	}
	c.tree.o.LeafReads = ReadsLive
	r.play("live", c.passStatuses)
	c.tree.o.LeafReads, c.tree.o.NodePatch = ReadsCached, Changed
	r.play("cached", c.passStatuses)
	c.tree.o.LeafReads, c.tree.o.NodePatch = released.LeafReads, released.NodePatch
}

// holdPods holds what a pod costs that needs a ConfigMap and a Secret, and what a change of
// the ConfigMap does.
func (r *countedRig) holdPods() {
	r.t.Helper()
	core, ctx := r.client.CoreV1(), r.t.Context()
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"a": "b"}}
	repotest.Must(core.ConfigMaps("default").Create(ctx, settings, metav1.CreateOptions{}))(r.t)
	repotest.Must(core.Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}}, metav1.CreateOptions{}))(r.t)
	r.runPod("first", false) // it brings the copies
	r.holdPod("down", "p1", false)
	authority := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.NameRootCA}}
	if _, err := core.ConfigMaps("default").Create(ctx, authority, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		r.t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := core.ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		r.t.Fatal(err)
	}
	r.holdPod("first-token", "p2", true)
	r.holdPod("token", "p3", true)
	r.host.take()
	r.member.take()
	worked := r.measured("workqueue_work_duration_seconds", "name=copies") // before the change: the manager may be quick
	settings = repotest.Must(core.ConfigMaps("default").Get(ctx, "settings", metav1.GetOptions{}))(r.t)
	settings.Data = map[string]string{"a": "c"}
	repotest.Must(core.ConfigMaps("default").Update(ctx, settings, metav1.UpdateOptions{}))(r.t)
	repotest.Eventually(r.t, "the copy follows", func() bool { return r.measured("workqueue_work_duration_seconds", "name=copies") > worked && r.rests() })
	r.hold("change", "host", r.host.take("GET configmaps", "PUT configmaps"))
	r.hold("change", "member", r.member.take("GET configmaps", "PUT configmaps"))
}

// holdDeletion holds what a change of a pod costs that is being deleted, and that a finalizer
// holds in the member.
func (r *countedRig) holdDeletion() {
	r.t.Helper()
	ctx, hub, there := r.t.Context(), r.client.CoreV1().Pods("default"), r.inMember.CoreV1().Pods("default")
	r.runPod("held", false)
	patch := func(pods typedcore.PodInterface, body string) {
		r.t.Helper()
		repotest.Must(pods.Patch(ctx, "held", types.MergePatchType, []byte(body), metav1.PatchOptions{}))(r.t)
	}
	patch(there, `{"metadata":{"finalizers":["example.org/held"]}}`)
	repotest.NoError(r.t, hub.Delete(ctx, "held", metav1.DeleteOptions{}))
	repotest.Eventually(r.t, "it is being deleted in the member", func() bool {
		p, err := there.Get(ctx, "held", metav1.GetOptions{})
		return err == nil && p.DeletionTimestamp != nil && r.rests()
	})
	r.member.take()
	worked := r.measured("workqueue_work_duration_seconds", "name=pods")
	patch(hub, `{"metadata":{"labels":{"changed":"once"}}}`)
	repotest.Eventually(r.t, "the change is seen", func() bool { return r.measured("workqueue_work_duration_seconds", "name=pods") > worked && r.rests() })
	r.hold("held", "member", r.member.take("DELETE pods"))
}

// missing plays the worker of pods for a minute, without a server, with a pod that was seen
// before it was bound and whose ConfigMap is missing.
func missing(t *testing.T, o *Options) (reads []string) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*configMapsWithin+pollInterval/2)
		defer cancel()
		l := loop.New(loop.Options{Name: "pods", Threads: o.PodWorkers, Retry: o.retryLimiter(), Log: slog.New(slog.DiscardHandler), Reconcile: func(ctx context.Context, _ string) error {
			return retryWithin(ctx, configMapsWithin, func() error {
				reads = append(reads, "GET configmaps")
				return errNotYet
			})
		}})
		l.Queue.Add("default/p")
		l.Queue.AddAfter("default/p", unboundAgain)
		l.Run(ctx)
	})
	return reads
}

// holdPod holds what a pod costs.
func (r *countedRig) holdPod(step, name string, token bool) {
	r.t.Helper()
	r.host.take()
	r.member.take()
	r.runPod(name, token)
	kinds := []string{"LIST services", "GET configmaps", "PUT configmaps", "POST configmaps", "GET secrets", "PUT secrets", "POST secrets", "PUT serviceaccounts", "POST pods", "GET namespaces"}
	host := r.host.take(kinds[:8]...)
	if step == "first-token" { // beside what every pod costs; reads follow from what is written
		host = slices.DeleteFunc(host, func(c string) bool { return strings.HasPrefix(c, "GET") })
		for _, call := range strings.Split(r.rows["down node host"], ", ") {
			if i := slices.Index(host, call); i >= 0 {
				host = slices.Delete(host, i, i+1)
			}
		}
	}
	r.hold(step, "host", host)
	r.hold(step, "member", r.member.take(kinds...))
}

// runPod creates a pod on the host and waits until it runs there and nothing is queued. The
// part of the token controller, which fills Secrets, is played.
func (r *countedRig) runPod(name string, token bool) {
	r.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	p.Spec.NodeName = "n0"
	p.Spec.Containers = []corev1.Container{{Name: "app", Image: "registry.example/app:1"}}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
		{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret"}}},
	}
	if token {
		p.Spec.ServiceAccountName = "default"
		source := []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: api.NameRootCA}}},
		}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "t", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: source}}})
	}
	repotest.Must(r.client.CoreV1().Pods("default").Create(r.t.Context(), p, metav1.CreateOptions{}))(r.t)
	repotest.Eventually(r.t, "it runs", func() bool {
		if s, err := r.client.CoreV1().Secrets("default").Get(r.t.Context(), api.TokenName("default"), metav1.GetOptions{}); err == nil && len(s.Data) == 0 {
			s.Data = map[string][]byte{corev1.ServiceAccountTokenKey: []byte("token")}
			_, _ = r.client.CoreV1().Secrets("default").Update(r.t.Context(), s, metav1.UpdateOptions{}) // tried again
		}
		p, err := r.client.CoreV1().Pods("default").Get(r.t.Context(), name, metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodRunning && r.rests()
	})
}

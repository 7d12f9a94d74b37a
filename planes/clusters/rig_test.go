package clusters_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/members"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/tree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/agree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// rig is a cluster tree on hollow clusters: a host, where pods are bound by a model,
// and members, where models make nodes ready and pods run.
type rig struct {
	t        *testing.T
	endpoint endpoint.Endpoint
	host     kubernetes.Interface
	hosting  *hollow.Cluster                  // what host speaks to
	pods     *planetest.Followed[*corev1.Pod] // of the host
	members  []*member
	folder   string // of kubeconfigs
	watch    http.Handler
}

// member is a cluster that joins the tree.
type member struct {
	name    string
	cluster *hollow.Cluster
	kubernetes.Interface
}

// shape says what a rig has.
type shape struct {
	members, nodes int // nodes of each member
	unjoined       bool
	mode           string
}

func newRig(t *testing.T, s shape) *rig {
	t.Helper()
	r := &rig{t: t, folder: t.TempDir(), hosting: planetest.Cluster(t, "host", hollow.Models{Binder: true})}
	r.endpoint = r.hosting.Endpoint()
	r.host = kubernetes.NewForConfigOrDie(r.endpoint.Config("test"))
	r.pods = planetest.Follow[*corev1.Pod](t, informers.NewSharedInformerFactory(r.host, 0).Core().V1().Pods().Informer())
	r.node(r.host, "ordinary", nil)
	for i := range s.members {
		r.member(fmt.Sprintf("m%d", i), s.nodes)
	}
	if !s.unjoined {
		r.join(s)
	}
	return r
}

// member adds a member with nodes that are labelled by two zones in turn.
func (r *rig) member(name string, nodes int) {
	r.t.Helper()
	c := planetest.Cluster(r.t, name, hollow.Models{Binder: true, Stages: []string{"fast", "volumes"}})
	m := &member{name: name, cluster: c, Interface: kubernetes.NewForConfigOrDie(c.Endpoint().Config("test"))}
	for i := range nodes {
		r.node(m, fmt.Sprintf("%s-n%d", name, i), map[string]string{"zone": fmt.Sprint("z", i%2)})
	}
	r.members = append(r.members, m)
	repotest.NoError(r.t, c.Endpoint().WriteKubeconfig(filepath.Join(r.folder, name+".kubeconfig")))
}

func (r *rig) node(c kubernetes.Interface, name string, labels map[string]string) {
	r.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110")}
	n.Status.Capacity, n.Status.Allocatable = room, room
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	repotest.Must(c.CoreV1().Nodes().Create(r.t.Context(), n, metav1.CreateOptions{}))(r.t)
}

// join registers the members and begins to watch that they agree with the host.
func (r *rig) join(s shape) {
	r.t.Helper()
	o := members.Options{
		Env:    process.Env{Config: r.endpoint.Config("members-test"), Registry: instrument.New(""), Log: planetest.Log(r.t)},
		Folder: r.folder, LeafMode: s.mode, Label: "zone", Nodes: s.nodes, Services: true,
	}
	r.watch = o.Registry
	planetest.Start(r.t, func(ctx context.Context) error { return members.Run(ctx, o) })
	repotest.Eventually(r.t, "all members are registered", func() bool {
		return value(r.t, o.Registry, "tree_members_registered") == float64(len(r.members))
	})
}

// manager is a tree that runs.
type manager struct {
	t        *testing.T
	registry *instrument.Registry
	hostAt   string // address
	stop     func()
}

// kosmos are the calls on a resource of the host's.
func (r *rig) kosmos(resource string) dynamic.NamespaceableResourceInterface {
	return dynamic.NewForConfigOrDie(r.endpoint.Config("test")).Resource(schema.GroupVersionResource{Group: api.Group, Version: api.Version, Resource: resource})
}

// manage runs a tree.
func (r *rig) manage(changes ...func(*tree.Options)) *manager {
	r.t.Helper()
	o := tree.Default()
	o.Config, o.Registry, o.Clock, o.Log = r.endpoint.Config("tree-test"), instrument.New(""), clock.Start(), planetest.Log(r.t)
	o.Limiter = limiter.Rate{QPS: 5000, Burst: 5000} // what is held here is what is called, not when
	for _, change := range changes {
		change(&o)
	}
	repotest.NoError(r.t, o.Words().Check())
	m := &manager{t: r.t, registry: o.Registry, hostAt: strings.TrimPrefix(r.endpoint.Server(), "https://")}
	m.stop = planetest.Start(r.t, func(ctx context.Context) error { return tree.Run(ctx, o) })
	return m
}

// joined waits until all members have joined.
func (r *rig) joined(m *manager) {
	r.t.Helper()
	repotest.Eventually(r.t, "all members have joined", func() bool { return value(r.t, m.registry, "tree_members") == float64(len(r.members)) })
}

// value adds up a metric over the series that have all labels, NAME=VALUE.
func value(t *testing.T, registry *instrument.Registry, name string, labels ...string) float64 {
	t.Helper()
	return instrumenttest.Measured(t, registry, name, labels...).Value
}

// hostCalls counts the calls of a verb on a resource of the host.
func (m *manager) hostCalls(verb, resource string) int {
	m.t.Helper()
	return int(value(m.t, m.registry, "rest_client_requests_total", "host="+m.hostAt, "verb="+verb, "resource="+resource))
}

// memberCalls counts those on members.
func (m *manager) memberCalls(verb, resource string) int {
	m.t.Helper()
	return int(value(m.t, m.registry, "rest_client_requests_total", "verb="+verb, "resource="+resource)) - m.hostCalls(verb, resource)
}

// pod is one that tolerates virtual nodes, and no others take it.
func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	p.Spec.NodeSelector = map[string]string{api.LabelNode: "true"}
	p.Spec.Tolerations = []corev1.Toleration{{Key: api.LabelNode, Operator: corev1.TolerationOpExists}}
	p.Spec.Containers = []corev1.Container{{Name: "app", Image: "registry.example/app:1"}}
	for _, c := range change {
		c(p)
	}
	return p
}

// withSettings lets a pod need a ConfigMap and a Secret.
func withSettings(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{
		{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
		{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret"}}},
	}
}

// settings makes what withSettings needs.
func (r *rig) settings() {
	r.t.Helper()
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"level": "info"}}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, Data: map[string][]byte{"key": []byte("x")}}
	repotest.Must(r.host.CoreV1().ConfigMaps("default").Create(r.t.Context(), c, metav1.CreateOptions{}))(r.t)
	repotest.Must(r.host.CoreV1().Secrets("default").Create(r.t.Context(), s, metav1.CreateOptions{}))(r.t)
}

func (r *rig) create(p *corev1.Pod) {
	r.t.Helper()
	repotest.Must(r.host.CoreV1().Pods(p.Namespace).Create(r.t.Context(), p, metav1.CreateOptions{}))(r.t)
}

func (r *rig) creates(count int, change ...func(*corev1.Pod)) {
	r.t.Helper()
	for i := range count {
		r.create(pod(fmt.Sprint("p", i), change...))
	}
}

func (r *rig) delete(name string) {
	r.t.Helper()
	if err := r.host.CoreV1().Pods("default").Delete(r.t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		r.t.Fatal(err)
	}
}

// running is how many of the host's pods run.
func (r *rig) running() (n int) {
	r.t.Helper()
	for _, p := range r.list(r.host) {
		if p.Status.Phase == corev1.PodRunning {
			n++
		}
	}
	return n
}

func (r *rig) list(c kubernetes.Interface) []corev1.Pod {
	r.t.Helper()
	return repotest.Must(c.CoreV1().Pods("default").List(r.t.Context(), metav1.ListOptions{}))(r.t).Items
}

// run waits until so many pods of the host run, and no others are there.
func (r *rig) run(count int) {
	r.t.Helper()
	r.pods.Await(fmt.Sprintf("%d pods run", count), func(all []*corev1.Pod) bool {
		return len(all) == count && !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil })
	})
}

// differences asks in what host and members disagree.
func (r *rig) differences() (int, []agree.Difference) { return planetest.Differences(r.t, r.watch) }

// agree waits until host and members agree.
func (r *rig) agree() {
	r.t.Helper()
	planetest.AwaitAgreement(r.t, r.watch)
}

// nodes returns the names of the host's virtual nodes.
func (r *rig) nodes() (out []string) {
	r.t.Helper()
	list := repotest.Must(r.host.CoreV1().Nodes().List(r.t.Context(), metav1.ListOptions{LabelSelector: api.LabelNode + "=true"}))(r.t)
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return out
}

// improved is the preset.
func improved(o *tree.Options) {
	o.Words().Apply(words.ImprovedPreset)
}

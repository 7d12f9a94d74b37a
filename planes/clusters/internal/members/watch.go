package members

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
)

// The ways in which host and members can disagree.
const (
	missing  = "missing"  // a pod of the host on a virtual node has none in a member
	doubled  = "doubled"  // it has more than one
	unequal  = "unequal"  // its status is another
	extra    = "extra"    // a member's pod of the tree belongs to none of the host
	copies   = "copies"   // a member has a copy of what the host does not have
	services = "services" // a member's service or slice is not what the host has exported and it has imported
	nodes    = "nodes"    // a virtual node belongs to no Cluster
)

func ways() []string { return []string{missing, doubled, unequal, extra, copies, services, nodes} }

// watch holds what host and members have. Its caches keep names, UIDs and digests.
type watch struct {
	host   *api.Client
	joined prometheus.Gauge
	wait   sync.WaitGroup

	pods, nodes, clusters, configs, secrets cache.SharedIndexInformer
	claims, volumes                         cache.SharedIndexInformer
	exports                                 *imports // nil unless members get services

	mu      sync.Mutex
	members map[string]*side
	desc    *prometheus.Desc
	held    *prometheus.Desc
}

// side is what a member has.
type side struct {
	pods, configs, secrets, claims, volumes cache.SharedIndexInformer
	imports                                 *imports // nil unless members get services
}

// newWatch returns a watch that compares services too where members get these.
func newWatch(host *api.Client, services bool) *watch {
	w := &watch{
		host:    host,
		members: map[string]*side{},
		joined:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "tree_members_registered", Help: "Members that have a Cluster: all of them, or 0 before that."}),
		desc:    prometheus.NewDesc("tree_disagreements", "Objects in which host and members disagree, by how.", []string{"how"}, nil),
		held:    prometheus.NewDesc("tree_pods", "Pods on virtual nodes of the host, and pods of the tree in members.", []string{"side"}, nil),
	}
	w.pods, w.nodes, w.clusters = host.Pods.Informer("", nil), host.Nodes.Informer(api.LabelNode+"=true", nil), host.Clusters.Informer("", nil)
	w.configs, w.secrets = host.ConfigMaps.Informer("", nil), host.Secrets.Informer("", nil)
	w.claims, w.volumes = host.Claims.Informer("", nil), host.Volumes.Informer("", nil)
	if services {
		w.exports = importsOf(host, host.Exports, "")
	}
	return w
}

// add begins to watch a member.
func (w *watch) add(ctx context.Context, name string, c *api.Client) error {
	s := &side{pods: c.Pods.Informer(api.LabelPod+"=true", nil), configs: c.ConfigMaps.Informer(api.LabelGlobal+"=true", nil), secrets: c.Secrets.Informer(api.LabelGlobal+"=true", nil)}
	s.claims, s.volumes = c.Claims.Informer("", nil), c.Volumes.Informer("", nil)
	informers := []cache.SharedIndexInformer{s.pods, s.configs, s.secrets, s.claims, s.volumes}
	if w.exports != nil {
		s.imports = importsOf(c, c.Imports, api.LabelGlobal+"=true")
		informers = append(informers, s.imports.informers()...)
	}
	if err := w.start(ctx, informers...); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members[name] = s
	return nil
}

func (w *watch) start(ctx context.Context, informers ...cache.SharedIndexInformer) error {
	for _, i := range informers {
		if err := i.SetTransform(slim); err != nil {
			return err
		}
	}
	return loop.Start(ctx, &w.wait, informers...)
}

// slim keeps of an object its name and what is compared of it.
func slim(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		return slimPod(o), nil
	case *corev1.Node:
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.Name, ResourceVersion: o.ResourceVersion, Annotations: map[string]string{api.AnnotationOwnedBy: o.Annotations[api.AnnotationOwnedBy]}}}, nil
	case *corev1.ConfigMap:
		return &corev1.ConfigMap{ObjectMeta: named(o)}, nil
	case *corev1.Secret:
		return &corev1.Secret{ObjectMeta: named(o)}, nil
	case *corev1.Service:
		return &corev1.Service{ObjectMeta: named(o)}, nil
	case *discoveryv1.EndpointSlice:
		return slimSlice(o), nil
	case *api.Mark:
		return slimMark(o), nil
	case *api.Cluster:
		return &api.Cluster{ObjectMeta: named(o)}, nil
	case *corev1.PersistentVolumeClaim:
		return slimClaim(o), nil
	case *corev1.PersistentVolume:
		return slimVolume(o), nil
	}
	return o, nil
}

func named(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), ResourceVersion: o.GetResourceVersion()}
}

// Difference is one object in which host and members disagree.
type Difference struct {
	How     string   `json:"how"`
	Object  string   `json:"object"` // NAMESPACE/NAME, or a node's name
	Members []string `json:"members,omitempty"`
}

// compare returns the differences, and how many pods there are on both sides.
func (w *watch) compare() (out []Difference, host, inMembers int) {
	w.mu.Lock()
	members := maps.Clone(w.members)
	w.mu.Unlock()
	var have inventory
	for name, s := range members {
		have.add(name, s.pods.GetIndexer().List())
		out = append(out, leftCopies(name, s.configs, w.configs)...)
		out = append(out, leftCopies(name, s.secrets, w.secrets)...)
		out = append(out, w.leftStorage(name, s)...)
		if s.imports != nil {
			out = append(out, s.imports.differs(name, w.exports)...)
		}
	}
	inMembers = have.count
	for _, o := range w.pods.GetIndexer().List() {
		p := o.(*pod)
		if _, virtual, _ := w.nodes.GetIndexer().GetByKey(p.node); !virtual {
			continue
		}
		host++
		if d, differs := have.compare(p); differs {
			out = append(out, d)
		}
	}
	out = append(out, have.rest()...)
	for _, o := range w.nodes.GetIndexer().List() {
		n := o.(*corev1.Node)
		if _, there, _ := w.clusters.GetIndexer().GetByKey(n.Annotations[api.AnnotationOwnedBy]); !there {
			out = append(out, Difference{How: nodes, Object: n.Name})
		}
	}
	return out, host, inMembers
}

// leftCopies are a member's copies of what the host does not have. That of the host's
// authority has another name there.
func leftCopies(member string, there, host cache.SharedIndexInformer) (out []Difference) {
	for _, key := range there.GetIndexer().ListKeys() {
		namespace, name, _ := cache.SplitMetaNamespaceKey(key) // it is one
		if name == api.NameHostCA {
			name = api.NameRootCA
		}
		if _, ok, _ := host.GetIndexer().GetByKey(namespace + "/" + name); !ok {
			out = append(out, Difference{copies, key, []string{member}})
		}
	}
	return out
}

// Describe and Collect make it a prometheus.Collector.
func (w *watch) Describe(out chan<- *prometheus.Desc) { out <- w.desc; out <- w.held }

// Collect compares.
func (w *watch) Collect(out chan<- prometheus.Metric) {
	differences, host, inMembers := w.compare()
	by := map[string]int{}
	for _, d := range differences {
		by[d.How]++
	}
	for _, how := range ways() {
		out <- prometheus.MustNewConstMetric(w.desc, prometheus.GaugeValue, float64(by[how]), how)
	}
	out <- prometheus.MustNewConstMetric(w.held, prometheus.GaugeValue, float64(host), "host")
	out <- prometheus.MustNewConstMetric(w.held, prometheus.GaugeValue, float64(inMembers), "members")
}

// mostShown bounds what ServeHTTP names.
const mostShown = 1000

// ServeHTTP names the differences.
func (w *watch) ServeHTTP(rw http.ResponseWriter, _ *http.Request) {
	all, _, _ := w.compare()
	slices.SortFunc(all, func(a, b Difference) int { return strings.Compare(a.How+a.Object, b.How+b.Object) })
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(map[string]any{"count": len(all), "first": all[:min(len(all), mostShown)]}) // a reader that has left misses nothing
}

package members

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/agree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
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

func differenceKinds() []string {
	return []string{missing, doubled, unequal, extra, copies, services, nodes}
}

// watch holds what host and members have. Its caches keep names, UIDs and digests.
type watch struct {
	host   *api.Client
	joined prometheus.Gauge
	wait   sync.WaitGroup

	own             *side // what the host has; its imports are what it exports
	nodes, clusters cache.SharedIndexInformer

	mu      sync.Mutex
	members map[string]*side
	desc    *prometheus.Desc
	held    *prometheus.Desc
}

// side is what a member, or the host, has of what is copied.
type side struct {
	caches                                  slim.Set
	pods, configs, secrets, claims, volumes cache.SharedIndexInformer
	imports                                 *imports // nil unless members get services
}

// newSide makes the caches of the pods and copies that selectors select, which keep what is
// compared.
func newSide(c *api.Client, pods, copies string) *side {
	s := &side{}
	s.pods = slim.Add(&s.caches, c.Pods.Informer(pods, nil), slim.Always(keepPod))
	s.configs = slim.Add(&s.caches, c.ConfigMaps.Informer(copies, nil), slim.Always(keepName[*corev1.ConfigMap]))
	s.secrets = slim.Add(&s.caches, c.Secrets.Informer(copies, nil), slim.Always(keepName[*corev1.Secret]))
	s.claims = slim.Add(&s.caches, c.Claims.Informer("", nil), slim.Always(keepClaim))
	s.volumes = slim.Add(&s.caches, c.Volumes.Informer("", nil), slim.Always(keepVolume))
	return s
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
	w.own = newSide(host, "", "")
	w.nodes = slim.Add(&w.own.caches, host.Nodes.Informer(api.LabelNode+"=true", nil), slim.Always(keepNode))
	w.clusters = slim.Add(&w.own.caches, host.Clusters.Informer("", nil), slim.Always(keepName[*api.Cluster]))
	if services {
		w.own.imports = importsOf(host, host.Exports, "", &w.own.caches)
	}
	return w
}

// addMember begins to watch a member.
func (w *watch) addMember(ctx context.Context, name string, c *api.Client) error {
	const copiesOnly = api.LabelGlobal + "=true"
	s := newSide(c, api.LabelPod+"=true", copiesOnly)
	if w.own.imports != nil {
		s.imports = importsOf(c, c.Imports, copiesOnly, &s.caches)
	}
	if err := s.caches.Start(ctx, &w.wait); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members[name] = s
	return nil
}

// objectName is what is kept of an object of which nothing is asked but whether it is there.
type objectName struct{ metav1.ObjectMeta }

func keepName[T metav1.Object](o T) *objectName {
	return &objectName{metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), ResourceVersion: o.GetResourceVersion()}}
}

// virtualNode is what is kept of a virtual node of the host.
type virtualNode struct {
	objectName

	cluster string // whose it is
}

func keepNode(n *corev1.Node) *virtualNode {
	return &virtualNode{*keepName(n), n.Annotations[api.AnnotationOwnedBy]}
}

// differences are those of all pods, nodes, copies and services.
func (w *watch) differences() []agree.Difference {
	all, _, _ := w.compareAll()
	return all
}

// compareAll returns the differences, and how many pods there are on both sides.
func (w *watch) compareAll() (out []agree.Difference, host, inMembers int) {
	w.mu.Lock()
	members := maps.Clone(w.members)
	w.mu.Unlock()
	var have inventory
	for name, s := range members {
		have.addPods(name, slim.All[*pod](s.pods))
		out = append(out, leftCopies(name, s.configs, w.own.configs)...)
		out = append(out, leftCopies(name, s.secrets, w.own.secrets)...)
		out = append(out, w.leftStorage(name, s)...)
		if s.imports != nil {
			out = append(out, s.imports.compareImports(name, w.own.imports)...)
		}
	}
	inMembers = have.count
	for _, p := range slim.All[*pod](w.own.pods) {
		if !slim.Has(w.nodes, p.node) {
			continue
		}
		host++
		if d, differs := have.comparePod(p); differs {
			out = append(out, d)
		}
	}
	out = append(out, have.remainingPods()...)
	for _, n := range slim.All[*virtualNode](w.nodes) {
		if !slim.Has(w.clusters, n.cluster) {
			out = append(out, agree.Difference{How: nodes, Object: n.Name})
		}
	}
	return out, host, inMembers
}

// leftCopies are a member's copies of what the host does not have. That of the host's
// authority has another name there.
func leftCopies(member string, there, host cache.SharedIndexInformer) (out []agree.Difference) {
	for _, key := range there.GetIndexer().ListKeys() {
		namespace, name, _ := cache.SplitMetaNamespaceKey(key) // it is one
		if name == api.NameHostCA {
			name = api.NameRootCA
		}
		if !slim.Has(host, namespace+"/"+name) {
			out = append(out, agree.Difference{How: copies, Object: key, Where: []string{member}})
		}
	}
	return out
}

// Describe and Collect make it a prometheus.Collector.
func (w *watch) Describe(out chan<- *prometheus.Desc) { out <- w.desc; out <- w.held }

// Collect compares.
func (w *watch) Collect(out chan<- prometheus.Metric) {
	differences, host, inMembers := w.compareAll()
	by := map[string]int{}
	for _, d := range differences {
		by[d.How]++
	}
	for _, how := range differenceKinds() {
		out <- prometheus.MustNewConstMetric(w.desc, prometheus.GaugeValue, float64(by[how]), how)
	}
	out <- prometheus.MustNewConstMetric(w.held, prometheus.GaugeValue, float64(host), "host")
	out <- prometheus.MustNewConstMetric(w.held, prometheus.GaugeValue, float64(inMembers), "members")
}

package tree

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// convertPod changes a pod on its way to a leaf by the first policy, by name, that is about
// it: of its namespace, or of the cluster where none of its namespace is.
func (t *tree) convertPod(l *leaf, hub, p *corev1.Pod) {
	policy := t.policyFor(slim.ByIndex[*api.ConvertPolicy](t.hub.policies, cache.NamespaceIndex, hub.Namespace), l, hub)
	if policy == nil {
		policy = t.policyFor(slim.All[*api.ConvertPolicy](t.hub.clusterPolicies), l, hub)
	}
	if policy == nil {
		return
	}
	policy.Spec.Converters.Convert(&p.Spec)
	p.Annotations[api.AnnotationPolicy] = policy.Name
	t.metrics.converted.WithLabelValues(policy.Name).Inc()
}

// policyFor returns the first of some policies, by name, that is about a pod; nil if none is.
func (t *tree) policyFor(all []*api.ConvertPolicy, l *leaf, hub *corev1.Pod) *api.ConvertPolicy {
	slices.SortFunc(all, func(a, b *api.ConvertPolicy) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range all {
		if p.Spec.Converters != nil && selectsLabels(&p.Spec.LabelSelector, labels.Set(hub.Labels)) && t.selectsLeaf(p.Spec.LeafNodeSelector, l) {
			return p
		}
	}
	return nil
}

// selectsLeaf tells whether a selector, nil for all, matches a leaf's node on the hub.
func (t *tree) selectsLeaf(s *metav1.LabelSelector, l *leaf) bool {
	if s == nil {
		return true
	}
	n := slim.Get[*hubNode](t.hub.nodes, l.node)
	return n != nil && selectsLabels(s, n.labels)
}

// selectsLabels tells whether a selector matches; one that cannot be read matches nothing.
func selectsLabels(s *metav1.LabelSelector, of labels.Labels) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(of)
}

package controller

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// members are the clusters whose Secrets are in a cache.
type members struct{ cache.SharedIndexInformer }

// Has says whether a member of the name has joined.
func (m members) Has(name string) bool { return slim.Has(m, api.SystemNamespace+"/"+name) }

// Matching returns the names of the members with labels, in order.
func (m members) Matching(with map[string]string) (names []string) {
	selector := labels.SelectorFromSet(with)
	for _, s := range slim.All[*corev1.Secret](m) {
		if selector.Matches(labels.Set(s.Labels)) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

// nameAndLabels keeps of a member's Secret what topologies ask for.
func nameAndLabels(s *corev1.Secret) *corev1.Secret {
	kept := &corev1.Secret{ObjectMeta: slim.Named(s)}
	kept.Labels = maps.Clone(s.Labels)
	return kept
}

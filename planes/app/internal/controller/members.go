package controller

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// members are the clusters whose Secrets are in a cache.
type members struct{ cache.SharedIndexInformer }

// Has says whether a member of the name has joined.
func (m members) Has(name string) (bool, error) {
	_, joined, err := m.GetStore().GetByKey(api.SystemNamespace + "/" + name)
	return joined, err
}

// Matching returns the names of the members with labels, in order.
func (m members) Matching(with map[string]string) (names []string) {
	selector := labels.SelectorFromSet(with)
	for _, o := range m.GetStore().List() {
		if s := o.(*corev1.Secret); selector.Matches(labels.Set(s.Labels)) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

// nameAndLabels keeps of a member's Secret what topologies ask for.
func nameAndLabels(o any) (any, error) {
	if s, ok := o.(*corev1.Secret); ok {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name, ResourceVersion: s.ResourceVersion, UID: s.UID, Labels: maps.Clone(s.Labels),
		}}, nil
	}
	return o, nil
}

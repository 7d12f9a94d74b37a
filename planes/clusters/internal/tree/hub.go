package tree

import (
	"errors"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

const byNode = "node" // index of the hub's pods

// hub is the cluster that users speak to, Kosmos' host: its client and its caches.
type hub struct {
	client *api.Client

	clusters, nodes, pods      cache.SharedIndexInformer
	configs, secrets, services cache.SharedIndexInformer
	claims, volumes            cache.SharedIndexInformer
	policies, clusterPolicies  cache.SharedIndexInformer
	slices, exports            cache.SharedIndexInformer // nil unless services are imported
}

// newHub makes the caches, which are filled when they are started.
func newHub(client *api.Client, importing bool) *hub {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	h := &hub{
		client:   client,
		clusters: client.Clusters.Informer("", nil), nodes: client.Nodes.Informer("", nil), pods: client.Pods.Informer("", cache.Indexers{byNode: nodeOf}),
		configs: client.ConfigMaps.Informer("", nil), secrets: client.Secrets.Informer("", nil), services: client.Services.Informer("", byNamespace),
		claims: client.Claims.Informer("", nil), volumes: client.Volumes.Informer("", nil),
		policies: client.Policies.Informer("", byNamespace), clusterPolicies: client.ClusterPolicies.Informer("", nil),
	}
	if importing {
		h.slices = client.Slices.Informer("", cache.Indexers{byService: indexByService})
		h.exports = client.Exports.Informer("", nil)
	}
	return h
}

// allInformers are all caches of the hub.
func (h *hub) allInformers() []cache.SharedIndexInformer {
	all := []cache.SharedIndexInformer{h.clusters, h.nodes, h.pods, h.configs, h.secrets, h.services, h.claims, h.volumes, h.policies, h.clusterPolicies}
	if h.slices != nil {
		all = append(all, h.slices, h.exports)
	}
	return all
}

// setTransforms lets caches keep what is used.
func (h *hub) setTransforms() error {
	errs := []error{slim.Keep(h.pods, slim.Always(keepHubPod)), slim.Keep(h.nodes, slim.Always(keepHubNode))}
	for _, whole := range []cache.SharedIndexInformer{h.configs, h.secrets, h.services, h.clusters, h.claims, h.volumes, h.slices} {
		if whole != nil {
			errs = append(errs, slim.Keep(whole, slim.WithoutManagedFields))
		}
	}
	return errors.Join(errs...)
}

// podByKey returns the pod of a key as the cache has it, nil if there is none.
func (h *hub) podByKey(key string) *hubPod { return slim.Get[*hubPod](h.pods, key) }

// isExported tells whether members may have a service. An export that is being deleted
// lets them no more.
func (h *hub) isExported(key string) bool {
	export := slim.Get[*api.Mark](h.exports, key)
	return export != nil && export.DeletionTimestamp == nil
}

// slicesOf are the slices of a service, by name.
func (h *hub) slicesOf(service string) []*discoveryv1.EndpointSlice {
	return slicesOf(h.slices, service)
}

// slicesOf are those of a service that a cache has, by name.
func slicesOf(informer cache.SharedIndexInformer, service string) []*discoveryv1.EndpointSlice {
	out := slim.ByIndex[*discoveryv1.EndpointSlice](informer, byService, service)
	slices.SortFunc(out, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func nodeOf(o any) ([]string, error) {
	if p, ok := o.(*hubPod); ok && p.node != "" {
		return []string{p.node}, nil
	}
	return nil, nil
}

package tree

import (
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
	caches slim.Set

	clusters, nodes, pods      cache.SharedIndexInformer
	configs, secrets, services cache.SharedIndexInformer
	claims, volumes            cache.SharedIndexInformer
	policies, clusterPolicies  cache.SharedIndexInformer
	slices, exports            cache.SharedIndexInformer // nil unless services are imported
}

// newHub makes the caches, which are filled when they are started.
func newHub(client *api.Client, importing bool) *hub {
	h := &hub{client: client}
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	keep := func(i cache.SharedIndexInformer) cache.SharedIndexInformer {
		return slim.Add(&h.caches, i, slim.WithoutManagedFields)
	}
	h.pods = slim.Add(&h.caches, client.Pods.Informer("", cache.Indexers{byNode: nodeOf}), slim.Always(keepHubPod))
	h.nodes = slim.Add(&h.caches, client.Nodes.Informer("", nil), slim.Always(keepHubNode))
	h.clusters, h.configs, h.secrets = keep(client.Clusters.Informer("", nil)), keep(client.ConfigMaps.Informer("", nil)), keep(client.Secrets.Informer("", nil))
	h.services, h.claims, h.volumes = keep(client.Services.Informer("", byNamespace)), keep(client.Claims.Informer("", nil)), keep(client.Volumes.Informer("", nil))
	h.policies = slim.Add(&h.caches, client.Policies.Informer("", byNamespace), slim.Whole)
	h.clusterPolicies = slim.Add(&h.caches, client.ClusterPolicies.Informer("", nil), slim.Whole)
	if importing {
		h.slices = keep(client.Slices.Informer("", cache.Indexers{byService: indexByService}))
		h.exports = slim.Add(&h.caches, client.Exports.Informer("", nil), slim.Whole)
	}
	return h
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

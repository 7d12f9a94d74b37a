package tree

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// member is a cluster of the tree: its client, its caches, and the virtual nodes that
// stand for it on the hub.
type member struct {
	name   string
	client *api.Client
	leaves []*leaf
	byNode map[string]*leaf // by the member's node, of leaves that stand for one
	caches slim.Set

	nodes, pods      cache.SharedIndexInformer
	configs, secrets cache.SharedIndexInformer // copies of the hub's; nil unless dependents are cached
	claims, volumes  cache.SharedIndexInformer
	imports          cache.SharedIndexInformer // nil unless services are imported
	services, slices cache.SharedIndexInformer // copies of the hub's; nil unless these go with whatever they are of
}

// newMember makes the side of a member: its caches are filled when they are started.
func newMember(t *tree, c *api.Cluster) (*member, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(c.Spec.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of cluster %s: %w", c.Name, err)
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return api.TimeCalls(next, t.o.Clock, func(class string, seconds float64) {
			t.metrics.answered.WithLabelValues(c.Name, class).Observe(seconds)
		})
	})
	m := &member{name: c.Name, byNode: map[string]*leaf{}}
	if m.client, err = t.newClient("member", config); err != nil {
		return nil, err
	}
	models := c.Leaves()
	for i := range models {
		l := &leaf{node: models[i].NodeName(c.Name, i), model: &models[i], mode: models[i].Mode()}
		m.leaves = append(m.leaves, l)
		if l.mode == api.LeafNode {
			m.byNode[l.model.NodeSelector.NodeName] = l
		}
	}
	m.makeCaches(&t.o)
	return m, nil
}

// copiesOnly selects the objects of a member that are copies of the hub's.
const copiesOnly = api.LabelGlobal + "=true"

func (m *member) makeCaches(o *Options) {
	copies := func(i cache.SharedIndexInformer) cache.SharedIndexInformer { return slim.Add(&m.caches, i, slim.Whole) }
	m.nodes = slim.Add(&m.caches, m.client.Nodes.Informer("", nil), slim.Always(keepMemberNode))
	m.pods = slim.Add(&m.caches, m.client.Pods.Informer("", nil), keepMemberPod)
	m.claims = slim.Add(&m.caches, m.client.Claims.Informer("", nil), slim.WithoutManagedFields)
	m.volumes = slim.Add(&m.caches, m.client.Volumes.Informer("", cache.Indexers{byClaim: claimOf}), slim.WithoutManagedFields)
	if o.Dependents == DependentsCached {
		m.configs, m.secrets = copies(m.client.ConfigMaps.Informer(copiesOnly, nil)), copies(m.client.Secrets.Informer(copiesOnly, nil))
	}
	if o.Import == ImportOff {
		return
	}
	m.imports = copies(m.client.Imports.Informer("", nil))
	if o.ImportEnd == ImportEndAll {
		m.services = slim.Add(&m.caches, m.client.Services.Informer(copiesOnly, nil), slim.WithoutManagedFields)
		m.slices = slim.Add(&m.caches, m.client.Slices.Informer(copiesOnly, cache.Indexers{byService: indexByService}), slim.Always(keepCopy))
	}
}

// podByKey returns the pod of a key as the cache has it, nil if there is none.
func (m *member) podByKey(key string) *memberPod { return slim.Get[*memberPod](m.pods, key) }

// standsForNodes tells whether each of the member's leaves stands for one of its nodes.
func (m *member) standsForNodes() bool { return len(m.byNode) == len(m.leaves) }

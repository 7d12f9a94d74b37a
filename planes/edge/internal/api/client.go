package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// Client speaks to an API server with one rate limit for all its calls.
type Client struct {
	kubernetes.Interface
	syncs   rest.Interface
	devices rest.Interface
}

// NewClient returns a client. The configuration says its rate limiter, or with a
// negative QPS that it has none.
func NewClient(config *rest.Config) (*Client, error) {
	if config.RateLimiter == nil && config.QPS >= 0 {
		return nil, errors.New("client: no rate limiter")
	}
	core := rest.CopyConfig(config)
	core.ContentType, core.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	typed, err := kubernetes.NewForConfig(core)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	out := &Client{Interface: typed}
	if out.syncs, err = resource.REST(config, GroupVersion(), newScheme()); err != nil {
		return nil, err
	}
	out.devices, err = resource.REST(config, DevicesVersion(), newScheme())
	return out, err
}

// syncResource is where a Sync of a namespace is; nodes have none.
func syncResource(namespace string) (name, kind string) {
	if namespace == "" {
		return ResourceNodeSyncs, "ClusterObjectSync"
	}
	return ResourceSyncs, "ObjectSync"
}

// GetSync reads one.
func (c *Client) GetSync(ctx context.Context, namespace, name string) (*Sync, error) {
	plural, _ := syncResource(namespace)
	out := &Sync{}
	return out, c.syncs.Get().NamespaceIfScoped(namespace, namespace != "").Resource(plural).Name(name).Do(ctx).Into(out)
}

// CreateSync makes one; its status is not taken, which is UpdateSync's.
func (c *Client) CreateSync(ctx context.Context, s *Sync) (*Sync, error) {
	return s.sendBy(ctx, c.syncs.Post())
}

// UpdateSync writes the status of one.
func (c *Client) UpdateSync(ctx context.Context, s *Sync) (*Sync, error) {
	return s.sendBy(ctx, c.syncs.Put().Name(s.Name).SubResource("status"))
}

// sendBy sends a Sync. A codec would name the first of its two kinds.
func (s *Sync) sendBy(ctx context.Context, r *rest.Request) (*Sync, error) {
	plural, kind := syncResource(s.Namespace)
	s.TypeMeta = metav1.TypeMeta{APIVersion: GroupVersion().String(), Kind: kind}
	body, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	out := &Sync{}
	return out, r.NamespaceIfScoped(s.Namespace, s.Namespace != "").Resource(plural).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Into(out)
}

// DeleteSync deletes one.
func (c *Client) DeleteSync(ctx context.Context, namespace, name string) error {
	plural, _ := syncResource(namespace)
	return c.syncs.Delete().NamespaceIfScoped(namespace, namespace != "").Resource(plural).Name(name).Do(ctx).Error()
}

// ByNode is the index of the informers of Syncs: by the node that has the objects.
const ByNode = "node"

// SyncInformer returns an informer of ObjectSyncs, or of ClusterObjectSyncs.
func (c *Client) SyncInformer(plural string) cache.SharedIndexInformer {
	return resource.New[*Sync](c.syncs, plural).Informer("", 0, cache.Indexers{ByNode: func(o any) ([]string, error) {
		node, _ := o.(*Sync).Parts()
		return []string{node}, nil
	}})
}

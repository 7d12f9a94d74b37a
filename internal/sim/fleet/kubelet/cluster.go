package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
)

// ClusterOptions say where a Cluster finds nodes and pods.
type ClusterOptions struct {
	Client   *wire.Client
	Clock    clock.Clock
	Selector string                 // of nodes, more of the query: labelSelector=..., escaped; empty: all
	Managed  func(node string) bool // nil: every node that Selector finds
	Log      *slog.Logger           // may be nil
}

// Cluster is the World of an API server. While a server has metrics it follows
// nodes and pods with one watch each and keeps of them what the metrics speak
// of; otherwise it keeps nothing. Single pods are asked for. Close it after use.
type Cluster struct {
	options ClusterOptions
	log     *slog.Logger
	wait    guard.Group

	mu     sync.RWMutex
	closed bool
	words  []string
	cancel context.CancelFunc // of what follows now; nil when nothing does
	state  *state
}

// NewCluster returns a Cluster; it asks for nothing yet.
func NewCluster(o ClusterOptions) *Cluster {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Cluster{options: o, log: o.Log}
}

// Need says which words the expressions of metrics hold; nil says that there are
// no metrics. Words that were not needed before begin the watches anew.
func (c *Cluster) Need(words []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fits := c.state != nil && !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(c.words, w) })
	if c.closed || words != nil && fits {
		return
	}
	if c.cancel != nil {
		c.cancel()
	}
	c.words, c.cancel, c.state = words, nil, nil
	if words == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.state = cancel, newState(words)
	state := c.state
	nodes := &follower[string]{
		state: state, path: "/api/v1/nodes", keep: state.keepNodeLocked, drop: state.dropNodeLocked,
		known: func() iter.Seq[string] { return maps.Keys(state.byNode) },
	}
	pods := &follower[podName]{
		state: state, path: "/api/v1/pods", keep: state.keepPodLocked, drop: state.dropPodLocked,
		known: func() iter.Seq[podName] { return maps.Keys(state.byPod) },
	}
	c.wait.Go(func() {
		c.followRetrying(ctx, state, watch.Options{Path: nodes.path, Selector: c.options.Selector}, nodes)
	})
	c.wait.Go(func() {
		c.followRetrying(ctx, state, watch.Options{Path: pods.path, Selector: "fieldSelector=spec.nodeName!%3D"}, pods)
	})
}

// Close ends the watches and waits for them. It is idempotent.
func (c *Cluster) Close() error {
	c.mu.Lock()
	c.closed = true
	if c.cancel != nil {
		c.cancel()
	}
	c.mu.Unlock()
	c.wait.Wait()
	return nil
}

// refollow is how long a refused watch is left alone.
const refollow = 10 * time.Second

func (c *Cluster) followRetrying(ctx context.Context, s *state, o watch.Options, h watch.Handler) {
	o.Clock, o.Refusals = c.options.Clock, 1
	for {
		err := watch.Follow(ctx, c.options.Client, o, h)
		if ctx.Err() != nil {
			return
		}
		c.log.Warn("metrics have no objects", "err", err)
		s.noteRefused(o.Path, err)
		if clock.Sleep(ctx, refollow) != nil {
			return
		}
	}
}

// errIdle says that nothing follows the objects.
var errIdle = errors.New("no metrics are configured")

// awaitFollowed returns the state once its first lists are complete.
func (c *Cluster) awaitFollowed(ctx context.Context) (*state, error) {
	c.mu.RLock()
	s := c.state
	c.mu.RUnlock()
	if s == nil {
		return nil, errIdle
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, fmt.Errorf("the objects are not listed yet: %w", ctx.Err())
	}
	return s, s.firstRefusal()
}

// Node returns a node as far as metrics need it.
func (c *Cluster) Node(ctx context.Context, name string) (*corev1.Node, error) {
	s, err := c.awaitFollowed(ctx)
	if err != nil {
		return nil, err
	}
	raw := s.nodeBytes(name)
	if raw == nil || c.options.Managed != nil && !c.options.Managed(name) {
		return nil, fmt.Errorf("node %s: %w", name, ErrNotFound)
	}
	var n corev1.Node
	if err := n.Unmarshal(raw); err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	return &n, nil
}

// PodsOn returns the pods of a node as far as metrics need them, in the order of
// their names.
func (c *Cluster) PodsOn(ctx context.Context, node string) ([]*corev1.Pod, error) {
	s, err := c.awaitFollowed(ctx)
	if err != nil {
		return nil, err
	}
	all := s.podBytes(node)
	out := make([]*corev1.Pod, 0, len(all))
	for _, raw := range all {
		var p corev1.Pod
		if err := p.Unmarshal(raw); err != nil {
			return nil, fmt.Errorf("pod on node %s: %w", node, err)
		}
		out = append(out, &p)
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return out, nil
}

// Nodes returns the names of the nodes.
func (c *Cluster) Nodes() []string {
	c.mu.RLock()
	s := c.state
	c.mu.RUnlock()
	if s == nil {
		return nil
	}
	names := s.nodeNames()
	if c.options.Managed != nil {
		names = slices.DeleteFunc(names, func(n string) bool { return !c.options.Managed(n) })
	}
	return names
}

// Started returns how many containers were started on a node since it is
// followed, those that ran at its beginning among them.
func (c *Cluster) Started(node string) float64 {
	c.mu.RLock()
	s := c.state
	c.mu.RUnlock()
	if s == nil {
		return 0
	}
	return s.startedOn(node)
}

// Pod asks the API server for a pod.
func (c *Cluster) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	body, err := c.getObject(ctx, "/api/v1/namespaces/"+url.PathEscape(namespace)+"/pods/"+url.PathEscape(name))
	if err != nil {
		return nil, err
	}
	var p corev1.Pod
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", namespace, name, err)
	}
	return &p, nil
}

// PodList asks the API server for the pods of a node.
func (c *Cluster) PodList(ctx context.Context, node string) ([]byte, error) {
	return c.getObject(ctx, "/api/v1/pods?limit=5000&fieldSelector="+url.QueryEscape("spec.nodeName="+node))
}

func (c *Cluster) getObject(ctx context.Context, path string) ([]byte, error) {
	r, err := c.options.Client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path, Timeout: askTimeout})
	switch {
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", path, err)
	case r.Code == http.StatusNotFound:
		return nil, fmt.Errorf("get %s: %w", path, ErrNotFound)
	case r.Code >= http.StatusBadRequest:
		return nil, fmt.Errorf("get %s: %w", path, r.Refusal())
	}
	return r.Body, nil
}

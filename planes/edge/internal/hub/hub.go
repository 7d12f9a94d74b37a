// Package hub is the cloud side of the edge plane, KubeEdge's CloudCore as far as
// edges see it: it lets them enrol, holds their connections, sends each what
// concerns it until that is acknowledged, writes down what was, and writes to the
// API server on their behalf.
//
// Defaults are KubeEdge's semantics with what they cost; what is better has an
// option (Improved). Never copied are its crashes and losses: a version that is no
// number, an old connection that ends a new one, an ObjectSync without a status,
// a message of any size.
package hub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/link"
	"github.com/windtunnel/windtunnel/planes/edge/internal/trust"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// Hub is a running hub.
type Hub struct {
	o          Options
	ctx        func() context.Context // of the run
	client     *api.Client
	authority  *trust.Authority
	sessions   *sessions
	metrics    *metrics
	stale      prometheus.Gauge
	store      store
	lastSent   *lastSent
	downstream *downstream
	upstream   *upstream
	poller     *link.Poller
	wait       sync.WaitGroup
	bytes      link.Bytes // on all connections

	pods, nodes, configs, secrets cache.SharedIndexInformer
	leases                        cache.SharedIndexInformer // nil: the hub reads leases
	devices                       *devices                  // nil: edges have none
}

// Run runs a hub until ctx ends; it returns when all has ended.
func Run(ctx context.Context, o Options) error {
	h, err := newHub(o)
	if err != nil {
		return err
	}
	defer h.wait.Wait()
	return o.Work(ctx, func(ctx context.Context, g *process.Group) error {
		h.ctx = func() context.Context { return ctx }
		return h.runHub(ctx, g)
	})
}

func (h *Hub) runHub(ctx context.Context, g *process.Group) (err error) {
	if h.authority, err = h.loadAuthority(ctx); err != nil {
		return errors.Join(err, ctx.Err())
	}
	if h.poller, err = link.NewPoller(ctx); err != nil {
		return err
	}
	defer h.poller.Close()
	if err := h.downstream.addHandlers(ctx); err != nil {
		return err
	}
	h.downstream.startDispatchers(ctx)
	informers := []cache.SharedIndexInformer{h.nodes, h.pods, h.configs, h.secrets}
	if h.devices != nil {
		if err := h.devices.addHandlers(ctx); err != nil {
			return err
		}
		g.Go(func() { h.devices.runTurns(ctx) })
		informers = append(informers, h.devices.models, h.devices.informer)
	}
	if h.leases != nil {
		informers = append(informers, h.leases)
	}
	if s, ok := h.store.(*crdStore); ok {
		informers = append([]cache.SharedIndexInformer{s.objects, s.nodes}, informers...)
	}
	for _, i := range informers { // one after the other: what is dispatched looks into those before
		if err := g.Sync(ctx, i); err != nil {
			return err
		}
	}
	g.Go(func() { h.upstream.dispatchRequests(ctx) })
	if h.o.Store != StoreNone {
		g.Go(func() { h.runRounds(ctx) })
	}
	g.Go(func() { h.endSilentSessions(ctx) })
	return h.serveEdges(ctx)
}

func newHub(o Options) (*Hub, error) {
	if o.Queues == QueuesV111 {
		o.NodeFilter = FilterOff
	}
	config := rest.CopyConfig(o.Config)
	config.Timeout, config.RateLimiter = 0, limiter.New(o.rate())
	o.Registry.Watch(config)
	client, err := api.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("edge-hub: %w", err)
	}
	h := &Hub{o: o, client: client, sessions: newSessions(), lastSent: newLastSent(o)}
	h.stale = o.Registry.Gauge("edge_hub_stale_objects", "Objects that the last round found behind at their edge.")
	if o.Devices {
		h.devices = newDevices(h)
	}
	h.upstream, h.downstream = newUpstream(h), newDownstream(h)
	h.metrics = newMetrics(h, o.Registry)
	factory := informers.NewSharedInformerFactory(client, 0)
	if o.Leases == LeasesWatch {
		h.leases = factory.Coordination().V1().Leases().Informer()
	}
	core := factory.Core().V1()
	h.pods, h.nodes = core.Pods().Informer(), core.Nodes().Informer()
	h.configs, h.secrets = core.ConfigMaps().Informer(), core.Secrets().Informer()
	err = h.pods.AddIndexers(cache.Indexers{byNode: func(o any) ([]string, error) {
		if node := o.(*corev1.Pod).Spec.NodeName; node != "" {
			return []string{node}, nil
		}
		return nil, nil
	}})
	if err == nil && o.PodFilter == FilterSpec {
		err = slim.Keep(h.pods, slim.WithoutManagedFields)
	}
	if err == nil && o.NodeFilter != FilterAll {
		err = slim.Keep(h.nodes, slim.WithoutManagedFields)
	}
	if err != nil {
		return nil, err
	}
	switch o.Store {
	case StoreCRD:
		h.store, err = newCRDStore(h)
	default:
		h.store = &localStore{forgetful: o.Store == StoreNone, versions: map[string]map[key]uint64{}}
	}
	return h, err
}

const byNode = "node" // index of pods

// wallMillis returns the time for messages, in ms since 1970.
func (h *Hub) wallMillis() int64 { return h.o.Now().UnixMilli() }

// recordAcknowledged writes down what an edge has.
func (h *Hub) recordAcknowledged(ctx context.Context, s *session, m *outgoing) {
	var err error
	if m.deletion {
		h.lastSent.forgetObject(m.key)
		err = h.store.recordDeleted(ctx, m.key)
	} else {
		h.lastSent.setSent(m)
		err = h.store.recordVersion(ctx, m.key, m.version)
	}
	if err != nil && ctx.Err() == nil {
		h.metrics.dropped.WithLabelValues("acknowledgement not written down").Inc()
		h.o.Log.Warn("acknowledgement not written down", "node", s.node, "object", m.name, "error", err)
	}
}

// endSilentSessions ends sessions whose keepalives stay away.
func (h *Hub) endSilentSessions(ctx context.Context) {
	tick := time.NewTicker(min(time.Second, h.o.Keepalive/4))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		deadline := int64(h.o.Clock.Now().Add(-h.o.Keepalive))
		for _, s := range h.sessions.listSessions() {
			if s.last.Load() < deadline {
				s.closeWithReason("no keepalive")
			}
		}
	}
}

// annotateNode writes at the node which hub it hangs at.
func (h *Hub) annotateNode(ctx context.Context, node string) {
	if h.o.Annotate == AnnotateWatch {
		if n := slim.Get[*corev1.Node](h.nodes, node); n == nil || n.Annotations[api.AnnotationHub] == h.o.Address {
			return
		}
	}
	err := writeAnnotation(ctx, h.client, node, h.o.Address)
	for range 2 {
		if err == nil || clock.Sleep(ctx, time.Second) != nil {
			return
		}
		err = writeAnnotation(ctx, h.client, node, h.o.Address)
	}
	if err != nil && ctx.Err() == nil {
		h.o.Log.Debug("node not annotated", "node", node, "error", err) // it has not joined yet, or is away
	}
}

// writeAnnotation writes a hub's address at a node where another stands there.
func writeAnnotation(ctx context.Context, c *api.Client, node, address string) error {
	n, err := c.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil || n.Annotations[api.AnnotationHub] == address {
		return err
	}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, api.AnnotationHub, address)
	_, err = c.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
	return err
}

// cutKind splits KIND/NAMESPACE/NAME behind the kind.
func cutKind(id string) (kind, rest string, ok bool) { return strings.Cut(id, "/") }

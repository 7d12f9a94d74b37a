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
	"k8s.io/client-go/util/retry"

	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/link"
	"github.com/windtunnel/windtunnel/planes/edge/internal/trust"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
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
	devices                       *devices // nil: edges have none
}

// Run runs a hub until ctx ends; it returns when all has ended.
func Run(ctx context.Context, o Options) error {
	h, err := prepare(o)
	if err != nil {
		return err
	}
	defer h.wait.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.ctx = func() context.Context { return ctx }
	if h.authority, err = h.trusted(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if h.poller, err = link.NewPoller(ctx); err != nil {
		return err
	}
	defer h.poller.Close()
	if err := h.downstream.watch(ctx); err != nil {
		return err
	}
	h.downstream.run(ctx)
	informers := []cache.SharedIndexInformer{h.nodes, h.pods, h.configs, h.secrets}
	if h.devices != nil {
		if err := h.devices.watch(ctx); err != nil {
			return err
		}
		h.wait.Go(func() { h.devices.run(ctx) })
		informers = append(informers, h.devices.models, h.devices.informer)
	}
	if s, ok := h.store.(*crdStore); ok {
		informers = append([]cache.SharedIndexInformer{s.objects, s.nodes}, informers...)
	}
	for _, i := range informers { // one after the other: what is dispatched looks into those before
		if err := loop.Start(ctx, &h.wait, i); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	h.wait.Go(func() { h.upstream.run(ctx) })
	if o.Store != StoreNone {
		h.wait.Go(func() { h.rounds(ctx) })
	}
	h.wait.Go(func() { h.liveness(ctx) })
	return h.serve(ctx)
}

func prepare(o Options) (*Hub, error) {
	if o.Queues == QueuesV111 {
		o.NodeFilter = FilterOff
	}
	config := rest.CopyConfig(o.Config)
	config.UserAgent, config.Timeout = "windtunnel-edge-hub", 0
	o.Registry.Watch(config)
	client, err := api.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("edge-hub: %w", err)
	}
	h := &Hub{o: o, client: client, sessions: newSessions(), lastSent: newLastSent(o)}
	h.stale = prometheus.NewGauge(prometheus.GaugeOpts{Name: "edge_hub_stale_objects", Help: "Objects that the last round found behind at their edge."})
	o.Registry.MustRegister(h.stale)
	if o.Devices {
		h.devices = newDevices(h)
	}
	h.upstream, h.downstream = newUpstream(h), newDownstream(h)
	h.metrics = newMetrics(h, o.Registry)
	core := informers.NewSharedInformerFactory(client, 0).Core().V1()
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

// wall returns the time for messages, in ms since 1970.
func (h *Hub) wall() int64 { return h.now().UnixMilli() }

func (h *Hub) now() time.Time { return h.o.Clock.Wall(h.o.Clock.Now()) }

// acknowledged writes down what an edge has.
func (h *Hub) acknowledged(ctx context.Context, s *session, m *outgoing) {
	var err error
	if m.deletion {
		h.lastSent.forget(m.key)
		err = h.store.deleted(ctx, m.key)
	} else {
		h.lastSent.set(m)
		err = h.store.acked(ctx, m.key, m.version)
	}
	if err != nil && ctx.Err() == nil {
		h.metrics.dropped.WithLabelValues("acknowledgement not written down").Inc()
		h.o.Log.Warn("acknowledgement not written down", "node", s.node, "object", m.name, "error", err)
	}
}

// liveness ends sessions whose keepalives stay away.
func (h *Hub) liveness(ctx context.Context) {
	tick := time.NewTicker(min(time.Second, h.o.Keepalive/4))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		deadline := int64(h.o.Clock.Now().Add(-h.o.Keepalive))
		for _, s := range h.sessions.all() {
			if s.last.Load() < deadline {
				s.end("no keepalive")
			}
		}
	}
}

// annotate writes at the node which hub it hangs at.
func (h *Hub) annotate(ctx context.Context, node string) {
	if h.o.Annotate == AnnotateWatch {
		if n := object(h.nodes, node); n == nil || n.GetAnnotations()[api.AnnotationHub] == h.o.Address {
			return
		}
	}
	err := retry.OnError(wait3(), func(error) bool { return ctx.Err() == nil }, func() error {
		n, err := h.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil || n.Annotations[api.AnnotationHub] == h.o.Address {
			return err
		}
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[api.AnnotationHub] = h.o.Address
		_, err = h.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
	if err != nil && ctx.Err() == nil {
		h.o.Log.Debug("node not annotated", "node", node, "error", err) // it has not joined yet, or is away
	}
}

// cut splits KIND/NAMESPACE/NAME behind the kind.
func cut(id string) (kind, rest string, ok bool) { return strings.Cut(id, "/") }

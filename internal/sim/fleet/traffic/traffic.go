// Package traffic holds the watches open that real kubelets hold, so that a
// plane serves a fleet's true read load: for each node its own Node, its pods,
// services, CSI drivers and runtime classes, and the root certificate's
// ConfigMap of each namespace that it runs pods of (what the kubelet of
// Kubernetes 1.37 watches with its defaults). What comes is counted and thrown
// away: package fleet watches for itself.
//
// Kubelets have a connection each; here up to 90 watches share one, which saves
// the server memory of connections and nothing else.
package traffic

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Options configure the watches.
type Options struct {
	Endpoint endpoint.Endpoint
	Records  *record.Writer // may be nil
	Cluster  string         // the member whose kubelets these are, for the records
	Clock    clock.Clock
	Seed     uint64
	Watches  int // how many there may be, for the number of connections
}

// Timing, as client-go's reflectors have it (tools/cache/reflector.go).
const (
	perConnection = 90              // of the 100 that kube-apiserver allows
	minHold       = 5 * time.Minute // the server is asked to end a watch after this to twice this
	firstPause    = 800 * time.Millisecond
	lastPause     = 30 * time.Second
	openTimeout   = time.Minute
)

// Stats is the state of the watches.
type Stats struct {
	Wanted int // watches
	Open   int
	Opened int // ever
	Failed int // could not be opened, or broke
	Bytes  int64
}

// Kubelets holds the watches of many nodes. Close it after use.
type Kubelets struct {
	options Options
	client  *wire.Client
	ops     map[string]record.OpID

	mu     sync.Mutex
	rng    *rand.Rand
	nodes  map[string]map[string]*heldWatch // node -> what -> watch
	stats  Stats
	closed bool
	wait   guard.Group
}

// heldWatch is one watch.
type heldWatch struct {
	k       *Kubelets
	what    resource
	query   string
	request wire.Request
	due     clock.Time
	opened  clock.Time
	fails   int
	ended   bool
	timer   *time.Timer
}

// resource is what a kubelet watches.
type resource struct{ name, path string }

// everyNode are the watches that a kubelet has from its start.
func everyNode() []resource {
	return []resource{
		{"nodes", "/api/v1/nodes"},
		{"pods", "/api/v1/pods"},
		{"services", "/api/v1/services"},
		{"csidrivers.storage.k8s.io", "/apis/storage.k8s.io/v1/csidrivers"},
		{"runtimeclasses.node.k8s.io", "/apis/node.k8s.io/v1/runtimeclasses"},
	}
}

// PerNode is how many watches a node without pods holds.
const PerNode = 5

// New returns no watches yet.
func New(o Options) (*Kubelets, error) {
	c, err := wire.New(o.Endpoint, wire.Options{
		Most: 1 + o.Watches/perConnection, UserAgent: "windtunnel-fleet", Clock: o.Clock,
	})
	if err != nil {
		return nil, fmt.Errorf("traffic: %w", err)
	}
	return &Kubelets{
		options: o, client: c, ops: map[string]record.OpID{}, rng: rand.New(rand.NewPCG(o.Seed, 0x74726166)),
		nodes: map[string]map[string]*heldWatch{},
	}, nil
}

// AddNode opens the watches of a node.
func (k *Kubelets) AddNode(node string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.nodes[node] != nil {
		return
	}
	k.nodes[node] = map[string]*heldWatch{}
	for _, r := range everyNode() {
		selector := ""
		switch r.name {
		case "nodes":
			selector = "metadata.name=" + node
		case "pods":
			selector = "spec.nodeName=" + node
		}
		k.addLocked(node, r.name, r, selector)
	}
}

// UseNamespace opens the watch of a namespace's root certificate for a node, once.
func (k *Kubelets) UseNamespace(node, namespace string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	what := "configmaps " + namespace
	if k.closed || k.nodes[node] == nil || k.nodes[node][what] != nil {
		return
	}
	r := resource{"configmaps", "/api/v1/namespaces/" + namespace + "/configmaps"}
	k.addLocked(node, what, r, "metadata.name=kube-root-ca.crt")
}

// addLocked adds a watch of a node, which opens soon.
func (k *Kubelets) addLocked(node, what string, r resource, selector string) {
	query := url.Values{"watch": {"1"}, "allowWatchBookmarks": {"true"}, "sendInitialEvents": {"true"}, "resourceVersionMatch": {"NotOlderThan"}}
	if selector != "" {
		query.Set("fieldSelector", selector)
	}
	h := &heldWatch{k: k, what: r, query: query.Encode()}
	k.nodes[node][what] = h
	k.stats.Wanted++
	k.openLaterLocked(h, time.Duration(k.rng.Int64N(int64(100*time.Millisecond))))
}

// openLaterLocked opens a watch after a pause.
func (k *Kubelets) openLaterLocked(h *heldWatch, pause time.Duration) {
	h.due = k.options.Clock.Now().Add(pause)
	h.timer = time.AfterFunc(pause, func() {
		k.mu.Lock()
		if k.closed || h.ended {
			k.mu.Unlock()
			return
		}
		k.wait.Add(1)
		hold := minHold + time.Duration(k.rng.Int64N(int64(minHold)))
		k.mu.Unlock()
		h.open(hold)
	})
}

func (h *heldWatch) open(hold time.Duration) {
	h.opened = 0
	h.request = wire.Request{
		Method: "GET", Path: fmt.Sprintf("%s?%s&timeoutSeconds=%d", h.what.path, h.query, int(hold/time.Second)),
		Accept: "application/vnd.kubernetes.protobuf;stream=watch", Timeout: openTimeout, Hold: hold + time.Minute,
		Data: h.onData, Opened: h.onOpen,
	}
	h.k.client.Send(&h.request, h.onEnd)
}

// onOpen is told that a watch is open: that is the call which is recorded.
func (h *heldWatch) onOpen(r *wire.Response) {
	k := h.k
	k.mu.Lock()
	defer k.mu.Unlock()
	h.opened, h.fails = r.Done, 0
	k.stats.Open++
	k.stats.Opened++
	k.recordLocked(h, r, record.OK)
}

func (h *heldWatch) onData(p []byte) {
	h.k.mu.Lock()
	h.k.stats.Bytes += int64(len(p))
	h.k.mu.Unlock()
}

// onEnd goes on with a watch that ended.
func (h *heldWatch) onEnd(r *wire.Response) {
	k := h.k
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.wait.Done()
	if h.opened != 0 {
		k.stats.Open--
	}
	if k.closed || h.ended {
		return
	}
	if r.Err == nil && r.Success() {
		k.openLaterLocked(h, 0)
		return
	}
	if h.opened == 0 {
		k.recordLocked(h, r, record.Failed)
	}
	k.stats.Failed++
	pause := wire.Backoff{First: firstPause, Last: lastPause}.Pause(h.fails)
	h.fails++
	k.openLaterLocked(h, pause+time.Duration(k.rng.Int64N(int64(pause))))
}

// recordLocked records the opening of a watch.
func (k *Kubelets) recordLocked(h *heldWatch, r *wire.Response, o record.Outcome) {
	if k.options.Records == nil {
		return
	}
	op, ok := k.ops[h.what.name]
	if !ok {
		op = k.options.Records.Op(record.Op{Source: "fleet", Verb: "watch", Resource: h.what.name, Scope: "cluster", Cluster: k.options.Cluster})
		k.ops[h.what.name] = op
	}
	c := r.Call(op, h.due)
	c.Due, c.Outcome = min(c.Due, c.Sent), o
	k.options.Records.Call(c)
}

// RemoveNode closes the watches of a node.
func (k *Kubelets) RemoveNode(node string) {
	k.mu.Lock()
	closed := map[*wire.Request]bool{}
	for _, h := range k.nodes[node] {
		h.ended = true
		h.timer.Stop()
		closed[&h.request] = true
		k.stats.Wanted--
	}
	delete(k.nodes, node)
	k.mu.Unlock()
	if len(closed) > 0 {
		k.client.CloseHeld(func(r *wire.Request) bool { return closed[r] })
	}
}

// Break breaks all watches at once: each reconnects as a kubelet does.
func (k *Kubelets) Break() { k.client.Break() }

// Stats returns the state of the watches.
func (k *Kubelets) Stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stats
}

// Close closes all watches. It is idempotent.
func (k *Kubelets) Close() error {
	k.mu.Lock()
	k.closed = true
	for _, of := range k.nodes {
		for _, h := range of {
			h.timer.Stop()
		}
	}
	k.mu.Unlock()
	err := k.client.Close()
	k.wait.Wait()
	return err
}

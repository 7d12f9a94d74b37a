// Package direct is edges without an edge plane: each watches the API server itself,
// over a connection of its own, as a kubelet does. It is what a hub is held against.
//
// It takes what the watches bring and does nothing with it: what that costs the API
// server is the question.
package direct

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// Options are what the edges are told.
type Options struct {
	process.Env // the process has the edges whose number leaves Shard divided by Shards
	Edges       int
	Prefix      string // of their names
	JoinRate    float64
}

// Default returns a hundred edges.
func Default() Options { return words.DefaultsOf[Options]() }

// Words declares what a user may choose.
func (o *Options) Words() words.Set {
	return words.Set{
		words.Of(&o.Edges, "edges", "`NUMBER` of edges of all shards", words.Default(100, "")).AtLeast(1),
		words.Of(&o.Prefix, "prefix", "`PREFIX` of edge names", words.Default("edge", "")),
		words.Of(&o.JoinRate, "join-rate", "`NUMBER` of edges that connect per second", words.Default(100.0, "")).Above(0),
	}
}

// watchPaths are what an edge watches, as a kubelet does: its node, its pods, and what
// is the same for all.
func watchPaths(node string) []string {
	of := func(path, field string) string {
		q := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {"0"}}
		if field != "" {
			q.Set("fieldSelector", field)
		}
		return path + "?" + q.Encode()
	}
	return []string{
		of("/api/v1/nodes", "metadata.name="+node), of("/api/v1/pods", "spec.nodeName="+node), of("/api/v1/services", ""),
		of("/apis/node.k8s.io/v1/runtimeclasses", ""), of("/apis/storage.k8s.io/v1/csidrivers", ""),
		of("/api/v1/namespaces/default/configmaps", "metadata.name=kube-root-ca.crt"),
	}
}

// edges are those of one process.
type edges struct {
	o     Options
	names []string
	open  atomic.Int64
	taken atomic.Uint64
	ended *prometheus.CounterVec
}

// Run lets the edges watch until ctx ends. The registry answers /connected, which says no
// until every watch has begun.
func Run(ctx context.Context, o Options) error {
	e := &edges{o: o}
	for i := o.Shard; i < o.Edges; i += o.Shards {
		e.names = append(e.names, fmt.Sprintf("%s-%d", o.Prefix, i))
	}
	e.registerMetrics()
	o.Registry.Handle("/connected", http.HandlerFunc(e.serveConnected))
	return o.Work(ctx, e.joinEdges)
}

func (e *edges) registerMetrics() {
	r := e.o.Registry
	e.ended = r.CounterVec("edge_direct_watches_ended_total", "Watches that ended, and how.", "reason")
	r.GaugeFunc("edge_direct_watches", "Watches that are open.", func() float64 { return float64(e.open.Load()) })
	r.CounterFunc("edge_direct_bytes_total", "Bytes that watches brought, without TLS and HTTP.", func() float64 { return float64(e.taken.Load()) })
}

func (e *edges) serveConnected(w http.ResponseWriter, _ *http.Request) {
	if open, all := e.open.Load(), int64(len(watchPaths(""))*len(e.names)); open < all {
		http.Error(w, fmt.Sprintf("%d of %d watches", open, all), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (e *edges) joinEdges(ctx context.Context, g *process.Group) error {
	gap := time.Duration(float64(time.Second) / e.o.JoinRate)
	e.o.Registry.Ready()
	for _, name := range e.names {
		client, err := e.newClient()
		if err != nil {
			return err
		}
		for _, path := range watchPaths(name) {
			g.Go(func() { e.keepWatching(ctx, client, path) })
		}
		if err := clock.Sleep(ctx, gap); err != nil {
			return err
		}
	}
	return nil
}

// newClient returns one that has its connection to itself: client-go's would share it
// with all others of the process.
func (e *edges) newClient() (*http.Client, error) {
	config, err := rest.TLSConfigFor(e.o.Config)
	if err != nil {
		return nil, fmt.Errorf("edge-direct: %w", err)
	}
	through, err := rest.HTTPWrappersForConfig(e.o.Config, &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true})
	if err != nil {
		return nil, fmt.Errorf("edge-direct: %w", err)
	}
	return &http.Client{Transport: through}, nil
}

// keepWatching keeps one watch open until ctx ends.
func (e *edges) keepWatching(ctx context.Context, client *http.Client, path string) {
	for ctx.Err() == nil {
		reason := e.watchOnce(ctx, client, path)
		if ctx.Err() != nil {
			return
		}
		e.ended.WithLabelValues(reason).Inc()
		if clock.Sleep(ctx, time.Second+rand.N(time.Second)) != nil {
			return
		}
	}
}

// watchOnce opens a watch and takes what it brings until it ends; it returns how it ended.
func (e *edges) watchOnce(ctx context.Context, client *http.Client, path string) string {
	timeout := 5*time.Minute + rand.N(5*time.Minute) // client-go's
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s%s&timeoutSeconds=%d", e.o.Config.Host, path, int(timeout.Seconds())), nil)
	if err != nil {
		return "not sent"
	}
	q.Header.Set("Accept", "application/vnd.kubernetes.protobuf;stream=watch,application/json;stream=watch")
	q.Header.Set("User-Agent", "windtunnel-edge-direct")
	answer, err := client.Do(q)
	if err != nil {
		return "not connected"
	}
	defer func() { _ = answer.Body.Close() }() // whatever it says, the watch is over
	if answer.StatusCode != http.StatusOK {
		return fmt.Sprint(answer.StatusCode)
	}
	e.open.Add(1)
	defer e.open.Add(-1)
	if _, err := io.Copy(counted{&e.taken}, answer.Body); err != nil {
		return "cut"
	}
	return "closed"
}

// counted counts what is written to it.
type counted struct{ n *atomic.Uint64 }

// Write counts b.
func (c counted) Write(b []byte) (int, error) {
	c.n.Add(uint64(len(b)))
	return len(b), nil
}

// Package serve answers the HTTP requests to hollow clusters: it decodes what a request
// asks for, lets the backend do it, and encodes the answer in the form that the client
// accepts. Lists, watches, tables, discovery and OpenAPI documents are made here, within
// bounds on the memory and the time of a request.
package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/backend"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/control"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
)

// Options describe how the clusters of a process answer.
type Options struct {
	// Reads and Writes are how many requests a cluster takes at once. Further requests are
	// refused with 429. Watches do not count.
	Reads, Writes int
	// Metrics writes more metrics of each cluster in Prometheus' text format; may be nil.
	Metrics func(io.Writer)
}

// Shared is what the clusters of a process share: bounds and documents.
type Shared struct {
	options   Options
	documents sync.Map // of OpenAPI, by documentKey
	bodies    bodies
}

// NewShared returns what clusters share.
func NewShared(o Options) *Shared { return &Shared{options: o, bodies: newBodies()} }

// Cluster answers the requests to one cluster. Its methods may be called from many
// goroutines.
type Cluster struct {
	shared   *Shared
	address  string
	backend  *backend.Backend
	registry *registry.Registry
	clock    clock.Clock
	accounts *control.Accounts
	faults   *control.Faults

	reads, writes atomic.Int64 // requests under way
	watches       atomic.Int64 // likewise
}

// NewCluster returns a cluster at an address such as https://127.0.0.1:12345.
func NewCluster(s *Shared, address string, b *backend.Backend, a *control.Accounts, f *control.Faults) *Cluster {
	return &Cluster{shared: s, address: address, backend: b, registry: b.Registry(), clock: b.Clock(), accounts: a, faults: f}
}

// authenticateRequest returns the user of a request; not ok where nobody is known.
func (c *Cluster) authenticateRequest(r *http.Request) (control.User, bool) {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return control.User{}, false
	}
	who, _, ok := c.accounts.Identify(given, c.backend.Now())
	if name := r.Header.Get("Impersonate-User"); ok && name != "" {
		who = control.User{Name: name, Groups: append(r.Header.Values("Impersonate-Group"), "system:authenticated")}
	}
	return who, ok
}

// Serve answers a request for a path of the cluster. It breaks the connection of a cluster
// that is down.
func (c *Cluster) Serve(w http.ResponseWriter, r *http.Request, path string) {
	if c.faults.IsDown() {
		panic(http.ErrAbortHandler)
	}
	a := &answer{w: w, r: r, cluster: c}
	if c.faults.IsSlow() {
		a.began = c.clock.Now()
	}
	if answerHealth(w, path) {
		return
	}
	who, ok := c.authenticateRequest(r)
	if !ok {
		a.writeError(apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	a.query = r.URL.Query()
	q := &request{Request: r, user: who, answer: a, room: room{of: &c.shared.bodies}}
	defer q.room.releaseAll()
	if c.answerDiscovery(q, path) || c.answerOpenAPI(q, path) || c.answerMetrics(w, path) {
		return
	}
	if err := q.parsePath(path); errors.Is(err, errNoGroup) {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	} else if err != nil {
		a.writeError(err)
		return
	}
	if !q.isWatch() {
		done, ok := c.admitRequest(r.Method == http.MethodGet)
		if !ok {
			w.Header().Set("Retry-After", "1")
			a.writeError(apierrors.NewTooManyRequests("too many requests, please try again later", 1))
			return
		}
		defer done()
		if q.Name == "" && q.Method != http.MethodPost { // lists and deletions of collections take long
			ctx, cancel := context.WithTimeout(q.Context(), backend.RequestTimeout)
			defer cancel()
			q.Request = q.WithContext(ctx)
		}
	}
	if err := q.carryOut(); err != nil {
		a.writeError(err)
	}
}

// admitRequest takes a place among the requests that are answered at once.
func (c *Cluster) admitRequest(read bool) (done func(), ok bool) {
	n, limit := &c.writes, c.shared.options.Writes
	if read {
		n, limit = &c.reads, c.shared.options.Reads
	}
	if n.Add(1) > int64(limit) {
		n.Add(-1)
		return nil, false
	}
	return func() { n.Add(-1) }, true
}

// answerHealth answers the health checks, which need no token.
func answerHealth(w http.ResponseWriter, path string) bool {
	switch strings.Split(path, "/")[min(1, strings.Count(path, "/"))] {
	case "healthz", "livez", "readyz":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok"))
		return true
	}
	return false
}

package hollow

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/backend"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
)

// Cluster is one hollow cluster. Its methods may be called from many goroutines.
type Cluster struct {
	Name string

	server   *Server
	address  string
	token    atomic.Pointer[string]
	registry *registry.Registry
	backend  *backend.Backend

	listener      *tracked                      // nil at a shared port
	halt          atomic.Pointer[chan struct{}] // closed while the cluster is down
	down, expired atomic.Bool
	factor        atomic.Int64 // of how long answers take, in slowUnit; 0: one

	reads, writes atomic.Int64 // requests under way
	watches       atomic.Int64 // likewise
}

// Address returns where the cluster is: https://127.0.0.1:12345.
func (c *Cluster) Address() string { return c.address }

// SetToken replaces the bearer token: who has the former one is answered 401 from
// now on, as when credentials expire.
func (c *Cluster) SetToken(token string) { c.token.Store(&token) }

// Compact forgets all events: watches and lists from before now are refused with
// 410, and who watches must list again.
func (c *Cluster) Compact() { c.registry.Store().Compact() }

// user is who sent a request.
type user struct {
	name   string
	groups []string
}

// authenticate returns who sent a request; not ok for nobody who is known.
func (c *Cluster) authenticate(r *http.Request) (user, bool) {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return user{}, false
	}
	who, _, ok := c.identify(given)
	if name := r.Header.Get("Impersonate-User"); ok && name != "" {
		who = user{name, append(r.Header.Values("Impersonate-Group"), "system:authenticated")}
	}
	return who, ok
}

// identify returns whose a token is.
func (c *Cluster) identify(token string) (user, claims, bool) {
	if subtle.ConstantTimeCompare([]byte(token), []byte(*c.token.Load())) == 1 {
		return user{"admin", []string{"system:masters", "system:authenticated"}}, claims{}, true
	}
	if c.isClient(token) {
		return user{"client", []string{"system:masters", "system:authenticated"}}, claims{}, true
	}
	return c.account(token)
}

// serve answers a request.
func (c *Cluster) serve(w http.ResponseWriter, r *http.Request, path string) {
	c.breakOff()
	a := &answer{w: w, r: r, cluster: c}
	if c.factor.Load() > slowUnit {
		a.began = c.server.clock.Now()
	}
	if c.health(w, path) {
		return
	}
	who, ok := c.authenticate(r)
	if !ok {
		a.refuse(apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	q := &request{Request: r, query: r.URL.Query(), user: who, answer: a, room: room{of: &c.server.bodies}}
	defer q.room.release()
	if c.discover(q, path) || c.describe(q, path) || c.metrics(w, path) {
		return
	}
	if err := q.route(path); errors.Is(err, errNoGroup) {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	} else if err != nil {
		a.refuse(err)
		return
	}
	if !q.watching() {
		done, ok := c.admit(r.Method == http.MethodGet)
		if !ok {
			w.Header().Set("Retry-After", "1")
			a.refuse(apierrors.NewTooManyRequests("too many requests, please try again later", 1))
			return
		}
		defer done()
		if q.Name == "" && q.Method != http.MethodPost { // what takes long
			ctx, cancel := context.WithTimeout(q.Context(), backend.RequestTimeout)
			defer cancel()
			q.Request = q.WithContext(ctx)
		}
	}
	if err := q.do(); err != nil {
		a.refuse(err)
	}
}

// admit takes a place among the requests that are answered at once.
func (c *Cluster) admit(read bool) (done func(), ok bool) {
	n, most := &c.writes, c.server.options.Writes
	if read {
		n, most = &c.reads, c.server.options.Reads
	}
	if n.Add(1) > int64(most) {
		n.Add(-1)
		return nil, false
	}
	return func() { n.Add(-1) }, true
}

// health answers what anybody may ask.
func (c *Cluster) health(w http.ResponseWriter, path string) bool {
	switch strings.Split(path, "/")[min(1, strings.Count(path, "/"))] {
	case "healthz", "livez", "readyz":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok"))
		return true
	}
	return false
}

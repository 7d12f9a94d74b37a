package hollow

import (
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
)

// controller lets another process break clusters: POST /NAME/ACTION.
type controller struct {
	server *Server
	token  string
	mux    *http.ServeMux

	mu     sync.Mutex
	copies map[string]State // by the cluster's name
}

// Control returns how another process reaches what breaks clusters: a POST to
// /NAME/ACTION, where the action is stop, start, expire, renew, slow?factor=10, copy
// or restore, which gives back the last copy. It is answered when it is done.
func (s *Server) Control() (endpoint.Endpoint, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(s.options.Host, "0"))
	if err != nil {
		return endpoint.Endpoint{}, fmt.Errorf("listen for control of hollow clusters: %w", err)
	}
	// A server writes to its configuration, so that each has its own.
	c := &controller{server: s, token: rand.Text(), mux: http.NewServeMux(), copies: map[string]State{}}
	c.mux.HandleFunc("POST /{name}/{action}", c.handleAction)
	h := &http.Server{Handler: c, TLSConfig: s.config.Clone(), ErrorLog: s.http.ErrorLog, ReadHeaderTimeout: s.http.ReadHeaderTimeout}
	s.running.Go(func() { _ = h.Serve(tls.NewListener(l, s.config)) }) // it ends with the listener
	s.running.Go(func() {
		<-s.done
		_ = h.Close()
	})
	return endpoint.Bearer("https://"+l.Addr().String(), s.ca, c.token), nil
}

// ServeHTTP does what is asked for.
func (c *controller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+c.token)) != 1 {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	c.mux.ServeHTTP(w, r)
}

func (c *controller) handleAction(w http.ResponseWriter, r *http.Request) {
	c.server.mu.Lock()
	cluster := c.server.clusters[r.PathValue("name")]
	c.server.mu.Unlock()
	if cluster == nil {
		http.Error(w, "no hollow cluster of that name", http.StatusNotFound)
		return
	}
	if err := c.carryOut(cluster, r.PathValue("action"), r.FormValue("factor")); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (c *controller) carryOut(cluster *Cluster, action, factor string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch action {
	case "stop":
		cluster.Stop()
	case "start":
		return cluster.Start()
	case "expire":
		cluster.Expire()
	case "renew":
		cluster.Renew()
	case "slow":
		f, err := strconv.ParseFloat(factor, 64)
		if err != nil || !(f >= 1 && f <= 1000) {
			return fmt.Errorf("slow hollow cluster %s: factor %q is not 1 to 1000", cluster.Name, factor)
		}
		cluster.Slow(f)
	case "copy":
		c.copies[cluster.Name] = cluster.Copy()
	case "restore":
		then, ok := c.copies[cluster.Name]
		if !ok {
			return fmt.Errorf("restore hollow cluster %s: nothing was copied", cluster.Name)
		}
		delete(c.copies, cluster.Name)
		cluster.Restore(then)
	default:
		return fmt.Errorf("hollow clusters know no action %q", action)
	}
	return nil
}

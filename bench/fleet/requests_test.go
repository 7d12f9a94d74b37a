package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// server keeps the objects that are posted to it.
type server struct {
	mu       sync.Mutex
	nodes    []corev1.Node
	pods     []corev1.Pod
	deleted  []string
	now, max int // calls under way
	full     int // answers 429 to pods from this number on; 0: never
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.now++
	s.max = max(s.max, s.now)
	s.mu.Unlock()
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	var err error
	switch {
	case r.Method == http.MethodDelete:
		s.deleted = append(s.deleted, r.URL.Path)
	case r.URL.Path == "/api/v1/nodes":
		s.nodes = append(s.nodes, corev1.Node{})
		err = json.NewDecoder(r.Body).Decode(&s.nodes[len(s.nodes)-1])
	case s.full > 0 && len(s.pods) >= s.full:
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, "too many")
	default:
		s.pods = append(s.pods, corev1.Pod{})
		err = json.NewDecoder(r.Body).Decode(&s.pods[len(s.pods)-1])
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
}

func serve(t *testing.T) (*server, *requests) {
	t.Helper()
	s := &server{}
	h := httptest.NewUnstartedServer(s)
	h.EnableHTTP2 = true
	h.StartTLS()
	t.Cleanup(h.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	r := repotest.Must(newRequests(endpoint.New(h.URL, ca, endpoint.Identity{}), clock.Start()))(t)
	t.Cleanup(func() { _ = r.Close() })
	return s, r
}

// look reads what the server was asked: an answer is there before the goroutine
// that gave it has let go.
func (s *server) look(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func TestRequests(t *testing.T) {
	s, r := serve(t)
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprint("p-", i))
	}
	repotest.NoError(t, r.createNodes(t.Context(), 3, 2))
	repotest.NoError(t, r.createPods(t.Context(), names, 0, 0))
	s.look(func() {
		if len(s.pods) != 300 || s.pods[0].Spec.NodeName != "" || s.max > inFlight {
			t.Errorf("%d pods, %d calls at once, first %+v", len(s.pods), s.max, s.pods[0].Spec)
		}
		s.pods = nil
	})
	err := r.deletePods(t.Context(), names[:5])
	s.look(func() {
		if err != nil || len(s.deleted) != 5 || !strings.HasPrefix(s.deleted[0], podsPath+"/p-") {
			t.Errorf("deleted %v, %v", s.deleted, err)
		}
	})
	begin := r.clock.Now()
	if err := r.createPods(t.Context(), names[:40], 400, 2); err != nil {
		t.Error(err)
	}
	if took := r.clock.Now().Sub(begin); took < 95*time.Millisecond {
		t.Errorf("40 pods at 400/s took only %v", took)
	}
	seen := map[string]bool{}
	s.look(func() {
		if !strings.HasPrefix(s.pods[0].Spec.NodeName, "node-00000") {
			t.Errorf("bound to %q", s.pods[0].Spec.NodeName)
		}
		for _, n := range s.nodes {
			seen[n.Name] = n.Status.Allocatable.Pods().Value() > podsPerNode
		}
	})
	if len(seen) != 2 || !seen["node-000003"] || !seen["node-000004"] {
		t.Errorf("nodes %v", seen)
	}
}

func TestFailedRequestsAreAnError(t *testing.T) {
	s, r := serve(t)
	s.full = 3
	err := r.createPods(t.Context(), []string{"a", "b", "c", "d", "e"}, 0, 0)
	if err == nil || !strings.Contains(err.Error(), "create pods: 2 of 5 failed, the first with status 429") || !strings.Contains(err.Error(), "too many") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.createPods(ctx, []string{"a"}, 0, 0); err == nil {
		t.Error("an ended context is no error")
	}
}

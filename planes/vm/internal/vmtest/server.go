// Package vmtest is an API server in memory for tests of the VM plane: nodes,
// launcher pods, events and the kinds of kubevirt.io, with versions, watches,
// finalizers, preconditions and the patches that controllers send. It binds and
// runs pods at once, and it counts what must never be double.
//
// It checks no schema, has no admission and forgets nothing. What it says holds
// of a real API server is tested on one in package vm.
package vmtest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Server is an API server in memory. Close it after use.
type Server struct {
	http  *httptest.Server
	clock clock.Clock
	nodes []string // pods are bound to them in turn

	mu      sync.Mutex
	version int64
	kinds   map[string]map[string]*object // resource -> namespace/name
	history []event
	changed chan struct{} // closed and replaced at each event
	lose    func(*http.Request) bool
	created map[string]int // pods ever created, by uid of their instance and migration
	bound   int
	uids    int
}

// object is JSON; it is replaced, never changed.
type object = unstructured.Unstructured

type event struct {
	version  int64
	kind     string // ADDED, MODIFIED, DELETED
	resource string
	object   *object
	before   *object // nil for ADDED
}

// Start starts a server with nodes of these names.
func Start(nodes ...string) *Server {
	s := &Server{clock: clock.Start(), nodes: nodes, kinds: map[string]map[string]*object{}, changed: make(chan struct{}), created: map[string]int{}}
	for _, n := range nodes {
		s.put("nodes", &object{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": n}}}, nil)
	}
	s.http = httptest.NewServer(s)
	return s
}

// Config reaches the server, without a rate limit.
func (s *Server) Config() *rest.Config {
	json := rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}
	return &rest.Config{Host: s.http.URL, QPS: -1, ContentConfig: json}
}

// Close ends the server.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Lose lets the answers of some requests be lost after they were carried out;
// nil: of none.
func (s *Server) Lose(which func(*http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = which
}

// Objects returns what there is of a resource.
func (s *Server) Objects(resource string) []*object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*object
	for _, o := range s.kinds[resource] {
		out = append(out, o)
	}
	return out
}

// Doubles returns how many launcher pods were created that an instance, or a
// migration, had already had.
func (s *Server) Doubles() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, made := range s.created {
		n += made - 1
	}
	return n
}

// target is what a path names.
type target struct{ resource, namespace, name, part string }

func (t target) key() string { return t.namespace + "/" + t.name }

func parse(path string) target {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 2
	if parts[0] == "apis" {
		skip = 3
	}
	parts = parts[min(skip, len(parts)):]
	var t target
	if len(parts) > 2 && parts[0] == "namespaces" {
		t.namespace, parts = parts[1], parts[2:]
	}
	for i, into := range []*string{&t.resource, &t.name, &t.part} {
		if i < len(parts) {
			*into = parts[i]
		}
	}
	return t
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := parse(r.URL.Path)
	if r.Method == http.MethodGet && r.URL.Query().Get("watch") != "" {
		s.watch(w, r, t)
		return
	}
	s.mu.Lock()
	code, answer := s.answer(r, t)
	lost := s.lose != nil && r.Method != http.MethodGet && s.lose(r)
	s.mu.Unlock()
	if lost {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

// watch sends events after a version until the client leaves.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, t target) {
	q := r.URL.Query()
	if q.Get("sendInitialEvents") == "true" {
		code, status := fail(http.StatusUnprocessableEntity, "Invalid", "no initial events here")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(status)
		return
	}
	after, _ := strconv.ParseInt(q.Get("resourceVersion"), 10, 64)
	selector, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	flusher := w.(http.Flusher)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flusher.Flush()
	encode := json.NewEncoder(w)
	for next := 0; ; {
		s.mu.Lock()
		news, wake := s.history[next:], s.changed
		next = len(s.history)
		s.mu.Unlock()
		for _, e := range news {
			kind, ok := e.seen(selector)
			if e.version <= after || e.resource != t.resource || !ok {
				continue
			}
			if encode.Encode(map[string]any{"type": kind, "object": e.object.Object}) != nil {
				return
			}
		}
		flusher.Flush()
		select {
		case <-wake:
		case <-r.Context().Done():
			return
		}
	}
}

// seen says what an event is to a watch with a selector.
func (e event) seen(selector labels.Selector) (string, bool) {
	is := selector.Matches(labels.Set(e.object.GetLabels()))
	was := e.before != nil && selector.Matches(labels.Set(e.before.GetLabels()))
	switch {
	case e.kind == "DELETED":
		return e.kind, was || is
	case is && !was:
		return "ADDED", true
	case is:
		return "MODIFIED", true
	}
	return "DELETED", was
}

// put stores an object and tells; callers hold mu.
func (s *Server) put(resource string, o, before *object) *object {
	s.version++
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	key := o.GetNamespace() + "/" + o.GetName()
	kind := "MODIFIED"
	if before == nil {
		kind = "ADDED"
		s.uids++
		o.SetUID(uid(s.uids))
		o.SetCreationTimestamp(s.now())
	}
	if s.kinds[resource] == nil {
		s.kinds[resource] = map[string]*object{}
	}
	s.kinds[resource][key] = o
	s.tell(event{s.version, kind, resource, o, before})
	if resource == "pods" {
		return s.playPod(o)
	}
	return o
}

func (s *Server) remove(resource string, o *object) {
	s.version++
	gone := o.DeepCopy()
	gone.SetResourceVersion(strconv.FormatInt(s.version, 10))
	delete(s.kinds[resource], o.GetNamespace()+"/"+o.GetName())
	s.tell(event{s.version, "DELETED", resource, gone, o})
}

func (s *Server) tell(e event) {
	s.history = append(s.history, e)
	close(s.changed)
	s.changed = make(chan struct{})
}

// wall returns the time of day.
func (s *Server) wall() time.Time { return s.clock.Wall(s.clock.Now()) }

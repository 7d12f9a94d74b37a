// Package apitest is a small API server in memory for tests: objects of any
// resource, in JSON and protobuf, with resource versions, watches, patches,
// preconditions and finalizers, and with faults on demand. It has no validation,
// no admission, no authentication and no controllers, but that what is in a
// namespace goes with it; it takes an apply for a merge patch. What it does, a
// real API server does too: both pass the same test.
package apitest

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
)

// Version is what the server says its version is.
const Version = "v1.37.1"

// Object is what the server keeps. It is replaced, never changed.
type Object = unstructured.Unstructured

// Resource is what discovery says of a resource: of v1 or a group's version,
// such as apps/v1.
type Resource struct {
	Version, Plural, Kind string
	Namespaced            bool
}

// Fault is what befalls a request: it is carried out if it is to be Done, waits
// for its Delay, and is refused with a Code. Without a code it is answered, or
// its connection cut if it was done already.
type Fault struct {
	Code       int
	RetryAfter int // seconds
	Done       bool
	Delay      time.Duration
}

// Server is a running server. Its methods may be called from many goroutines.
type Server struct {
	endpoint  endpoint.Endpoint
	clock     clock.Clock
	stop      chan struct{}
	resources []Resource

	asking sync.Mutex // one question of a fault at a time
	fault  func(*http.Request) *Fault

	mu      sync.Mutex // of what follows
	admit   func(path string, o *Object)
	play    func(path string, o *Object) *Object
	tables  map[string]map[string]*Object // by root and resource, by namespace/name
	history []event
	version uint64
	oldest  uint64        // watches from before it are answered 410
	epoch   int           // watches of an earlier one end
	changed chan struct{} // closed and replaced at each event
	calls   []call
	packed  int
}

type call struct{ text, kind, body string } // METHOD PATH, METHOD RESOURCE

type event struct {
	version        uint64
	kind, table    string
	object, before *Object
}

// New starts a server that ends with the test. Discovery shows the resources,
// pods, nodes and events where there are none; any other is served as well.
func New(t testing.TB, resources ...Resource) *Server {
	t.Helper()
	if len(resources) == 0 {
		resources = []Resource{{"v1", "pods", "Pod", true}, {"v1", "nodes", "Node", false}, {"v1", "events", "Event", true}}
	}
	s := &Server{
		clock: clock.Start(), stop: make(chan struct{}), resources: resources, version: 100,
		tables: map[string]map[string]*Object{}, changed: make(chan struct{}),
	}
	s.endpoint = Serve(t, http.HandlerFunc(s.serve))
	t.Cleanup(func() { close(s.stop) })
	return s
}

// Serve serves a handler over HTTP/2 until the test ends.
func Serve(t testing.TB, h http.Handler) endpoint.Endpoint {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return endpoint.New(s.URL, ca, endpoint.Identity{})
}

// Client returns a client of an endpoint that is closed when the test ends.
func Client(t testing.TB, e endpoint.Endpoint, c clock.Clock) *wire.Client {
	t.Helper()
	client, err := wire.New(e, wire.Options{Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Endpoint says how to reach the server.
func (s *Server) Endpoint() endpoint.Endpoint { return s.endpoint }

// Fault makes f decide what befalls each request, whose body it sees in JSON;
// nil and an f that returns nil let all be answered.
func (s *Server) Fault(f func(*http.Request) *Fault) {
	s.asking.Lock()
	defer s.asking.Unlock()
	s.fault = f
}

// Admit makes f change what requests are about to create.
func (s *Server) Admit(f func(path string, o *Object)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admit = f
}

// Play makes f say what becomes at once of an object that was written, as a
// controller might: nil, or the object that replaces it.
func (s *Server) Play(f func(path string, o *Object) *Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.play = f
}

// CutWatches ends all watches in the middle.
func (s *Server) CutWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.wakeLocked()
}

// Compact forgets the past: a watch that wants to go on from it is answered 410.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.oldest, s.history = s.version, nil
	s.wakeLocked()
}

// Calls returns how many requests of a kind, such as "PATCH pods/status", came.
func (s *Server) Calls(kind string) int {
	return s.count(func(c call) bool { return c.kind == kind })
}

// Count returns how many requests, such as "GET /api/v1/pods", began with a text.
// Those of discovery do not count, and a watch is a WATCH.
func (s *Server) Count(prefix string) int {
	return s.count(func(c call) bool { return strings.HasPrefix(c.text, prefix) })
}

func (s *Server) count(which func(call) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if which(c) {
			n++
		}
	}
	return n
}

// Body returns the body, in JSON, of the last request, such as "POST /api/v1/pods".
func (s *Server) Body(request string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Backward(s.calls) {
		if c.text == request {
			return c.body
		}
	}
	return ""
}

// Packed returns how many requests had a body in protobuf.
func (s *Server) Packed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.packed
}

// target is what a path names.
type target struct{ root, namespace, resource, name, part string }

func parse(path string) target {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	n := 2
	if parts[0] == "apis" {
		n = 3
	}
	n = min(n, len(parts))
	t := target{root: "/" + strings.Join(parts[:n], "/")}
	parts = parts[n:]
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" {
		t.namespace, parts = parts[1], parts[2:]
	}
	for i, into := range []*string{&t.resource, &t.name, &t.part} {
		if i < len(parts) {
			*into = parts[i]
		}
	}
	return t
}

func (t target) table() string { return t.root + "/" + t.resource }

func (t target) key() string { return t.namespace + "/" + t.name }

func (t target) path() string {
	if t.namespace == "" {
		return t.table() + "/" + t.name
	}
	return t.root + "/namespaces/" + t.namespace + "/" + t.resource + "/" + t.name
}

// apiVersion returns the target's group and version.
func (t target) apiVersion() string {
	return strings.TrimPrefix(strings.TrimPrefix(t.root, "/apis/"), "/api/")
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	t := parse(r.URL.Path)
	a := answer{w: w, packed: strings.Contains(r.Header.Get("Accept"), "protobuf")}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	if t.resource == "" {
		s.discover(a, r.URL.Path)
		return
	}
	body, err := inJSON(raw)
	if err != nil {
		a.refuse(http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	s.note(r, t, body, len(raw) > 0 && raw[0] != '{')
	f := s.ask(r, body)
	if f.Done {
		s.answer(answer{}, r, t, body)
	}
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-s.stop:
			return
		}
	}
	switch {
	case f.Code > 0:
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		a.refuse(f.Code, "", "refused on purpose")
	case f.Done:
		panic(http.ErrAbortHandler) // the connection's stream is reset
	default:
		s.answer(a, r, t, body)
	}
}

// note counts a request.
func (s *Server) note(r *http.Request, t target, body []byte, packed bool) {
	method := r.Method
	if r.URL.Query().Get("watch") != "" {
		method = "WATCH"
	}
	kind := method + " " + t.resource
	if t.part != "" {
		kind += "/" + t.part
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call{method + " " + r.URL.Path, kind, string(body)})
	if packed {
		s.packed++
	}
}

// ask returns what befalls a request.
func (s *Server) ask(r *http.Request, body []byte) Fault {
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.fault != nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
		if f := s.fault(r); f != nil {
			return *f
		}
	}
	return Fault{}
}

// discover answers what is not about objects.
func (s *Server) discover(a answer, path string) {
	var groups, served []any
	for _, r := range s.resources {
		group, _, grouped := strings.Cut(r.Version, "/")
		switch {
		case path == "/api/"+r.Version && !grouped, path == "/apis/"+r.Version:
			served = append(served, map[string]any{"name": r.Plural, "kind": r.Kind, "namespaced": r.Namespaced})
		case path == "/apis" && grouped:
			groups = append(groups, map[string]any{"name": group, "preferredVersion": map[string]any{"groupVersion": r.Version}})
		}
	}
	a.packed = false
	switch {
	case path == "/version":
		a.write(http.StatusOK, map[string]any{"gitVersion": Version})
	case path == "/apis":
		a.write(http.StatusOK, map[string]any{"groups": groups})
	case served != nil:
		a.write(http.StatusOK, map[string]any{"resources": served})
	default:
		a.refuse(http.StatusNotFound, "NotFound", path+" not found")
	}
}

// answer carries a request out and answers it.
func (s *Server) answer(a answer, r *http.Request, t target, body []byte) {
	shown, err := selection(r.URL.Query())
	switch {
	case err != nil:
		a.refuse(http.StatusBadRequest, "BadRequest", err.Error())
	case r.URL.Query().Get("watch") != "":
		s.watch(a, r, t, shown)
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.oneLocked(a, r, t, body, shown)
	}
}

func (s *Server) oneLocked(a answer, r *http.Request, t target, body []byte, shown func(*Object) bool) {
	old := s.tables[t.table()][t.key()]
	switch {
	case r.Method == http.MethodPost && t.name == "":
		s.createLocked(a, t, body)
	case r.Method == http.MethodGet && t.name == "":
		s.listLocked(a, r, t, shown)
	case old == nil:
		a.refuse(http.StatusNotFound, "NotFound", t.resource+" "+t.name+" not found")
	case r.Method == http.MethodGet:
		a.write(http.StatusOK, old.Object)
	case r.Method == http.MethodPut:
		s.updateLocked(a, t, old, body)
	case r.Method == http.MethodPatch:
		s.patchLocked(a, t, old, body, r.Header.Get("Content-Type"))
	case r.Method == http.MethodDelete:
		s.deleteLocked(a, t, old, body)
	default:
		a.refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method)
	}
}

func decode(body []byte) (*Object, error) {
	o := &Object{}
	err := json.Unmarshal(body, &o.Object)
	return o, err
}

// Package apitest is a hollow cluster for tests that look behind it: they put objects
// there as they are, ask what requests came, and let faults befall them. It is a real
// API server but for what docs/how-to/hollow.md names, and for namespaces, which are made when
// something is first created in them.
package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// Version is what the server says its version is.
const Version = hollow.Version

// Object is what the server keeps.
type Object = unstructured.Unstructured

// Resource is what discovery shows, of v1 or a group's version; custom ones are served
// from the beginning.
type Resource struct {
	Version, Plural, Kind string
	Namespaced            bool
	Status                bool // it has a subresource status
}

// Injection is what befalls a request: it is carried out if it is to be Done, waits
// for its Delay, and is refused with a Code. Without a code it is answered, or
// its connection cut if it was done already.
type Injection struct {
	Code       int
	RetryAfter int // seconds
	Done       bool
	Delay      time.Duration
}

// Server is a running server. Its methods may be called from many goroutines.
type Server struct {
	endpoint endpoint.Endpoint
	hollow   *hollow.Server
	cluster  *hollow.Cluster
	stop     chan struct{}
	shown    []Resource

	injecting sync.Mutex // one question of a fault at a time
	inject    func(*http.Request) *Injection

	writing sync.Mutex // one write at a time, with what becomes of it
	admit   func(path string, o *Object)
	play    func(path string, o *Object) *Object

	mu      sync.Mutex // of what follows
	cuts    map[*http.Request]cut
	created []*Object

	callLog
}

// cut ends a watch, and tells when it has.
type cut struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

const (
	token  = "apitest"
	prefix = "/clusters/one"
)

// New starts a server that ends with the test. Discovery shows the resources, pods,
// nodes and events where there are none; what else Kubernetes has is served as well. It
// begins without namespaces.
func New(t testing.TB, resources ...Resource) *Server {
	t.Helper()
	const many = 1 << 20 // requests at once: no test is about that limit
	h, err := hollow.New(hollow.Options{Shared: true, Token: token, History: time.Hour, Reads: many, Writes: many})
	repotest.NoError(t, err)
	t.Cleanup(func() { _ = h.Close() })
	s := &Server{hollow: h, stop: make(chan struct{}), cuts: map[*http.Request]cut{}}
	if s.cluster, err = h.Cluster("one"); err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		s.Define(r)
	}
	if s.shown = resources; len(resources) == 0 {
		s.shown = []Resource{{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, {Version: "v1", Plural: "nodes", Kind: "Node"}, {Version: "v1", Plural: "events", Kind: "Event", Namespaced: true}}
	}
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		s.request(http.MethodDelete, "/api/v1/namespaces/"+name, nil)
	}
	for len(s.Names("/api/v1/namespaces")) > 0 {
		time.Sleep(time.Millisecond)
	}
	s.endpoint = Serve(t, withJitter(http.HandlerFunc(s.serveHTTP)))
	t.Cleanup(func() { close(s.stop) })
	return s
}

// Define has the server serve a custom resource, as another one from now on if it serves
// it already.
func (s *Server) Define(r Resource) {
	group, version, _ := strings.Cut(r.Version, "/")
	if version == "" || !r.Status && s.request(http.MethodGet, "/apis/"+r.Version+"/"+r.Plural, nil).Code == http.StatusOK {
		return // it is a built-in one
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": r.Plural + "." + group},
		"spec":     resourceDefinition(r),
		"status": map[string]any{"storedVersions": []any{version}, "acceptedNames": resourceNames(r), "conditions": []any{
			map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": "True"}}},
	})
	if err != nil {
		panic(err)
	}
	s.loadObject(raw)
}

// resourceDefinition is the spec of a custom resource's definition, whose objects may hold
// anything.
func resourceDefinition(r Resource) map[string]any {
	group, version, _ := strings.Cut(r.Version, "/")
	scope, subresources := "Cluster", map[string]any{}
	if r.Namespaced {
		scope = "Namespaced"
	}
	if r.Status {
		subresources["status"] = map[string]any{}
	}
	return map[string]any{"group": group, "scope": scope, "names": resourceNames(r), "versions": []any{map[string]any{
		"name": version, "served": true, "storage": true, "subresources": subresources,
		"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}
}

func resourceNames(r Resource) map[string]any {
	return map[string]any{"plural": r.Plural, "singular": strings.ToLower(r.Kind), "kind": r.Kind, "listKind": r.Kind + "List"}
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
	client := repotest.Must(wire.New(e, wire.Options{Clock: c}))(t)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Endpoint says how to reach the server.
func (s *Server) Endpoint() endpoint.Endpoint { return s.endpoint }

// Inject makes f decide what befalls each request, whose body it sees in JSON;
// nil and an f that returns nil let all be answered.
func (s *Server) Inject(f func(*http.Request) *Injection) {
	s.injecting.Lock()
	defer s.injecting.Unlock()
	s.inject = f
}

// Admit makes f change what requests are about to create.
func (s *Server) Admit(f func(path string, o *Object)) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.admit = f
}

// Play makes f say what becomes at once of an object that was written, as a
// controller might: nil, or the object that replaces it.
func (s *Server) Play(f func(path string, o *Object) *Object) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.play = f
}

// CutWatches ends all watches in the middle: nothing that comes after is seen by them.
func (s *Server) CutWatches() {
	s.mu.Lock()
	cuts := maps.Clone(s.cuts)
	s.mu.Unlock()
	for _, c := range cuts {
		c.cancel()
	}
	for _, c := range cuts {
		<-c.ended
	}
}

// Compact forgets the past: a watch that wants to go on from it is answered 410.
func (s *Server) Compact() { s.cluster.Compact() }

// target is what a path names.
type target struct{ root, namespace, resource, name, part string }

func parseTarget(path string) target {
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

func (t target) collection() string { return t.root + "/" + t.resource }

func (t target) objectPath() string {
	if t.namespace == "" {
		return t.collection() + "/" + t.name
	}
	return t.root + "/namespaces/" + t.namespace + "/" + t.resource + "/" + t.name
}

// withName is the target with a name.
func (t target) withName(name string) target {
	t.name = name
	return t
}

// apiVersion returns the target's group and version.
func (t target) apiVersion() string {
	return strings.TrimPrefix(strings.TrimPrefix(t.root, "/apis/"), "/api/")
}

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	t := parseTarget(r.URL.Path)
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	if t.resource == "" {
		s.serveDiscovery(w, r)
		return
	}
	body, err := inJSON(raw)
	if err != nil {
		body = raw // it is refused
	}
	s.noteCall(r, t, body, len(raw) > 0 && raw[0] != '{' && raw[0] != '[')
	f := s.injectionFor(r, body)
	if f.Done {
		s.carryOut(httptest.NewRecorder(), r, t, raw)
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
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(f.Code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"refused on purpose","code":%d}`, f.Code)
	case f.Done:
		panic(http.ErrAbortHandler) // the connection's stream is reset
	default:
		s.carryOut(w, r, t, raw)
	}
}

// serveDiscovery answers what is not about objects.
func (s *Server) serveDiscovery(w http.ResponseWriter, r *http.Request) {
	var groups, served []any
	for _, one := range s.shown {
		group, _, grouped := strings.Cut(one.Version, "/")
		switch {
		case r.URL.Path == "/api/"+one.Version && !grouped, r.URL.Path == "/apis/"+one.Version:
			served = append(served, map[string]any{"name": one.Plural, "kind": one.Kind, "namespaced": one.Namespaced})
		case r.URL.Path == "/apis" && grouped:
			groups = append(groups, map[string]any{"name": group, "preferredVersion": map[string]any{"groupVersion": one.Version}})
		}
	}
	var out map[string]any
	switch {
	case r.URL.Path == "/apis":
		out = map[string]any{"groups": groups}
	case served != nil:
		out = map[string]any{"resources": served}
	case r.URL.Path == "/version":
		s.passOn(w, r, nil)
		return
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the client may be gone
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// injectionFor returns what befalls a request.
func (s *Server) injectionFor(r *http.Request, body []byte) Injection {
	s.injecting.Lock()
	defer s.injecting.Unlock()
	if s.inject != nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
		if f := s.inject(r); f != nil {
			return *f
		}
	}
	return Injection{}
}

// carryOut has a request carried out.
func (s *Server) carryOut(w http.ResponseWriter, r *http.Request, t target, body []byte) {
	if isWatch(r) {
		s.serveWatch(w, r, body)
		return
	}
	if r.Method == http.MethodGet {
		s.passOn(w, r, body)
		return
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	creates := r.Method == http.MethodPost && t.name == ""
	if creates {
		body = s.admitBody(r, t, body)
	}
	answer := httptest.NewRecorder()
	s.passOn(answer, r, body)
	if answer.Code < http.StatusMultipleChoices && r.Method != http.MethodDelete && t.part != "eviction" {
		s.noteWritten(t, answer.Body.Bytes(), creates)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// serveWatch passes a watch on, until it is cut.
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, body []byte) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() { // the hollow server ends after its clients
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	own := cut{cancel, make(chan struct{})}
	defer close(own.ended)
	s.mu.Lock()
	s.cuts[r] = own
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.cuts, r)
		s.mu.Unlock()
	}()
	s.passOn(w, r.WithContext(ctx), body)
}

// passOn hands a request on as a user that may do everything.
func (s *Server) passOn(w http.ResponseWriter, r *http.Request, body []byte) {
	to := r.Clone(r.Context())
	to.URL.Path, to.URL.RawPath = prefix+r.URL.Path, ""
	to.Body, to.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	to.Header.Set("Authorization", "Bearer "+token)
	to.Header.Del("Accept-Encoding") // what tests read they read as it is
	s.hollow.ServeHTTP(w, to)
}

// request makes a request of its own.
func (s *Server) request(method, path string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	out := httptest.NewRecorder()
	s.passOn(out, r, body)
	return out
}

// admitBody returns a body of what is about to be created as it is to be, and makes its
// namespace if there is none.
func (s *Server) admitBody(r *http.Request, t target, body []byte) []byte {
	s.ensureNamespace(t.namespace)
	if s.admit == nil {
		return body
	}
	raw, err := inJSON(body)
	if err != nil {
		return body
	}
	o, err := decodeObject(raw)
	if err != nil {
		return body
	}
	s.admit(t.withName(o.GetName()).objectPath(), o)
	if raw, err = json.Marshal(o.Object); err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return raw
}

// ensureNamespace makes a namespace if there is none.
func (s *Server) ensureNamespace(name string) {
	if name != "" && s.request(http.MethodGet, "/api/v1/namespaces/"+name, nil).Code == http.StatusNotFound {
		s.loadObject(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}`, name))
	}
}

// noteWritten is told of what was written: it plays what becomes of it.
func (s *Server) noteWritten(t target, answer []byte, creates bool) {
	raw, err := inJSON(answer)
	if err != nil {
		return
	}
	o, err := decodeObject(raw)
	if err != nil || o.GetName() == "" {
		return
	}
	if creates {
		s.mu.Lock()
		s.created = append(s.created, o)
		s.mu.Unlock()
	}
	t = t.withName(o.GetName())
	s.playUntilDone(t.objectPath())
}

func (s *Server) playUntilDone(path string) {
	for s.play != nil {
		o := s.Get(path)
		if o == nil {
			return
		}
		next := s.play(path, o)
		if next == nil {
			return
		}
		s.storeObject(parseTarget(path), next)
	}
}

// inJSON returns a body, which may be in protobuf, in JSON.
func inJSON(body []byte) ([]byte, error) {
	if len(body) == 0 || body[0] == '{' || body[0] == '[' {
		return body, nil
	}
	o, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	o.GetObjectKind().SetGroupVersionKind(*kind)
	return json.Marshal(o)
}

func decodeObject(body []byte) (*Object, error) {
	o := &Object{}
	err := json.Unmarshal(body, &o.Object)
	return o, err
}

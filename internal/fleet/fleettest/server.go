// Package fleettest is a small API server for tests of package fleet: nodes,
// leases and pods with the verbs that a fleet uses, in protobuf and JSON, with
// real watches, and faults on demand. It passes the same conformance test as
// the real plane. It has no admission, no validation and no authentication.
package fleettest

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
)

// Version is what the server says its version is.
const Version = "v1.37.1"

// object is what the store holds.
type object interface {
	runtime.Object
	metav1.Object
}

type event struct {
	version uint64
	kind    watch.EventType
	object  object
	before  object // of a modification
}

type table struct {
	objects map[string]object // by namespace/name
	log     []event
}

// Server is a running server. Its methods may be called from many goroutines.
type Server struct {
	http *httptest.Server
	stop chan struct{}

	mu       sync.Mutex
	changed  *sync.Cond
	version  uint64
	oldest   uint64 // watches from before it are answered 410
	epoch    int    // watches of an earlier one end
	closed   bool
	tables   map[string]*table
	calls    map[string]int
	fault    func(*http.Request) *Fault
	taintFor time.Duration
}

// Fault is what a request gets in place of its answer.
type Fault struct {
	Code       int // 0: the connection is cut after the request took effect
	RetryAfter int // seconds
	Hang       bool
	Delay      time.Duration // the true answer, later
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	s := &Server{
		stop: make(chan struct{}), version: 100, calls: map[string]int{},
		tables: map[string]*table{"nodes": newTable(), "pods": newTable(), "leases": newTable(), "events": newTable()},
	}
	s.changed = sync.NewCond(&s.mu)
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.EnableHTTP2 = true
	s.http.StartTLS()
	t.Cleanup(func() {
		close(s.stop)
		s.mu.Lock()
		s.closed = true
		s.changed.Broadcast()
		s.mu.Unlock()
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

func newTable() *table { return &table{objects: map[string]object{}} }

// Endpoint says how to reach the server.
func (s *Server) Endpoint() endpoint.Endpoint {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	return endpoint.New(s.http.URL, ca, endpoint.Identity{})
}

// Fault makes f decide what each request gets; nil answers go on as usual.
func (s *Server) Fault(f func(*http.Request) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// TaintFor makes nodes carry the taint not-ready for as long after their
// creation, as the controller-manager makes them wait.
func (s *Server) TaintFor(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taintFor = d
}

// Calls returns how many requests of a kind, such as "PATCH pods/status", came.
func (s *Server) Calls(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[kind]
}

// CutWatches ends all watches in the middle.
func (s *Server) CutWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.changed.Broadcast()
}

// Compact forgets the past: a watch that wants to go on from it is answered 410.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.oldest = s.version
	for _, t := range s.tables {
		t.log = nil
	}
}

// Pods, Nodes and Leases return copies of what is stored, sorted by name.
func (s *Server) Pods() []*corev1.Pod { return stored[*corev1.Pod](s, "pods") }

// Nodes returns copies of the stored nodes, sorted by name.
func (s *Server) Nodes() []*corev1.Node { return stored[*corev1.Node](s, "nodes") }

// Leases returns copies of the stored leases, sorted by name.
func (s *Server) Leases() []*coordinationv1.Lease { return stored[*coordinationv1.Lease](s, "leases") }

func stored[T object](s *Server, resource string) (out []T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[resource]
	for _, key := range t.keys() {
		out = append(out, t.objects[key].DeepCopyObject().(T))
	}
	return out
}

func (t *table) keys() []string {
	keys := make([]string, 0, len(t.objects))
	for k := range t.objects {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// AddPod stores a pod, Pending unless it says otherwise, and returns its uid.
func (s *Server) AddPod(p *corev1.Pod) types.UID {
	p = p.DeepCopy()
	if p.Status.Phase == "" {
		p.Status.Phase = corev1.PodPending
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.createLocked("pods", p)
	return p.UID
}

// Pod is a pod with one container, bound to a node.
func Pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// EndPod sets a pod's deletionTimestamp, as a graceful deletion does.
func (s *Server) EndPod(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.tables["pods"].objects[namespace+"/"+name]; ok {
		p := o.DeepCopyObject().(*corev1.Pod)
		p.DeletionTimestamp = new(metav1.Now())
		s.updateLocked("pods", p)
	}
}

// RemovePod removes a pod at once; watches that were cut do not see it go.
func (s *Server) RemovePod(namespace, name string) { s.removeKey("pods", namespace+"/"+name) }

// RemoveNode removes a node, as an administrator does.
func (s *Server) RemoveNode(name string) { s.removeKey("nodes", "/"+name) }

// AddNode stores a node.
func (s *Server) AddNode(n *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.createLocked("nodes", n.DeepCopy())
}

// SetNode changes a stored node.
func (s *Server) SetNode(name string, change func(*corev1.Node)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.tables["nodes"].objects["/"+name]; ok {
		n := o.DeepCopyObject().(*corev1.Node)
		change(n)
		s.updateLocked("nodes", n)
	}
}

func (s *Server) removeKey(resource, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.tables[resource].objects[key]; ok {
		s.removeLocked(resource, o)
	}
}

func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// createLocked stores a new object.
func (s *Server) createLocked(resource string, o object) {
	o.SetUID(uuid.NewUUID())
	o.SetCreationTimestamp(metav1.Now())
	s.put(resource, event{kind: watch.Added, object: o})
}

// updateLocked replaces an object.
func (s *Server) updateLocked(resource string, o object) {
	s.put(resource, event{kind: watch.Modified, object: o, before: s.tables[resource].objects[key(o)]})
}

func (s *Server) put(resource string, e event) {
	s.version++
	e.version = s.version
	e.object.SetResourceVersion(strconv.FormatUint(s.version, 10))
	t := s.tables[resource]
	if e.kind == watch.Deleted {
		delete(t.objects, key(e.object))
	} else {
		t.objects[key(e.object)] = e.object
	}
	t.log = append(t.log, e)
	s.changed.Broadcast()
}

// removeLocked deletes an object.
func (s *Server) removeLocked(resource string, o object) {
	s.put(resource, event{kind: watch.Deleted, object: o.DeepCopyObject().(object)})
}

package apitest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The collections of what a fleet has, in all namespaces.
const (
	PodsPath   = "/api/v1/pods"
	NodesPath  = "/api/v1/nodes"
	LeasesPath = "/apis/coordination.k8s.io/v1/leases"
)

// Add stores an object, of any Go type that has it in JSON, at a path, such as
// /api/v1/namespaces/n/pods/p, or changes it there.
func (s *Server) Add(path string, object any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(parse(path), object)
}

func (s *Server) addLocked(t target, object any) {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	o, err := decode(raw)
	if err != nil {
		panic(err)
	}
	t = s.placeLocked(t, o)
	s.putLocked(t, o, s.tables[t.table()][t.key()])
}

// AddPod stores a pod, Pending unless it says otherwise.
func (s *Server) AddPod(p *corev1.Pod) {
	p = p.DeepCopy()
	if p.Status.Phase == "" {
		p.Status.Phase = corev1.PodPending
	}
	s.Add(podPath(p.Namespace, p.Name), p)
}

func podPath(namespace, name string) string {
	return "/api/v1/namespaces/" + namespace + "/pods/" + name
}

// AddNode stores a node.
func (s *Server) AddNode(n *corev1.Node) { s.Add(NodesPath+"/"+n.Name, n) }

// Pod is a pod with one container, bound to a node.
func Pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// Remove removes the object at a path at once, if it is there.
func (s *Server) Remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := parse(path)
	if o := s.tables[t.table()][t.key()]; o != nil {
		s.removeLocked(t, o)
	}
}

// RemovePod removes a pod at once.
func (s *Server) RemovePod(namespace, name string) { s.Remove(podPath(namespace, name)) }

// EndPod begins the graceful deletion of a pod.
func (s *Server) EndPod(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := parse(podPath(namespace, name))
	if o := s.tables[t.table()][t.key()]; o != nil {
		s.endLocked(t, o)
	}
}

// Change changes the object at a path, which is read into a *T.
func Change[T any](s *Server, path string, change func(*T)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := parse(path); s.tables[t.table()][t.key()] != nil {
		into := as[T](s.tables[t.table()][t.key()])
		change(into)
		s.addLocked(t, into)
	}
}

// Get returns the object at a path; nil if it is not there.
func (s *Server) Get(path string) *Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := parse(path)
	return s.tables[t.table()][t.key()]
}

// Objects returns what a collection, such as /api/v1/namespaces/n/pods, holds,
// sorted by namespace and name.
func (s *Server) Objects(collection string) []*Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objectsLocked(parse(collection))
}

func (s *Server) objectsLocked(t target) (out []*Object) {
	for _, key := range slices.Sorted(maps.Keys(s.tables[t.table()])) {
		if o := s.tables[t.table()][key]; t.holds(o) {
			out = append(out, o)
		}
	}
	return out
}

// Created returns what was ever stored in a collection anew.
func (s *Server) Created(collection string) (out []*Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.history {
		if t := parse(collection); e.kind == "ADDED" && e.table == t.table() && t.holds(e.object) {
			out = append(out, e.object)
		}
	}
	return out
}

// Names names what a collection holds: NAMESPACE/NAME, or NAME.
func (s *Server) Names(collection string) (out []string) {
	for _, o := range s.Objects(collection) {
		out = append(out, strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
	}
	return out
}

// List returns what a collection holds as Go objects.
func List[T any](s *Server, collection string) (out []*T) {
	for _, o := range s.Objects(collection) {
		out = append(out, as[T](o))
	}
	return out
}

// Pods returns all pods.
func (s *Server) Pods() []*corev1.Pod { return List[corev1.Pod](s, PodsPath) }

// Nodes returns all nodes.
func (s *Server) Nodes() []*corev1.Node { return List[corev1.Node](s, NodesPath) }

// Leases returns all leases.
func (s *Server) Leases() []*coordinationv1.Lease { return List[coordinationv1.Lease](s, LeasesPath) }

func as[T any](o *Object) *T {
	raw, err := json.Marshal(o.Object)
	into := new(T)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		panic(err)
	}
	return into
}

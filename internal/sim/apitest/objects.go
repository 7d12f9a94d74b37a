package apitest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// The collections of what a fleet has, in all namespaces.
const (
	PodsPath   = "/api/v1/pods"
	NodesPath  = "/api/v1/nodes"
	LeasesPath = "/apis/coordination.k8s.io/v1/leases"
)

// Add stores an object, of any Go type that has it in JSON, at a path, such as
// /api/v1/namespaces/n/pods/p, as it is, or changes it there.
func (s *Server) Add(path string, object any) {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	o, err := decodeObject(raw)
	if err != nil {
		panic(err)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.putObject(parseTarget(path), o)
}

// putObject stores an object as it is, with what becomes of it.
func (s *Server) putObject(t target, o *Object) {
	fresh := s.Get(t.objectPath()) == nil
	s.storeObject(t, o)
	if fresh {
		s.mu.Lock()
		s.created = append(s.created, s.Get(t.objectPath()))
		s.mu.Unlock()
	}
	s.playUntilDone(t.objectPath())
}

// storeObject stores an object as it is, with the names of its place, and as the same object
// that is there already.
func (s *Server) storeObject(t target, o *Object) {
	s.ensureNamespace(t.namespace)
	o.SetName(t.name)
	o.SetNamespace(t.namespace)
	o.SetAPIVersion(t.apiVersion())
	o.SetKind(s.kindOf(t))
	if old := s.Get(t.objectPath()); old != nil {
		o.SetUID(old.GetUID())
		o.SetCreationTimestamp(old.GetCreationTimestamp())
	}
	if o.GetUID() == "" && o.GetDeletionTimestamp() != nil { // a new object's would be dropped
		o.SetUID(uuid.NewUUID())
		o.SetCreationTimestamp(*o.GetDeletionTimestamp())
	}
	o.SetResourceVersion("")
	completeObject(o)
	raw, err := json.Marshal(o.Object)
	if err != nil {
		panic(err)
	}
	s.loadObject(raw)
}

// completeObject gives an object what it cannot be without, where a test is about something
// else.
func completeObject(o *Object) {
	owners := o.GetOwnerReferences()
	for i := range owners {
		r := &owners[i]
		r.APIVersion, r.Kind, r.Name = cmp.Or(r.APIVersion, "v1"), cmp.Or(r.Kind, "Owner"), cmp.Or(r.Name, "owner")
		r.UID = cmp.Or(r.UID, "owner")
	}
	if len(owners) > 0 {
		o.SetOwnerReferences(owners)
	}
	fields := o.GetManagedFields()
	for i := range fields {
		fields[i].Operation = cmp.Or(fields[i].Operation, metav1.ManagedFieldsOperationUpdate)
		fields[i].FieldsType = cmp.Or(fields[i].FieldsType, "FieldsV1")
	}
	if len(fields) > 0 {
		o.SetManagedFields(fields)
	}
	if o.GetKind() == "CustomResourceDefinition" && o.Object["spec"] == nil {
		plural, group, _ := strings.Cut(o.GetName(), ".")
		o.Object["spec"] = resourceDefinition(Resource{Version: group + "/v1", Plural: plural, Kind: "Any"})
	}
}

func (s *Server) loadObject(raw []byte) {
	if _, err := s.cluster.Load(bytes.NewReader(raw)); err != nil {
		panic(err)
	}
}

// kindOf returns the kind of a target's resource.
func (s *Server) kindOf(t target) string {
	var list struct {
		Resources []struct{ Name, Kind string }
	}
	if err := json.Unmarshal(s.request(http.MethodGet, t.root, nil).Body.Bytes(), &list); err != nil {
		panic(err)
	}
	for _, r := range list.Resources {
		if r.Name == t.resource {
			return r.Kind
		}
	}
	panic("nothing is served as " + t.collection())
}

// AddPod stores a pod, Pending unless it says otherwise.
func (s *Server) AddPod(p *corev1.Pod) {
	p = p.DeepCopy()
	if p.Status.Phase == "" {
		p.Status.Phase = corev1.PodPending
	}
	if p.Spec.TerminationGracePeriodSeconds == nil {
		p.Spec.TerminationGracePeriodSeconds = new(int64(30))
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
	s.writing.Lock()
	defer s.writing.Unlock()
	if o := s.Get(path); o != nil && len(o.GetFinalizers()) > 0 {
		o.SetFinalizers(nil)
		s.storeObject(parseTarget(path), o)
	}
	s.request(http.MethodDelete, path, []byte(`{"gracePeriodSeconds":0}`))
}

// RemovePod removes a pod at once.
func (s *Server) RemovePod(namespace, name string) { s.Remove(podPath(namespace, name)) }

// EndPod begins the deletion of a pod, whose kubelet is to end it.
func (s *Server) EndPod(namespace, name string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if path := podPath(namespace, name); s.Get(path) != nil {
		s.request(http.MethodDelete, path, nil)
		s.playUntilDone(path)
	}
}

// Change changes the object at a path, which is read into a *T.
func Change[T any](s *Server, path string, change func(*T)) {
	s.writing.Lock()
	defer s.writing.Unlock()
	o := s.Get(path)
	if o == nil {
		return
	}
	into := convertTo[T](o)
	change(into)
	raw, err := json.Marshal(into)
	if err == nil {
		o, err = decodeObject(raw)
	}
	if err != nil {
		panic(err)
	}
	s.putObject(parseTarget(path), o)
}

// Get returns the object at a path; nil if it is not there.
func (s *Server) Get(path string) *Object {
	r := s.request(http.MethodGet, path, nil)
	if r.Code != http.StatusOK {
		return nil
	}
	o, err := decodeObject(r.Body.Bytes())
	if err != nil {
		panic(err)
	}
	return o
}

// Objects returns what a collection, such as /api/v1/namespaces/n/pods, holds,
// sorted by namespace and name.
func (s *Server) Objects(collection string) (out []*Object) {
	var list struct {
		Kind, APIVersion string
		Items            []map[string]any
	}
	if err := json.Unmarshal(s.request(http.MethodGet, collection, nil).Body.Bytes(), &list); err != nil {
		panic(err)
	}
	for _, item := range list.Items {
		o := &Object{Object: item}
		o.SetAPIVersion(list.APIVersion)
		o.SetKind(strings.TrimSuffix(list.Kind, "List"))
		out = append(out, o)
	}
	return out
}

// Created returns what was ever stored in a collection anew.
func (s *Server) Created(collection string) (out []*Object) {
	t := parseTarget(collection)
	s.mu.Lock()
	all := slices.Clone(s.created)
	s.mu.Unlock()
	kind := s.kindOf(t)
	for _, o := range all {
		if o.GetKind() == kind && o.GetAPIVersion() == t.apiVersion() && (t.namespace == "" || t.namespace == o.GetNamespace()) {
			out = append(out, o)
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
		out = append(out, convertTo[T](o))
	}
	return out
}

// Pods returns all pods.
func (s *Server) Pods() []*corev1.Pod { return List[corev1.Pod](s, PodsPath) }

// Nodes returns all nodes.
func (s *Server) Nodes() []*corev1.Node { return List[corev1.Node](s, NodesPath) }

// Leases returns all leases.
func (s *Server) Leases() []*coordinationv1.Lease { return List[coordinationv1.Lease](s, LeasesPath) }

func convertTo[T any](o *Object) *T {
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

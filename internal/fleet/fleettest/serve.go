package fleettest

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

const notReady = "node.kubernetes.io/not-ready"

// target is what a path names.
type target struct{ resource, namespace, name, sub string }

func parse(path string) target {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	}
	var t target
	if len(parts) > 2 && parts[0] == "namespaces" {
		t.namespace, parts = parts[1], parts[2:]
	}
	for i, p := range parts {
		switch i {
		case 0:
			t.resource = p
		case 1:
			t.name = p
		case 2:
			t.sub = p
		}
	}
	return t
}

func (t target) key() string { return t.namespace + "/" + t.name }

func (t target) kind(method string) string {
	out := method + " " + t.resource
	if t.sub != "" {
		out += "/" + t.sub
	}
	return out
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	t := parse(r.URL.Path)
	kind := t.kind(r.Method)
	if r.URL.Query().Get("watch") != "" {
		kind = "WATCH " + t.resource
	}
	s.mu.Lock()
	s.calls[kind]++
	var fault *Fault
	if s.fault != nil {
		fault = s.fault(r)
	}
	s.mu.Unlock()
	switch {
	case fault != nil && fault.Hang:
		<-s.stop
		return
	case fault != nil && fault.Delay > 0:
		select {
		case <-time.After(fault.Delay):
			s.answer(w, r, t)
		case <-s.stop:
		}
		return
	case fault != nil && fault.Code == 0:
		s.answer(httpDiscard{}, r, t)
		panic(http.ErrAbortHandler) // the connection's stream is reset
	case fault != nil:
		if fault.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(fault.RetryAfter))
		}
		s.refuse(w, fault.Code, "a fault of the test")
		return
	}
	s.answer(w, r, t)
}

type httpDiscard struct{}

func (httpDiscard) Header() http.Header         { return http.Header{} }
func (httpDiscard) Write(b []byte) (int, error) { return len(b), nil }
func (httpDiscard) WriteHeader(int)             {}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, t target) {
	switch r.URL.Path {
	case "/version":
		_ = json.NewEncoder(w).Encode(map[string]string{"gitVersion": Version})
		return
	case "/api/v1":
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{APIResources: []metav1.APIResource{
			{Name: "pods", Kind: "Pod", Namespaced: true}, {Name: "nodes", Kind: "Node"}, {Name: "events", Kind: "Event", Namespaced: true},
		}})
		return
	}
	if !strings.Contains(r.Header.Get("Accept"), "protobuf") {
		w = jsonWriter{w}
	}
	if s.tables[t.resource] == nil {
		s.refuse(w, http.StatusNotFound, "no such resource")
		return
	}
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		s.watch(w, r, t)
	case r.Method == http.MethodGet && t.name == "":
		s.list(w, r, t)
	default:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.one(w, r, t, body)
	}
}

// one answers requests for one object.
func (s *Server) one(w http.ResponseWriter, r *http.Request, t target, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPost {
		s.post(w, t, body)
		return
	}
	old, ok := s.tables[t.resource].objects[t.key()]
	if !ok {
		s.refuse(w, http.StatusNotFound, t.resource+" "+t.name+" not found")
		return
	}
	switch r.Method {
	case http.MethodGet:
		write(w, http.StatusOK, old)
	case http.MethodPut:
		o := fresh(t.resource)
		if err := decode(body, o); err != nil {
			s.refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		if v := o.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
			s.refuse(w, http.StatusConflict, "the object has been modified")
			return
		}
		o.SetUID(old.GetUID())
		s.updateLocked(t.resource, o)
		write(w, http.StatusOK, o)
	case http.MethodPatch:
		s.patch(w, t, old, body)
	case http.MethodDelete:
		s.delete(w, t, old, body)
	}
}

func (s *Server) post(w http.ResponseWriter, t target, body []byte) {
	o := fresh(t.resource)
	if err := decode(body, o); err != nil {
		s.refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	o.SetNamespace(t.namespace)
	if _, ok := s.tables[t.resource].objects[key(o)]; ok {
		s.refuse(w, http.StatusConflict, t.resource+" "+o.GetName()+" already exists")
		return
	}
	if n, ok := o.(*corev1.Node); ok && s.taintFor > 0 {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: notReady, Effect: corev1.TaintEffectNoSchedule})
		time.AfterFunc(s.taintFor, func() {
			s.SetNode(n.Name, func(n *corev1.Node) { n.Spec.Taints = nil })
		})
	}
	s.createLocked(t.resource, o)
	write(w, http.StatusCreated, o)
}

func (s *Server) patch(w http.ResponseWriter, t target, old object, body []byte) {
	var head struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	o := fresh(t.resource)
	raw, err := json.Marshal(old)
	if err == nil {
		err = json.Unmarshal(body, &head)
	}
	if err == nil && head.Metadata.UID != "" && head.Metadata.UID != string(old.GetUID()) {
		s.refuse(w, http.StatusConflict, "the uid is another")
		return
	}
	if err == nil {
		raw, err = strategicpatch.StrategicMergePatch(raw, body, o)
	}
	if err == nil {
		err = json.Unmarshal(raw, o)
	}
	if err != nil {
		s.refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	s.updateLocked(t.resource, o)
	write(w, http.StatusOK, o)
}

func (s *Server) delete(w http.ResponseWriter, t target, old object, body []byte) {
	var options metav1.DeleteOptions
	if len(body) > 0 {
		if err := decode(body, &options); err != nil {
			s.refuse(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != old.GetUID() {
		s.refuse(w, http.StatusConflict, "the uid is another")
		return
	}
	if g := options.GracePeriodSeconds; t.resource == "pods" && (g == nil || *g > 0) {
		s.refuse(w, http.StatusUnprocessableEntity, "a kubelet deletes with a grace period of 0")
		return
	}
	s.removeLocked(t.resource, old)
	write(w, http.StatusOK, old)
}

func fresh(resource string) object {
	switch resource {
	case "nodes":
		return &corev1.Node{}
	case "pods":
		return &corev1.Pod{}
	case "events":
		return &corev1.Event{}
	default:
		return &coordinationv1.Lease{}
	}
}

func serializer() *protobuf.Serializer { return protobuf.NewSerializer(scheme.Scheme, scheme.Scheme) }

// decode reads a body in protobuf or JSON, whichever it is.
func decode(body []byte, into runtime.Object) error {
	if len(body) > 0 && body[0] == '{' {
		return json.Unmarshal(body, into)
	}
	_, _, err := serializer().Decode(body, nil, into)
	return err
}

// encode writes an object in protobuf with its kind.
func encode(o runtime.Object, w io.Writer) {
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err == nil {
		o = o.DeepCopyObject()
		o.GetObjectKind().SetGroupVersionKind(kinds[0])
		err = serializer().Encode(o, w)
	}
	if err != nil {
		panic(err)
	}
}

// jsonWriter marks an answer that is wanted as JSON.
type jsonWriter struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (w jsonWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func write(w http.ResponseWriter, code int, o runtime.Object) {
	if _, ok := w.(jsonWriter); ok {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write(asJSON(o))
		return
	}
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
	w.WriteHeader(code)
	encode(o, w)
}

func (s *Server) refuse(w http.ResponseWriter, code int, message string) {
	write(w, code, &metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Message: message, Reason: metav1.StatusReason(http.StatusText(code))})
}

// shown says whether a list or watch with the request's selectors shows an object.
func shown(r *http.Request, o object) bool {
	if o == nil {
		return false
	}
	q := r.URL.Query()
	field, err := fields.ParseSelector(q.Get("fieldSelector"))
	if err != nil {
		panic(err)
	}
	known := fields.Set{"metadata.name": o.GetName()}
	if p, ok := o.(*corev1.Pod); ok {
		known["spec.nodeName"], known["status.phase"] = p.Spec.NodeName, string(p.Status.Phase)
	}
	label, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		panic(err)
	}
	return field.Matches(known) && label.Matches(labels.Set(o.GetLabels()))
}

// asJSON writes an object with its kind, or a list, whose items have none.
func asJSON(o runtime.Object) []byte {
	if kinds, _, err := scheme.Scheme.ObjectKinds(o); err == nil {
		o = o.DeepCopyObject()
		o.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return raw
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, t target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	after := r.URL.Query().Get("continue")
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatUint(s.version, 10)}
	var found []object
	table := s.tables[t.resource]
	for _, k := range table.keys() {
		if k <= after || !shown(r, table.objects[k]) {
			continue
		}
		if limit > 0 && len(found) == limit {
			meta.Continue = key(found[len(found)-1])
			break
		}
		found = append(found, table.objects[k])
	}
	write(w, http.StatusOK, listOf(t.resource, meta, found))
}

func listOf(resource string, meta metav1.ListMeta, found []object) runtime.Object {
	if resource == "nodes" {
		l := &corev1.NodeList{ListMeta: meta}
		for _, o := range found {
			l.Items = append(l.Items, *o.(*corev1.Node))
		}
		return l
	}
	l := &corev1.PodList{ListMeta: meta}
	for _, o := range found {
		l.Items = append(l.Items, *o.(*corev1.Pod))
	}
	return l
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, t target) {
	from, _ := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	defer context(r, s)()
	s.mu.Lock()
	defer s.mu.Unlock()
	if from < s.oldest {
		s.refuse(w, http.StatusGone, "too old resource version")
		return
	}
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	epoch := s.epoch
	for !s.closed && r.Context().Err() == nil && epoch == s.epoch {
		if from < s.oldest {
			frame(w, watch.Error, &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old"})
			_ = http.NewResponseController(w).Flush()
			return
		}
		sent := false
		for _, e := range s.tables[t.resource].log {
			if e.version > from {
				from, sent = e.version, true
				emit(w, r, e)
			}
		}
		if sent {
			_ = http.NewResponseController(w).Flush()
		}
		s.changed.Wait()
	}
}

// context wakes a watch whose client went away.
func context(r *http.Request, s *Server) func() {
	gone := make(chan struct{})
	go func() {
		select {
		case <-r.Context().Done():
			s.mu.Lock()
			s.changed.Broadcast()
			s.mu.Unlock()
		case <-gone:
		}
	}()
	return func() { close(gone) }
}

// emit sends an event as the selectors show it.
func emit(w http.ResponseWriter, r *http.Request, e event) {
	is, was := shown(r, e.object), e.before == nil || shown(r, e.before)
	switch {
	case e.kind == watch.Modified && is && !was:
		frame(w, watch.Added, e.object)
	case e.kind == watch.Modified && !is && was:
		frame(w, watch.Deleted, e.object)
	case is:
		frame(w, e.kind, e.object)
	}
}

func frame(w http.ResponseWriter, kind watch.EventType, o runtime.Object) {
	if _, ok := w.(jsonWriter); ok {
		raw, err := json.Marshal(metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: asJSON(o)}})
		if err != nil {
			panic(err)
		}
		_, _ = w.Write(append(raw, '\n'))
		return
	}
	var inner strings.Builder
	encode(o, &inner)
	raw, err := (&metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: []byte(inner.String())}}).Marshal()
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...))
}

package apitest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// answer is how a request is answered; the zero one is not heard.
type answer struct {
	w      http.ResponseWriter
	packed bool // in protobuf, if the object's kind has it
}

func (a answer) write(code int, o map[string]any) {
	if a.w == nil {
		return
	}
	raw, packed := encode(a.packed, o)
	a.w.Header().Set("Content-Type", contentType(packed))
	a.w.WriteHeader(code)
	_, _ = a.w.Write(raw)
}

func contentType(packed bool) string {
	if packed {
		return "application/vnd.kubernetes.protobuf"
	}
	return "application/json"
}

func (a answer) refuse(code int, reason, message string) {
	a.write(code, status(code, reason, message))
}

// refuseField refuses what is wrong in one field.
func (a answer) refuseField(field, message string) {
	s := status(http.StatusUnprocessableEntity, string(metav1.StatusReasonInvalid), field+": "+message)
	s["details"] = map[string]any{"causes": []any{map[string]any{"reason": "FieldValueInvalid", "message": message, "field": field}}}
	a.write(http.StatusUnprocessableEntity, s)
}

func status(code int, reason, message string) map[string]any {
	return map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{},
		"status": metav1.StatusFailure, "code": code, "reason": reason, "message": message,
	}
}

// kindOf returns the kind of a target's resource; empty where nobody knows it.
func (s *Server) kindOf(t target) string {
	for _, r := range s.resources {
		if r.Version == t.apiVersion() && r.Plural == t.resource {
			return r.Kind
		}
	}
	version := schema.FromAPIVersionAndKind(t.apiVersion(), "").GroupVersion()
	for kind := range scheme.Scheme.KnownTypes(version) {
		if r, _ := meta.UnsafeGuessKindToResource(version.WithKind(kind)); r.Resource == t.resource {
			return kind
		}
	}
	return ""
}

// newTyped returns an object of a kind in Go; nil if there is none.
func newTyped(apiVersion, kind string) runtime.Object {
	o, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(apiVersion, kind))
	if err != nil {
		return nil
	}
	return o
}

// encode writes an object in protobuf, if that is wanted and can be, or in JSON.
func encode(packed bool, o map[string]any) (out []byte, isPacked bool) {
	raw, err := json.Marshal(o)
	if packed && err == nil {
		u := unstructured.Unstructured{Object: o}
		if typed := newTyped(u.GetAPIVersion(), u.GetKind()); typed != nil {
			var b bytes.Buffer
			if err = json.Unmarshal(raw, typed); err == nil {
				err = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(typed, &b)
			}
			raw, isPacked = b.Bytes(), true
		}
	}
	if err != nil {
		panic(err)
	}
	return raw, isPacked
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

// selection returns what a list or watch shows.
func selection(q url.Values) (func(*Object) bool, error) {
	label, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	field, err := fields.ParseSelector(q.Get("fieldSelector"))
	return func(o *Object) bool {
		if o == nil || !label.Matches(labels.Set(o.GetLabels())) {
			return false
		}
		known := fields.Set{}
		for _, r := range field.Requirements() {
			known[r.Field], _, _ = unstructured.NestedString(o.Object, strings.Split(r.Field, ".")...)
		}
		return field.Matches(known)
	}, err
}

// watch sends what there is, if no version is named, and events after that until
// the client leaves.
func (s *Server) watch(a answer, r *http.Request, t target, shown func(*Object) bool) {
	q := r.URL.Query()
	after, _ := strconv.ParseUint(q.Get("resourceVersion"), 10, 64)
	s.mu.Lock()
	epoch, next := s.epoch, 0
	var there []*Object
	if initial := q.Get("sendInitialEvents") == "true"; initial || after == 0 {
		after, next, there = s.version, len(s.history), s.objectsLocked(t)
		if initial {
			there = append(there, s.bookmarkLocked(t))
		}
	}
	old := after < s.oldest
	s.mu.Unlock()
	if old {
		a.refuse(http.StatusGone, "Expired", "too old resource version")
		return
	}
	a.packed = a.packed && newTyped(t.apiVersion(), s.kindOf(t)) != nil
	a.w.Header().Set("Content-Type", contentType(a.packed)+";stream=watch")
	a.w.WriteHeader(http.StatusOK)
	for _, o := range there {
		if o.GetName() == "" {
			a.event("BOOKMARK", o.Object)
		} else if shown(o) {
			a.event("ADDED", o.Object)
		}
	}
	for http.NewResponseController(a.w).Flush() == nil {
		s.mu.Lock()
		ended, old, wake := epoch != s.epoch, after < s.oldest, s.changed
		var news []event
		if !ended && !old {
			news, next = s.history[next:], len(s.history)
		}
		s.mu.Unlock()
		for _, e := range news {
			if e.version <= after {
				continue
			}
			after = e.version
			if kind := e.shown(shown); e.table == t.table() && t.holds(e.object) && kind != "" {
				a.event(kind, e.object.Object)
			}
		}
		switch {
		case ended:
			return
		case old:
			a.event("ERROR", status(http.StatusGone, "Expired", "too old resource version"))
			return
		case len(news) > 0:
			continue // they are sent before anything is waited for
		}
		select {
		case <-wake:
		case <-s.stop:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// bookmarkLocked says that all there is has been sent.
func (s *Server) bookmarkLocked(t target) *Object {
	o := &Object{Object: map[string]any{"apiVersion": t.apiVersion(), "kind": s.kindOf(t)}}
	o.SetResourceVersion(strconv.FormatUint(s.version, 10))
	o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return o
}

// shown says what an event is to a watch with selectors; empty: nothing.
func (e event) shown(shown func(*Object) bool) string {
	is, was := shown(e.object), shown(e.before)
	switch {
	case e.kind == "DELETED" && (is || was), e.kind == "MODIFIED" && was && !is:
		return "DELETED"
	case e.kind == "DELETED", !is:
		return ""
	case was:
		return "MODIFIED"
	}
	return "ADDED"
}

// event sends an event of a watch.
func (a answer) event(kind string, o map[string]any) {
	raw, packed := encode(a.packed, o)
	if packed {
		e, err := (&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}}).Marshal()
		if err != nil {
			panic(err)
		}
		_, _ = a.w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(e))), e...))
		return
	}
	_, _ = a.w.Write([]byte(`{"type":"` + kind + `","object":` + string(raw) + "}\n"))
}

package apitest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

func (s *Server) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// putLocked stores an object, before which there was another one or nil, shows
// it to watches, and returns what became of it.
func (s *Server) putLocked(t target, o, before *Object) *Object {
	s.version++
	o.SetResourceVersion(strconv.FormatUint(s.version, 10))
	kind := "MODIFIED"
	if before == nil {
		kind = "ADDED"
		if o.GetUID() == "" {
			h := sha256.Sum256([]byte(o.GetResourceVersion()))
			o.SetUID(types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])))
		}
		o.SetCreationTimestamp(s.now())
	}
	table := s.tables[t.table()]
	if table == nil {
		table = map[string]*Object{}
		s.tables[t.table()] = table
	}
	table[t.key()] = o
	s.showLocked(event{s.version, kind, t.table(), o, before})
	if s.play != nil {
		if next := s.play(t.path(), o); next != nil {
			return s.putLocked(t, next, o)
		}
	}
	return o
}

func (s *Server) now() metav1.Time { return metav1.NewTime(s.clock.Wall(s.clock.Now()).Truncate(1e9)) }

func (s *Server) showLocked(e event) {
	s.history = append(s.history, e)
	s.wakeLocked()
}

// removeLocked returns an object as it was, by the version of its deletion.
func (s *Server) removeLocked(t target, o *Object) *Object {
	s.version++
	last := o.DeepCopy()
	last.SetResourceVersion(strconv.FormatUint(s.version, 10))
	delete(s.tables[t.table()], t.key())
	s.showLocked(event{s.version, "DELETED", t.table(), last, o})
	if t.resource != "namespaces" {
		return last
	}
	for name, table := range s.tables {
		for key, o := range table {
			if strings.HasPrefix(key, t.name+"/") {
				i := strings.LastIndex(name, "/")
				s.removeLocked(target{root: name[:i], resource: name[i+1:], namespace: t.name, name: o.GetName()}, o)
			}
		}
	}
	return last
}

// placeLocked gives an object that is about to be stored the names of its place.
func (s *Server) placeLocked(t target, o *Object) target {
	switch {
	case t.name != "":
		o.SetName(t.name)
	case o.GetName() == "":
		o.SetName(o.GetGenerateName() + strconv.FormatUint(s.version, 36))
	}
	t.name = o.GetName()
	if t.namespace != "" {
		o.SetNamespace(t.namespace)
	}
	if kind := s.kindOf(t); kind != "" {
		o.SetAPIVersion(t.apiVersion())
		o.SetKind(kind)
	}
	return t
}

func (s *Server) createLocked(a answer, t target, body []byte) {
	o, err := decode(body)
	if err != nil {
		a.refuse(http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	t = s.placeLocked(t, o)
	if s.tables[t.table()][t.key()] != nil {
		a.refuse(http.StatusConflict, "AlreadyExists", t.resource+" "+t.name+" already exists")
		return
	}
	o.SetUID("")
	if s.admit != nil {
		s.admit(t.path(), o)
	}
	a.write(http.StatusCreated, s.putLocked(t, o, nil).Object)
}

func (s *Server) listLocked(a answer, r *http.Request, t target, shown func(*Object) bool) {
	q := r.URL.Query()
	limit, _ := strconv.Atoi(q.Get("limit"))
	meta, items := map[string]any{"resourceVersion": strconv.FormatUint(s.version, 10)}, []any{}
	last := ""
	for _, o := range s.objectsLocked(t) {
		key := o.GetNamespace() + "/" + o.GetName()
		if key <= q.Get("continue") || !shown(o) {
			continue
		}
		if limit > 0 && len(items) == limit {
			meta["continue"] = last
			break
		}
		last = key
		items = append(items, o.Object)
	}
	list := map[string]any{"metadata": meta, "items": items}
	if kind := s.kindOf(t); kind != "" {
		list["kind"], list["apiVersion"] = kind+"List", t.apiVersion()
	}
	a.write(http.StatusOK, list)
}

// holds says whether a collection, of one namespace or of all, has an object.
func (t target) holds(o *Object) bool { return t.namespace == "" || t.namespace == o.GetNamespace() }

func (s *Server) updateLocked(a answer, t target, old *Object, body []byte) {
	o, err := decode(body)
	if err != nil {
		a.refuse(http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	if v := o.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		a.refuse(http.StatusConflict, "Conflict", "the object has been modified")
		return
	}
	if t.part == "status" {
		status := o.Object["status"]
		o = old.DeepCopy()
		o.Object["status"] = status
	}
	s.replaceLocked(a, t, old, o)
}

func (s *Server) patchLocked(a answer, t target, old *Object, body []byte, contentType string) {
	raw, err := json.Marshal(old.Object)
	if err != nil {
		a.refuse(http.StatusInternalServerError, "InternalError", err.Error())
		return
	}
	typed := newTyped(t.apiVersion(), old.GetKind())
	switch kind := types.PatchType(contentType); {
	case kind == types.JSONPatchType:
		var p jsonpatch.Patch
		if p, err = jsonpatch.DecodePatch(body); err == nil {
			raw, err = p.Apply(raw)
		}
	case kind == types.StrategicMergePatchType && typed != nil:
		raw, err = strategicpatch.StrategicMergePatch(raw, body, typed)
	default:
		raw, err = jsonpatch.MergePatch(raw, body)
	}
	var o *Object
	if err == nil {
		o, err = decode(raw)
	}
	switch {
	case err == nil && o.GetUID() != old.GetUID():
		a.refuseField("metadata.uid", "Invalid value: "+strconv.Quote(string(o.GetUID()))+": field is immutable")
	case err != nil:
		a.refuse(http.StatusUnprocessableEntity, "Invalid", err.Error())
	default:
		s.replaceLocked(a, t, old, o)
	}
}

// replaceLocked replaces an object unless nothing has changed, or removes it
// when its last finalizer went.
func (s *Server) replaceLocked(a answer, t target, old, o *Object) {
	s.placeLocked(t, o)
	o.SetUID(old.GetUID())
	o.SetResourceVersion(old.GetResourceVersion())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	o.SetDeletionTimestamp(old.GetDeletionTimestamp())
	switch {
	case o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && !graceful(o):
		s.removeLocked(t, o)
	case !reflect.DeepEqual(o.Object, old.Object):
		o = s.putLocked(t, o, old)
	}
	a.write(http.StatusOK, o.Object)
}

// graceful says whether an object waits for a kubelet to delete it.
func graceful(o *Object) bool {
	spec, _ := o.Object["spec"].(map[string]any)
	node, _ := spec["nodeName"].(string)
	return o.GetKind() == "Pod" && node != ""
}

func (s *Server) deleteLocked(a answer, t target, old *Object, body []byte) {
	var options metav1.DeleteOptions
	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			a.refuse(http.StatusBadRequest, "BadRequest", err.Error())
			return
		}
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != old.GetUID() {
		a.refuse(http.StatusConflict, "Conflict", "the uid is another")
		return
	}
	now := options.GracePeriodSeconds != nil && *options.GracePeriodSeconds == 0
	switch {
	case len(old.GetFinalizers()) == 0 && (now || !graceful(old)):
		old = s.removeLocked(t, old)
	case old.GetDeletionTimestamp() == nil:
		old = s.endLocked(t, old)
	}
	a.write(http.StatusOK, old.Object)
}

// endLocked says that an object is being deleted.
func (s *Server) endLocked(t target, old *Object) *Object {
	o := old.DeepCopy()
	o.SetDeletionTimestamp(new(s.now()))
	return s.putLocked(t, o, old)
}

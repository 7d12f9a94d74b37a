package vmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

func uid(n int) types.UID {
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
}

func (s *Server) now() metav1.Time { return metav1.NewTime(s.wall().Truncate(1e9)) }

// fail makes the Status of a refusal.
func fail(code int, reason, message string) (int, any) {
	return code, map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code, "metadata": map[string]any{},
	}
}

func missing(t target) (int, any) { return fail(http.StatusNotFound, "NotFound", t.key()+" not found") }

// answer carries a request out; callers hold mu.
func (s *Server) answer(r *http.Request, t target) (int, any) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return fail(http.StatusBadRequest, "BadRequest", err.Error())
	}
	old := s.kinds[t.resource][t.key()]
	switch {
	case r.Method == http.MethodPost:
		return s.create(t, body)
	case r.Method == http.MethodGet && t.name == "":
		return s.list(r, t)
	case old == nil:
		return missing(t)
	case r.Method == http.MethodGet:
		return http.StatusOK, old.Object
	case r.Method == http.MethodPut:
		return s.update(t, old, body)
	case r.Method == http.MethodPatch:
		return s.patch(t, old, body, r.Header.Get("Content-Type"))
	case r.Method == http.MethodDelete:
		return s.delete(t, old, body)
	}
	return fail(http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method)
}

func (s *Server) create(t target, body []byte) (int, any) {
	o := &object{}
	if err := json.Unmarshal(body, &o.Object); err != nil {
		return fail(http.StatusBadRequest, "BadRequest", err.Error())
	}
	if t.namespace != "" {
		o.SetNamespace(t.namespace)
	}
	if s.kinds[t.resource][o.GetNamespace()+"/"+o.GetName()] != nil {
		return fail(http.StatusConflict, "AlreadyExists", o.GetName()+" already exists")
	}
	if t.resource == "pods" {
		s.created[o.GetLabels()[api.LabelCreatedBy]+"/"+o.GetLabels()[api.LabelMigrationJob]]++
	}
	return http.StatusCreated, s.put(t.resource, o, nil).Object
}

func (s *Server) list(r *http.Request, t target) (int, any) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return fail(http.StatusBadRequest, "BadRequest", err.Error())
	}
	items := []any{}
	for _, o := range s.kinds[t.resource] {
		if selector.Matches(labels.Set(o.GetLabels())) && (t.namespace == "" || t.namespace == o.GetNamespace()) {
			items = append(items, o.Object)
		}
	}
	kind, version := listKind(t.resource)
	return http.StatusOK, map[string]any{
		"kind": kind, "apiVersion": version, "items": items,
		"metadata": map[string]any{"resourceVersion": strconv.FormatInt(s.version, 10)},
	}
}

func listKind(resource string) (kind, version string) {
	switch resource {
	case api.ResourceInstances:
		return "VirtualMachineInstanceList", "kubevirt.io/v1"
	case api.ResourceMachines:
		return "VirtualMachineList", "kubevirt.io/v1"
	case api.ResourceMigrations:
		return "VirtualMachineInstanceMigrationList", "kubevirt.io/v1"
	case api.ResourceInstallation:
		return "KubeVirtList", "kubevirt.io/v1"
	case "pods":
		return "PodList", "v1"
	}
	return "NodeList", "v1"
}

func (s *Server) update(t target, old *object, body []byte) (int, any) {
	o := &object{}
	if err := json.Unmarshal(body, &o.Object); err != nil {
		return fail(http.StatusBadRequest, "BadRequest", err.Error())
	}
	if v := o.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		return fail(http.StatusConflict, "Conflict", "the object has been modified")
	}
	if t.part == "status" {
		status := o.Object["status"]
		o = old.DeepCopy()
		o.Object["status"] = status
	}
	return s.store(t, old, o)
}

// store replaces an object, or removes it when its last finalizer went.
func (s *Server) store(t target, old, o *object) (int, any) {
	o.SetUID(old.GetUID())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	o.SetDeletionTimestamp(old.GetDeletionTimestamp())
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && t.resource != "pods" {
		s.remove(t.resource, o)
		return http.StatusOK, o.Object
	}
	return http.StatusOK, s.put(t.resource, o, old).Object
}

func (s *Server) patch(t target, old *object, body []byte, kind string) (int, any) {
	raw, err := old.MarshalJSON()
	if err != nil {
		return fail(http.StatusInternalServerError, "InternalError", err.Error())
	}
	switch types.PatchType(kind) {
	case types.JSONPatchType:
		var p jsonpatch.Patch
		if p, err = jsonpatch.DecodePatch(body); err == nil {
			raw, err = p.Apply(raw)
		}
	case types.MergePatchType:
		raw, err = jsonpatch.MergePatch(raw, body)
	default:
		var kind any = corev1.Pod{}
		if t.resource == "nodes" {
			kind = corev1.Node{}
		}
		raw, err = strategicpatch.StrategicMergePatch(raw, body, kind)
	}
	o := &object{}
	if err == nil {
		err = json.Unmarshal(raw, &o.Object)
	}
	if err != nil {
		return fail(http.StatusUnprocessableEntity, "Invalid", err.Error())
	}
	if o.GetUID() != old.GetUID() {
		return fail(http.StatusConflict, "Conflict", "another uid")
	}
	return s.store(t, old, o)
}

func (s *Server) delete(t target, old *object, body []byte) (int, any) {
	var options metav1.DeleteOptions
	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			return fail(http.StatusBadRequest, "BadRequest", err.Error())
		}
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != old.GetUID() {
		return fail(http.StatusConflict, "Conflict", "another uid")
	}
	waits := len(old.GetFinalizers()) > 0
	if t.resource == "pods" {
		waits = waits || options.GracePeriodSeconds == nil || *options.GracePeriodSeconds > 0
	}
	switch {
	case !waits:
		s.remove(t.resource, old)
	case old.GetDeletionTimestamp() == nil:
		o := old.DeepCopy()
		now := s.now()
		o.SetDeletionTimestamp(&now)
		s.put(t.resource, o, old)
	}
	return http.StatusOK, old.Object
}

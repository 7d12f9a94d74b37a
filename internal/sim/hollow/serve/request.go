package serve

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/backend"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/control"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
)

// request is a request about objects.
type request struct {
	*http.Request
	registry.Target
	*answer

	user   control.User
	values int // in the body, at least
	room   room
}

// errNoGroup says that a path is of no group and version that there is: the one
// thing that is not refused with a Status.
var errNoGroup = errors.New("404 page not found")

// notFoundError is the answer for a path that leads to nothing.
func notFoundError() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
	}}
}

// notAllowed is the answer for what cannot be done to a resource.
func notAllowed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed,
		Message: "the server does not allow this method on the requested resource", Details: &metav1.StatusDetails{},
	}}
}

// parsePath finds out what a request is about.
func (q *request) parsePath(path string) error {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var group, version string
	switch {
	case parts[0] == "api" && len(parts) > 2:
		version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		return notFoundError()
	}
	kinds := q.cluster.registry.Kinds()
	if !kinds.HasGroup(group, version) {
		return errNoGroup
	}
	// What stands below a namespace is in it, but for what is its own.
	if len(parts) > 2 && parts[0] == "namespaces" && (len(parts) > 3 || kinds.Find(group, version, parts[2]) != nil) {
		q.Namespace, parts = parts[1], parts[2:]
	}
	q.Kind = kinds.Find(group, version, parts[0])
	if q.Kind == nil || len(parts) > 3 || q.Namespace != "" && !q.Kind.Namespaced {
		return notFoundError()
	}
	if len(parts) > 1 {
		q.Name = parts[1]
	}
	if len(parts) > 2 {
		q.Sub = parts[2]
		if _, ok := q.Kind.Find(q.Sub); !ok {
			return notFoundError()
		}
	}
	if q.Name != "" && q.Kind.Namespaced && q.Namespace == "" {
		return notFoundError()
	}
	f, ok := parseAccept(q.Header.Get("Accept"), q.Kind.Packs())
	if !ok {
		return notAcceptable(q.Header.Get("Accept"))
	}
	q.form, q.known, q.kind = f, true, q.Kind
	return nil
}

// isWatch says whether the request is a watch.
func (q *request) isWatch() bool {
	return q.Method == http.MethodGet && q.Sub == "" && parseBool(q.query.Get("watch"))
}

// parseBool reads a bool of a query, of which anything but no is yes.
func parseBool(s string) bool { return s != "" && s != "0" && !strings.EqualFold(s, "false") }

// carryOut carries the request out.
func (q *request) carryOut() error {
	verb := q.verbName()
	allowed := q.Kind.Verbs
	if s, ok := q.Kind.Find(q.Sub); ok {
		allowed = s.Verbs
	}
	if !slices.Contains(allowed, verb) || q.Name == "" && (verb == "update" || verb == "patch") {
		return notAllowed()
	}
	switch verb {
	case "create":
		return q.createObject()
	case "get":
		return q.getObject()
	case "list":
		return q.listObjects()
	case "watch":
		return q.watchObjects()
	case "update":
		return q.replaceObject()
	case "patch":
		return q.patchObject()
	case "delete":
		return q.deleteObject()
	}
	return q.deleteCollection()
}

// verbName returns the word of discovery for what the request does.
func (q *request) verbName() string {
	one := q.Name != ""
	switch q.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if one {
			return "delete"
		}
		return "deletecollection"
	case http.MethodGet, http.MethodHead:
		switch {
		case q.isWatch():
			return "watch"
		case one:
			return "get"
		}
		return "list"
	}
	return q.Method
}

// readBody reads the request's body.
func (q *request) readBody() ([]byte, error) {
	if err := q.room.reserveBytes(q.ContentLength); err != nil {
		return nil, err
	}
	var in bytes.Buffer
	if q.ContentLength > 0 {
		in.Grow(int(min(q.ContentLength, codec.Limit)) + bytes.MinRead) // it is read in one go
	}
	if q.ProtoMajor == 1 && q.ContentLength != 0 { // over HTTP/2 all have one
		c := q.cluster.clock
		in := http.NewResponseController(q.w)
		_ = in.SetReadDeadline(c.Wall(c.Now().Add(backend.RequestTimeout))) // tests' have none
		defer func() { _ = in.SetReadDeadline(time.Time{}) }()              // the connection is watched for its end
	}
	_, err := in.ReadFrom(http.MaxBytesReader(q.w, q.Body, codec.Limit))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, apierrors.NewRequestEntityTooLargeError("limit is " + strconv.Itoa(codec.Limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, backend.TimeoutError()
	case err != nil:
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return in.Bytes(), q.room.waitTurn(q.Context().Done())
}

// lookEvery is after how many objects a request looks whether its time is over.
const lookEvery = 256

// parseWrite returns what the request's query says of its change.
func (q *request) parseWrite() (registry.Write, error) {
	w := registry.Write{Target: q.Target, Manager: q.query.Get("fieldManager"), DryRun: len(q.query["dryRun"]) > 0}
	var errs field.ErrorList
	kind := "CreateOptions"
	switch q.Method {
	case http.MethodPost:
		errs = validation.ValidateCreateOptions(&metav1.CreateOptions{DryRun: q.query["dryRun"], FieldManager: w.Manager, FieldValidation: q.query.Get("fieldValidation")})
	default:
		kind = "UpdateOptions"
		errs = validation.ValidateUpdateOptions(&metav1.UpdateOptions{DryRun: q.query["dryRun"], FieldManager: w.Manager, FieldValidation: q.query.Get("fieldValidation")})
	}
	if q.Method == http.MethodPatch {
		kind = "PatchOptions"
	}
	if len(errs) > 0 {
		return w, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
	}
	if w.Manager == "" {
		w.Manager, _, _ = strings.Cut(q.UserAgent(), "/")
	}
	return w, nil
}

// createObject creates an object.
func (q *request) createObject() error {
	if q.Sub != "" || len(q.Kind.Verbs) == 1 {
		return q.doAction()
	}
	if q.Name != "" {
		return notAllowed()
	}
	w, err := q.parseWrite()
	if err != nil {
		return err
	}
	o, err := q.readObject(q.Kind)
	if err != nil {
		return err
	}
	made, err := q.cluster.backend.Create(w, o)
	if err != nil {
		return err
	}
	return q.writeObject(http.StatusCreated, made)
}

// replaceObject replaces an object.
func (q *request) replaceObject() error {
	w, err := q.parseWrite()
	if err != nil {
		return err
	}
	k := q.Kind
	if q.Sub == "scale" {
		k = registry.ScaleKind()
	}
	o, err := q.readObject(k)
	if err != nil {
		return err
	}
	m := kind.Meta(o)
	if err := registry.CheckName(q.Name, m); err != nil {
		return err
	}
	if err := registry.CheckNamespace(q.Namespace, m); err != nil {
		return err
	}
	replace := func(old runtime.Object, _ time.Time) (runtime.Object, error) {
		if q.Sub == "scale" {
			return registry.SetScale(q.Kind, old, o)
		}
		return o.DeepCopyObject(), nil
	}
	done, err := q.cluster.backend.Change(registry.Change{Write: w, Values: q.values, Create: q.Kind.PutCreates && q.Sub == "", UID: m.GetUID(), Replace: replace})
	if err != nil {
		return err
	}
	code := http.StatusOK
	if done.Created {
		code = http.StatusCreated
	}
	return q.writePart(code, done)
}

// getObject answers with one object.
func (q *request) getObject() error {
	o := q.cluster.registry.Table(q.Kind).Get(q.Key())
	if o == nil {
		return apierrors.NewNotFound(q.Kind.Resource(), q.Name)
	}
	return q.writePart(http.StatusOK, registry.Result{Kind: q.Kind, Stored: o})
}

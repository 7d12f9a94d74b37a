package hollow

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
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
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
)

// request is a request about objects.
type request struct {
	*http.Request
	registry.Target
	*answer

	query  url.Values
	user   user
	values int // in the body, at least
	room   room
}

// errNoGroup says that a path is of no group and version that there is: the one
// thing that is not refused with a Status.
var errNoGroup = errors.New("404 page not found")

// nowhere is the answer for a path that leads to nothing.
func nowhere() error {
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

// route finds out what a request is about.
func (q *request) route(path string) error {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var group, version string
	switch {
	case parts[0] == "api" && len(parts) > 2:
		version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		return nowhere()
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
		return nowhere()
	}
	if len(parts) > 1 {
		q.Name = parts[1]
	}
	if len(parts) > 2 {
		q.Sub = parts[2]
		if _, ok := q.Kind.Find(q.Sub); !ok {
			return nowhere()
		}
	}
	if q.Name != "" && q.Kind.Namespaced && q.Namespace == "" {
		return nowhere()
	}
	f, ok := accept(q.Header.Get("Accept"), q.Kind.Packs())
	if !ok {
		return notAcceptable(q.Header.Get("Accept"))
	}
	q.form, q.known = f, true
	return nil
}

// watching says whether the request is a watch.
func (q *request) watching() bool {
	return q.Method == http.MethodGet && q.Sub == "" && truth(q.query.Get("watch"))
}

// truth reads a bool of a query, of which anything but no is yes.
func truth(s string) bool { return s != "" && s != "0" && !strings.EqualFold(s, "false") }

// do carries the request out.
func (q *request) do() error {
	verb := q.verb()
	allowed := q.Kind.Verbs
	if s, ok := q.Kind.Find(q.Sub); ok {
		allowed = s.Verbs
	}
	if !slices.Contains(allowed, verb) || q.Name == "" && (verb == "update" || verb == "patch") {
		return notAllowed()
	}
	switch verb {
	case "create":
		return q.post()
	case "get":
		return q.get()
	case "list":
		return q.list()
	case "watch":
		return q.watch()
	case "update":
		return q.put()
	case "patch":
		return q.patch()
	case "delete":
		return q.remove()
	}
	return q.removeAll()
}

// verb returns the word of discovery for what the request does.
func (q *request) verb() string {
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
		case q.watching():
			return "watch"
		case one:
			return "get"
		}
		return "list"
	}
	return q.Method
}

// body reads the request's body.
func (q *request) body() ([]byte, error) {
	if err := q.room.reserve(q.ContentLength); err != nil {
		return nil, err
	}
	var in bytes.Buffer
	if q.ContentLength > 0 {
		in.Grow(int(min(q.ContentLength, codec.Limit)) + bytes.MinRead) // it is read in one go
	}
	if q.ProtoMajor == 1 && q.ContentLength != 0 { // over HTTP/2 all have one
		c := q.cluster.server.clock
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
	return in.Bytes(), q.room.wait(q.Context().Done())
}

// lookEvery is after how many objects a request looks whether its time is over.
const lookEvery = 256

// writing returns what the request's query says of its change.
func (q *request) writing() (registry.Write, error) {
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

// post creates an object.
func (q *request) post() error {
	if q.Sub != "" || len(q.Kind.Verbs) == 1 {
		return q.act()
	}
	if q.Name != "" {
		return notAllowed()
	}
	w, err := q.writing()
	if err != nil {
		return err
	}
	o, err := q.read(q.Kind)
	if err != nil {
		return err
	}
	made, err := q.cluster.backend.Create(w, o)
	if err != nil {
		return err
	}
	return q.object(http.StatusCreated, made)
}

// put replaces an object.
func (q *request) put() error {
	w, err := q.writing()
	if err != nil {
		return err
	}
	k := q.Kind
	if q.Sub == "scale" {
		k = registry.ScaleKind()
	}
	o, err := q.read(k)
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
	return q.answerPart(code, done)
}

// get answers with one object.
func (q *request) get() error {
	o := q.cluster.registry.Table(q.Kind).Get(q.Key())
	if o == nil {
		return apierrors.NewNotFound(q.Kind.Resource(), q.Name)
	}
	return q.answerPart(http.StatusOK, registry.Result{Kind: q.Kind, Stored: o})
}

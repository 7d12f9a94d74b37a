package load

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Media types of bodies.
const (
	JSON     = "application/json"
	Protobuf = "application/vnd.kubernetes.protobuf"
)

// acceptAny is for answers that nobody reads: protobuf, which costs the server
// less, and JSON for the resources that have no protobuf.
const acceptAny = Protobuf + "," + JSON

// fieldManager owns the fields of server-side apply.
const fieldManager = "windtunnel"

// Target says what kind of request a Form is for. Its fields mean what those of
// scenario.Call mean.
type Target struct {
	Verb            string // get list watch create update patch delete deletecollection
	Subresource     string
	AllNamespaces   bool   // list, watch, deletecollection
	Patch           string // merge (default), strategic, json or apply
	Selector        string // list, watch, deletecollection: labels
	FieldSelector   string
	Limit           int           // list: per page; all pages are read
	ResourceVersion string        // get, list, watch
	Initial         bool          // watch: send what exists first; the watch is open after that
	Hold            time.Duration // watch, default 1m
	Informer        informer.Form // watch: an informer's lists and watches, for Hold
	Propagation     string        // delete, deletecollection: background (default), foreground or orphan
}

// Form makes the requests of one kind at one resource. It is read only and may
// be used by many goroutines.
type Form struct {
	resource    discovery.Resource
	target      Target
	method      string
	query       string // with its question mark
	contentType string
	body        []byte // of deletions
}

// NewForm returns a form, or says which word of the target it does not know.
func NewForm(r discovery.Resource, t Target) (*Form, error) {
	f := &Form{resource: r, target: t, contentType: JSON}
	query := url.Values{}
	switch t.Verb {
	case "get":
		f.method = http.MethodGet
	case "list", "watch":
		f.method = http.MethodGet
		f.addListQuery(query)
	case "create":
		f.method = http.MethodPost
	case "update":
		f.method = http.MethodPut
	case "patch":
		f.method = http.MethodPatch
		if f.contentType = patchType(t.Patch); f.contentType == "" {
			return nil, fmt.Errorf("%w: patch of type %q", ErrPlan, t.Patch)
		}
		if t.Patch == "apply" {
			query.Set("fieldManager", fieldManager)
			query.Set("force", "true")
		}
	case "delete", "deletecollection":
		f.method = http.MethodDelete
		if f.body = DeleteOptions(t.Propagation); f.body == nil {
			return nil, fmt.Errorf("%w: propagation %q", ErrPlan, t.Propagation)
		}
	default:
		return nil, fmt.Errorf("%w: verb %q", ErrPlan, t.Verb)
	}
	f.addSelectorQuery(query)
	if len(query) > 0 {
		f.query = "?" + query.Encode()
	}
	return f, nil
}

// addListQuery is the query of lists and watches alone.
func (f *Form) addListQuery(query url.Values) {
	t := &f.target
	if t.Verb == "list" {
		if t.Limit > 0 {
			query.Set("limit", strconv.Itoa(t.Limit))
		}
		return
	}
	if t.Hold <= 0 {
		t.Hold = time.Minute
	}
	if t.Informer != informer.None {
		return // the rest is the informer's
	}
	query.Set("watch", "1")
	query.Set("allowWatchBookmarks", "true")
	// The server would end it by itself, between half an hour and an hour.
	query.Set("timeoutSeconds", strconv.Itoa(int(t.Hold.Seconds())+60))
	if t.Initial {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
	}
}

// addSelectorQuery is the query that several verbs know.
func (f *Form) addSelectorQuery(query url.Values) {
	t := &f.target
	for name, value := range map[string]string{
		"labelSelector": t.Selector, "fieldSelector": t.FieldSelector, "resourceVersion": t.ResourceVersion,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
}

// patchType returns a patch's media type; empty for a word that is none.
func patchType(word string) string {
	switch word {
	case "", "merge":
		return "application/merge-patch+json"
	case "strategic":
		return "application/strategic-merge-patch+json"
	case "json":
		return "application/json-patch+json"
	case "apply":
		return "application/apply-patch+yaml" // JSON is YAML
	}
	return ""
}

// DeleteOptions returns the body of a deletion for background (default),
// foreground or orphan; nil for another word.
func DeleteOptions(propagation string) []byte {
	word := map[string]string{"": "Background", "background": "Background", "foreground": "Foreground", "orphan": "Orphan"}[propagation]
	if word == "" {
		return nil
	}
	return []byte(`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"` + word + `"}`)
}

// isCollection tells whether the form's requests are about a collection.
func (f *Form) isCollection() bool {
	switch f.target.Verb {
	case "list", "watch", "deletecollection":
		return true
	}
	return false
}

// Op returns the operation that its calls are, for Plan.Ops.
func (f *Form) Op(step string) record.Op {
	op := record.Op{
		Source: Source, Step: step, Verb: f.target.Verb, Resource: f.resource.Name,
		Subresource: f.target.Subresource, Scope: "resource",
	}
	switch {
	case !f.isCollection():
	case f.resource.Namespaced && !f.target.AllNamespaces:
		op.Scope = "namespace"
	default:
		op.Scope = "cluster"
	}
	return op
}

// ListOp returns the operation that the lists of its informers are.
func (f *Form) ListOp(step string) record.Op {
	op := f.Op(step)
	op.Verb = "list"
	return op
}

// Fill makes req one of the form's requests: about the object of that name, or
// about all of the namespace. The body of create, update and patch is the
// caller's to add; its type is JSON unless the caller says otherwise.
func (f *Form) Fill(req *Request, namespace, name string) {
	req.Method, req.Accept = f.method, acceptAny
	path := f.resource.Collection(namespace)
	if f.isCollection() && f.target.AllNamespaces {
		path = f.resource.All()
	}
	if !f.isCollection() && (f.target.Verb != "create" || f.target.Subresource != "") {
		path += "/" + name
	}
	if f.target.Subresource != "" {
		path += "/" + f.target.Subresource
	}
	req.Path = path + f.query
	switch {
	case f.body != nil:
		req.Body, req.ContentType = append(req.Body, f.body...), JSON
	case f.method != http.MethodGet:
		req.ContentType = f.contentType
	}
	req.Pages = f.target.Verb == "list" && f.target.Limit > 0
	if f.target.Verb == "watch" {
		req.Hold, req.Informer = f.target.Hold, f.target.Informer
	}
}

// AppendVersioned appends an object's JSON to dst with metadata.resourceVersion
// set, as an update wants it. The object must have metadata and no
// resourceVersion of its own.
func AppendVersioned(dst, object []byte, version string) ([]byte, error) {
	at := metadataAt(object)
	if at < 0 {
		return dst, fmt.Errorf("%w: the object has no metadata", ErrPlan)
	}
	dst = append(dst, object[:at]...)
	dst = append(dst, `"resourceVersion":`...)
	dst = strconv.AppendQuote(dst, version)
	if rest := strings.TrimLeft(string(object[at:min(len(object), at+8)]), " \t\r\n"); !strings.HasPrefix(rest, "}") {
		dst = append(dst, ',')
	}
	return append(dst, object[at:]...), nil
}

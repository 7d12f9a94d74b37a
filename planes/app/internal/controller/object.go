package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
)

// objects are the calls on what applications are made of. They are never cached:
// nobody knows beforehand which kinds there will be.
type objects struct {
	client   dynamic.Interface
	raw      rest.Interface // of the same limiter, for reads
	mapper   meta.RESTMapper
	known    *sync.Map // what it found: *meta.RESTMapping by GroupVersionKind
	requests requests
	features Features
}

// errForeign says that an object is not this application's to change.
var errForeign = errors.New("not managed by this application")

func (c objects) resourceOf(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := o.GroupVersionKind()
	m, err := c.mappingOf(gvk)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", gvk.Kind, o.GetName(), err)
	}
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		return c.client.Resource(m.Resource).Namespace(o.GetNamespace()), nil
	}
	return c.client.Resource(m.Resource), nil
}

// mappingOf returns the resource of a kind. One that was found is remembered: to find
// it again in all that the server serves takes a tenth of a pass, ten times a pass.
func (c objects) mappingOf(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	if m, ok := c.known.Load(gvk); ok {
		return m.(*meta.RESTMapping), nil
	}
	m, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	c.known.Store(gvk, m)
	return m, nil
}

// isNamespaced says whether objects of a kind are in namespaces.
func (c objects) isNamespaced(gvk schema.GroupVersionKind) (bool, error) {
	m, err := c.mappingOf(gvk)
	if err != nil {
		return false, fmt.Errorf("kind %s of %s: %w", gvk.Kind, gvk.GroupVersion(), err)
	}
	return m.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// answer is an object as a read found it.
type answer struct {
	object *unstructured.Unstructured
	raw    []byte // JSON, as the server sent it
}

// getObject reads an object of the name and kind of another; nil if there is none.
func (c objects) getObject(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	got, err := c.readObject(ctx, o, nil)
	if got == nil {
		return nil, err
	}
	return got.object, err
}

// readObject is get, with the bytes. An answer that is the same as one from before is
// that one: a stable pass reads each object twice, and to decode them is a fifth
// of what it costs.
func (c objects) readObject(ctx context.Context, o *unstructured.Unstructured, before *answer) (*answer, error) {
	m, err := c.mappingOf(o.GroupVersionKind())
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	ctx, done := c.requests.beginOn(ctx, "Get", o)
	defer done()
	result := c.raw.Get().AbsPath(pathSegments(m, o)...).Do(ctx)
	if err := inMember(ctx, result.Error()); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, err
	}
	if before != nil && bytes.Equal(raw, before.raw) {
		return before, nil
	}
	got := &answer{object: &unstructured.Unstructured{}, raw: raw}
	if err := got.object.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return got, nil
}

// inBucket says which bucket of the limiter the requests on an object take from: that of its
// kind, one for the hub and one for all members. Requests on objects are untyped, those on the
// plane's own kinds typed: they never share.
func inBucket(ctx context.Context, o *unstructured.Unstructured) context.Context {
	name := "untyped " + o.GetAPIVersion() + " " + o.GetKind()
	if cluster.Of(ctx) != "" {
		name += " of members"
	}
	return limiter.Named(ctx, name)
}

// pathSegments are the parts of an object's path.
func pathSegments(m *meta.RESTMapping, o *unstructured.Unstructured) []string {
	out := []string{"apis", m.Resource.Group}
	if m.Resource.Group == "" {
		out = []string{"api"}
	}
	out = append(out, m.Resource.Version)
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		out = append(out, "namespaces", o.GetNamespace())
	}
	return append(out, m.Resource.Resource, o.GetName())
}

// errGateway says that the gateway took no request: what is in a member is not known,
// and nothing must be taken for gone.
var errGateway = errors.New("the gateway cannot be reached")

// inMember says of a request that failed which member it was for, and whether it came
// as far as the gateway: no answer, or one that is no Status, is not the member's word.
// What the hub says then is not wrapped: that it serves no such API is a NotFound, too.
func inMember(ctx context.Context, err error) error {
	name := cluster.Of(ctx)
	if err == nil || name == "" {
		return err
	}
	var unanswered *url.Error
	isUnanswered := errors.As(err, &unanswered)
	switch {
	case isUnanswered && unanswered.Timeout():
		return fmt.Errorf("cluster %s does not answer: %w", name, err)
	case isUnanswered && ctx.Err() == nil || isGatewayAway(err):
		return fmt.Errorf("cluster %s: %w: %s", name, errGateway, err.Error())
	case strings.HasPrefix(err.Error(), "cluster "+name+" "):
		return err // the gateway says so
	}
	return fmt.Errorf("cluster %s: %w", name, err)
}

// isGatewayAway says whether the hub answered in the gateway's place: it serves no such
// API, or does not reach who should serve it.
func isGatewayAway(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false
	}
	switch status.Status().Code {
	case http.StatusNotFound, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// applyObject brings an object to what is wanted: it is read, and created or patched. A
// dry run changes nothing.
func (c objects) applyObject(ctx context.Context, want *unstructured.Unstructured, dryRun bool) error {
	_, err := c.applyOver(ctx, nil, want.DeepCopy(), dryRun)
	return err
}

// applyOver is apply for an object that was read before, or for nil. It changes want,
// and returns the object where there is nothing to change.
func (c objects) applyOver(ctx context.Context, before *answer, want *unstructured.Unstructured, dryRun bool) (same *answer, err error) {
	is, err := c.readObject(ctx, want, before)
	if err != nil {
		return nil, err
	}
	noted := repairsOf(ctx)
	w, err := c.features.writeTo(is, want, noted != nil)
	if err != nil || w.verb == "" {
		return is, inMember(ctx, err)
	}
	if err := c.writeObject(ctx, want, w, dryRun); err != nil {
		return nil, inMember(ctx, err)
	}
	noted.addRepair(ctx, want, w.repair)
	return nil, nil
}

// write is the request that brings an object to what is wanted; without a verb there is
// nothing to change.
type write struct {
	verb   string // "Create" or "Patch"
	patch  []byte
	kind   types.PatchType
	repair string // what was found to be other than it was rendered; empty: nothing
}

// writeTo decides on the request that brings an object to what is wanted; is is nil where
// there is no such object. Whether a patch repairs is only found out for who asks. It
// changes want.
func (f Features) writeTo(is *answer, want *unstructured.Unstructured, asksRepair bool) (write, error) {
	if err := annotateLastApplied(want); err != nil {
		return write{}, err
	}
	if is == nil {
		return write{verb: "Create", repair: "was gone"}, nil
	}
	p, kind, err := f.patchTo(is, want)
	if err != nil || p == nil {
		return write{}, err
	}
	w := write{verb: "Patch", patch: p, kind: kind}
	if asksRepair && isDrift(is.object, want, p) {
		w.repair = "was changed"
	}
	return w, nil
}

// writeObject sends a request that was decided on.
func (c objects) writeObject(ctx context.Context, want *unstructured.Unstructured, w write, dryRun bool) error {
	r, err := c.resourceOf(want)
	if err != nil {
		return err
	}
	ctx, done := c.requests.beginOn(ctx, w.verb, want)
	defer done()
	var dry []string
	if dryRun {
		dry = []string{metav1.DryRunAll}
	}
	if w.verb == "Create" {
		_, err = r.Create(ctx, want, metav1.CreateOptions{DryRun: dry})
	} else {
		_, err = r.Patch(ctx, want.GetName(), w.kind, w.patch, metav1.PatchOptions{DryRun: dry})
	}
	return err
}

// patchTo returns the patch that brings an object of the application to what is wanted; nil
// where there is nothing to change. It changes want.
func (f Features) patchTo(is *answer, want *unstructured.Unstructured) ([]byte, types.PatchType, error) {
	if err := checkOwner(is.object, want); err != nil {
		return nil, "", err
	}
	if f.FoldSecrets {
		foldStringData(want)
	}
	p, kind, err := threeWayPatch(is, want)
	if err != nil {
		return nil, "", fmt.Errorf("%s %s: %w", want.GetKind(), want.GetName(), err)
	}
	if string(p) == "{}" && f.SkipEmptyPatch {
		return nil, "", nil
	}
	return p, kind, nil
}

// deleteObject deletes an object that was read.
func (c objects) deleteObject(ctx context.Context, o *unstructured.Unstructured) error {
	r, err := c.resourceOf(o)
	if err != nil {
		return err
	}
	ctx, done := c.requests.beginOn(ctx, "Delete", o)
	defer done()
	uid := o.GetUID()
	err = r.Delete(ctx, o.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	return ignoreNotFound(inMember(ctx, err))
}

// checkOwner says whether an object belongs to the application of another.
func checkOwner(is, want *unstructured.Unstructured) error {
	a, b := is.GetLabels(), want.GetLabels()
	switch {
	case a[api.LabelName] == "":
		return fmt.Errorf("%s %s/%s exists and is managed by nobody: %w", is.GetKind(), is.GetNamespace(), is.GetName(), errForeign)
	case a[api.LabelName] != b[api.LabelName] || a[api.LabelNamespace] != b[api.LabelNamespace]:
		return fmt.Errorf("%s %s/%s is managed by application %s/%s: %w", is.GetKind(), is.GetNamespace(), is.GetName(), a[api.LabelNamespace], a[api.LabelName], errForeign)
	}
	return nil
}

// keepsLastApplied says whether what was last applied is noted on objects of a kind. It is
// not on those that hold data, which would double.
func keepsLastApplied(o *unstructured.Unstructured) bool {
	return o.GetAPIVersion() != "v1" || o.GetKind() != "Secret" && o.GetKind() != "ConfigMap"
}

func annotateLastApplied(o *unstructured.Unstructured) error {
	if !keepsLastApplied(o) {
		return nil
	}
	raw, err := json.Marshal(o.Object)
	if err != nil {
		return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[api.AnnotationApplied] = string(raw)
	o.SetAnnotations(annotations)
	return nil
}

// threeWayPatch returns the patch of three ways from what is to what is wanted, by
// what was last applied.
func threeWayPatch(is *answer, want *unstructured.Unstructured) ([]byte, types.PatchType, error) {
	modified, err := json.Marshal(want.Object)
	if err != nil {
		return nil, "", err
	}
	var original []byte
	if last := is.object.GetAnnotations()[api.AnnotationApplied]; last != "" {
		original = []byte(last)
	}
	typed, err := scheme.Scheme.New(want.GroupVersionKind())
	if err != nil { // a kind that only the server knows
		p, err := jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, is.raw)
		return p, types.MergePatchType, err
	}
	lookup, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		return nil, "", err
	}
	p, err := strategicpatch.CreateThreeWayMergePatch(original, modified, is.raw, lookup, true)
	return p, types.StrategicMergePatchType, err
}

// foldStringData writes a Secret's stringData as the data that the server makes of it.
// KubeVela compares it as it is with what no read returns, so that its patch is
// never empty.
func foldStringData(o *unstructured.Unstructured) {
	if o.GetAPIVersion() != "v1" || o.GetKind() != "Secret" {
		return
	}
	plain, found, err := unstructured.NestedStringMap(o.Object, "stringData")
	if !found || err != nil {
		return
	}
	data, _, err := unstructured.NestedMap(o.Object, "data")
	if err != nil {
		return
	}
	if data == nil {
		data = map[string]any{}
	}
	for k, v := range plain {
		data[k] = encodeBase64(v)
	}
	o.Object["data"] = data
	delete(o.Object, "stringData")
}

// runParallel calls f with each index below count, at most limit at the same time, and
// joins the errors. With a limit of 1 it stops at the first.
func runParallel(count, limit int, f func(int) error) error {
	if limit <= 1 {
		for i := range count {
			if err := f(i); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, count)
	turns := make(chan struct{}, limit)
	var wait sync.WaitGroup
	for i := range count {
		turns <- struct{}{}
		wait.Go(func() {
			defer func() { <-turns }()
			errs[i] = f(i)
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

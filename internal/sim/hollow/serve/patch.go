package serve

import (
	"fmt"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
)

// patchObject changes an object by a patch of any type.
func (q *request) patchObject() error {
	accepted := []string{string(types.JSONPatchType), string(types.MergePatchType)}
	if q.Kind.Packs() {
		accepted = append(accepted, string(types.StrategicMergePatchType))
	}
	accepted = append(accepted, string(types.ApplyYAMLPatchType))
	media, _, err := mime.ParseMediaType(q.Header.Get("Content-Type"))
	known := err == nil
	if known {
		known = false
		for _, a := range accepted {
			known = known || a == media
		}
	}
	switch {
	case !known && q.Kind.Packs(): // no route takes it
		err := unsupportedMediaType()
		err.ErrStatus.Message, err.ErrStatus.Details = "415: Unsupported Media Type", &metav1.StatusDetails{}
		return err
	case !known:
		return unsupportedMediaType(accepted...)
	}
	w, err := q.parseWrite()
	if err != nil {
		return err
	}
	body, err := q.readBody()
	if err != nil {
		return err
	}
	if media == string(types.ApplyYAMLPatchType) {
		return q.applyObject(w, body)
	}
	if err := codec.BoundPatch(types.PatchType(media), nil, body); err != nil {
		return err
	}
	q.values = codec.CountValues(body)
	if err := codec.CheckPatch(types.PatchType(media), body, q.query.Get("fieldValidation") != metav1.FieldValidationIgnore); err != nil {
		return err
	}
	if q.query.Get("force") != "" {
		return invalidPatchOption(field.Forbidden(field.NewPath("force"), "may not be specified for non-apply patch"))
	}
	accept := func(unknown []string) error { return q.reportUnknown(q.Kind, unknown) }
	done, err := q.cluster.backend.Change(registry.Change{Write: w, Values: q.values, Replace: registry.PatchBy(types.PatchType(media), q.Target, body, accept)})
	if err != nil {
		return err
	}
	return q.writePart(http.StatusOK, done)
}

func invalidPatchOption(err *field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "PatchOptions"}, "", field.ErrorList{err})
}

// applyObject changes an object, or creates it, by what a manager wants of it.
func (q *request) applyObject(w registry.Write, body []byte) error {
	by := q.query.Get("fieldManager")
	if by == "" {
		return invalidPatchOption(field.Required(field.NewPath("fieldManager"), "is required for apply patch"))
	}
	if q.Sub != "" && q.cluster.registry.Table(q.Kind).Get(q.Key()) == nil {
		return apierrors.NewNotFound(q.Kind.Resource(), q.Name)
	}
	applied, err := q.readConfiguration(body)
	if err != nil {
		return err
	}
	if applied.GetName() != "" && applied.GetName() != q.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", applied.GetName(), q.Name))
	}
	force := parseBool(q.query.Get("force"))
	w.Applied = true
	done, err := q.cluster.backend.Change(registry.Change{Write: w, Values: q.values, Create: q.Sub == "", UID: applied.GetUID(), Replace: q.cluster.registry.ApplyBy(q.Target, applied, by, force)})
	if err != nil {
		return err
	}
	code := http.StatusOK
	if done.Created {
		code = http.StatusCreated
	}
	return q.writePart(code, done)
}

// readConfiguration reads what a manager wants of an object.
func (q *request) readConfiguration(body []byte) (*unstructured.Unstructured, error) {
	raw, err := codec.ConvertYAML(body)
	if err != nil {
		return nil, codec.BadRequest(fmt.Errorf("error decoding patch: error converting YAML to JSON: %w", err))
	}
	if err := codec.BoundObject(q.Kind, raw); err != nil {
		return nil, err
	}
	q.values = codec.CountValues(raw)
	if err := codec.BoundMerge(q.Kind, q.values, nil); err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &out.Object); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	return out, nil
}

// writePart answers with an object, or with the part of it that the request is
// about.
func (q *request) writePart(code int, r registry.Result) error {
	if q.Sub != "scale" {
		return q.writeObject(code, r)
	}
	o := r.Typed
	if o == nil {
		var err error
		if o, err = q.Kind.Decode(r.Stored.Raw); err != nil {
			return err
		}
	}
	s, err := registry.ScaleOf(q.Kind, o)
	if err != nil {
		return err
	}
	return q.writeObject(code, registry.Result{Kind: registry.ScaleKind(), Typed: s})
}

package hollow

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
)

// patch changes an object by a patch of any type.
func (q *request) patch() error {
	accepted := []string{string(types.JSONPatchType), string(types.MergePatchType)}
	if q.kind.Packs() {
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
	case !known && q.kind.Packs(): // no route takes it
		err := unsupported()
		err.ErrStatus.Message, err.ErrStatus.Details = "415: Unsupported Media Type", &metav1.StatusDetails{}
		return err
	case !known:
		return unsupported(accepted...)
	}
	w, err := q.writing()
	if err != nil {
		return err
	}
	body, err := q.body()
	if err != nil {
		return err
	}
	if media == string(types.ApplyYAMLPatchType) {
		return q.apply(w, body)
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
	done, err := q.cluster.change(change{write: w, values: q.values, of: func(old runtime.Object) (runtime.Object, error) {
		return q.patched(types.PatchType(media), old, body)
	}})
	if err != nil {
		return err
	}
	return q.answerPart(http.StatusOK, done.result)
}

func invalidPatchOption(err *field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "PatchOptions"}, "", field.ErrorList{err})
}

// apply changes an object, or creates it, by what a manager wants of it.
func (q *request) apply(w write, body []byte) error {
	by := q.query.Get("fieldManager")
	if by == "" {
		return invalidPatchOption(field.Required(field.NewPath("fieldManager"), "is required for apply patch"))
	}
	if q.sub != "" && q.cluster.table(q.kind).Get(q.key()) == nil {
		return apierrors.NewNotFound(q.kind.Resource(), q.name)
	}
	applied, err := q.applied(body)
	if err != nil {
		return err
	}
	if applied.GetName() != "" && applied.GetName() != q.name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", applied.GetName(), q.name))
	}
	force := truth(q.query.Get("force"))
	w.applied = true
	done, err := q.cluster.change(change{write: w, values: q.values, create: q.sub == "", uid: applied.GetUID(), of: func(old runtime.Object) (runtime.Object, error) {
		live := old
		if live == nil {
			live = q.kind.New()
			kind.Meta(live).SetName(q.name)
			kind.Meta(live).SetNamespace(q.namespace)
		}
		next, err := q.cluster.server.apply.Apply(q.kind, q.sub, live.DeepCopyObject(), applied.DeepCopy(), by, force)
		if err != nil {
			return nil, err
		}
		if next == nil { // nothing changes
			next = live.DeepCopyObject()
		}
		if u, ok := next.(*unstructured.Unstructured); ok {
			if err := q.kind.Custom.Default(u.Object); err != nil {
				return nil, apierrors.NewRequestEntityTooLargeError(err.Error())
			}
			if u.Object["metadata"], err = codec.CleanMetadata(u.Object["metadata"]); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
		}
		return next, nil
	}})
	if err != nil {
		return err
	}
	code := http.StatusOK
	if done.created {
		code = http.StatusCreated
	}
	return q.answerPart(code, done.result)
}

// applied reads what a manager wants of an object.
func (q *request) applied(body []byte) (*unstructured.Unstructured, error) {
	raw, err := codec.ConvertYAML(body)
	if err != nil {
		return nil, codec.BadRequest(fmt.Errorf("error decoding patch: error converting YAML to JSON: %w", err))
	}
	if err := codec.BoundObject(q.kind, raw); err != nil {
		return nil, err
	}
	q.values = codec.CountValues(raw)
	if err := codec.BoundMerge(q.kind, q.values, nil); err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &out.Object); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	return out, nil
}

// patched returns what a patch makes of an object, and heeds what is asked for
// fields that its kind does not have.
func (q *request) patched(of types.PatchType, old runtime.Object, body []byte) (runtime.Object, error) {
	o, raw, unknown, err := patchedBy(of, q.target, old, body)
	if err != nil {
		return nil, err
	}
	if err := q.complain(q.kind, unknown); err != nil {
		return nil, patchInvalid(raw, err)
	}
	return o, nil
}

// patchedBy returns what a patch makes of an object, in Go and in JSON, and which
// fields its kind does not have.
func patchedBy(of types.PatchType, q target, old runtime.Object, body []byte) (o runtime.Object, raw []byte, unknown []string, err error) {
	k, from := q.kind, old
	if q.sub == "scale" {
		s, err := scaleOf(q.kind, old)
		if err != nil {
			return nil, nil, nil, err
		}
		k, from = scaleKind(), s
	}
	if raw, err = json.Marshal(from); err != nil {
		return nil, nil, nil, err
	}
	if raw, err = codec.Patch(of, k, raw, body); err != nil {
		return nil, nil, nil, err
	}
	if len(raw) > codec.Limit {
		return nil, nil, nil, codec.ErrTooLarge
	}
	if err := codec.BoundObject(k, raw); err != nil {
		return nil, nil, nil, err
	}
	if o, unknown, err = codec.DecodePlain(k, raw); err != nil {
		return nil, nil, nil, patchInvalid(raw, err)
	}
	if q.sub == "scale" {
		o, err = scaled(q.kind, old, o)
	}
	return o, raw, unknown, err
}

// patchInvalid is the error for a patch whose outcome is no object.
func patchInvalid(patched []byte, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(patched), err.Error())})
}

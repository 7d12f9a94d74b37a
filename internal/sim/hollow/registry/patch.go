package registry

import (
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
)

// PatchBy returns a Change.Replace that patches an object. accept may refuse fields that
// the kind does not have; nil accepts them.
func PatchBy(of types.PatchType, t Target, patch []byte, accept func(unknown []string) error) func(runtime.Object, time.Time) (runtime.Object, error) {
	return func(old runtime.Object, _ time.Time) (runtime.Object, error) {
		o, raw, unknown, err := applyPatch(of, t, old, patch)
		if err != nil || accept == nil {
			return o, err
		}
		if err := accept(unknown); err != nil {
			return nil, patchInvalid(raw, err)
		}
		return o, nil
	}
}

// applyPatch returns what a patch makes of an object, in Go and in JSON, and the fields that
// its kind does not have.
func applyPatch(of types.PatchType, t Target, old runtime.Object, patch []byte) (o runtime.Object, raw []byte, unknown []string, err error) {
	k, from := t.Kind, old
	if t.Sub == "scale" {
		s, err := ScaleOf(t.Kind, old)
		if err != nil {
			return nil, nil, nil, err
		}
		k, from = ScaleKind(), s
	}
	if raw, err = json.Marshal(from); err != nil {
		return nil, nil, nil, err
	}
	if raw, err = codec.Patch(of, k, raw, patch); err != nil {
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
	if t.Sub == "scale" {
		o, err = SetScale(t.Kind, old, o)
	}
	return o, raw, unknown, err
}

// patchInvalid is the error for a patch whose outcome is no object.
func patchInvalid(patched []byte, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(patched), err.Error())})
}

// ApplyBy returns a Change.Replace that applies a configuration by server-side apply.
func (r *Registry) ApplyBy(t Target, config *unstructured.Unstructured, manager string, force bool) func(runtime.Object, time.Time) (runtime.Object, error) {
	return func(live runtime.Object, _ time.Time) (runtime.Object, error) {
		if live == nil {
			live = t.Kind.New()
			kind.Meta(live).SetName(t.Name)
			kind.Meta(live).SetNamespace(t.Namespace)
		}
		next, err := r.options.Shared.managers.Apply(t.Kind, t.Sub, live.DeepCopyObject(), config.DeepCopy(), manager, force)
		if err != nil {
			return nil, err
		}
		if next == nil { // nothing changes
			next = live.DeepCopyObject()
		}
		if u, ok := next.(*unstructured.Unstructured); ok {
			if err := t.Kind.Custom.Default(u.Object); err != nil {
				return nil, apierrors.NewRequestEntityTooLargeError(err.Error())
			}
			if u.Object["metadata"], err = codec.CleanMetadata(u.Object["metadata"]); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
		}
		return next, nil
	}
}

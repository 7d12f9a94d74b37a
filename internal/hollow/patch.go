package hollow

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windtunnel/windtunnel/internal/hollow/kind"
)

// jsonPatchMost is how many operations a JSON patch may have.
const jsonPatchMost = 10_000

// patch changes an object by a patch of any type.
func (q *request) patch() error {
	accepted := []string{string(types.JSONPatchType), string(types.MergePatchType)}
	if q.kind.Packs() {
		accepted = append(accepted, string(types.StrategicMergePatchType))
	}
	media, _, err := mime.ParseMediaType(q.Header.Get("Content-Type"))
	known := err == nil
	if known {
		known = false
		for _, a := range accepted {
			known = known || a == media
		}
	}
	if !known {
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
	done, err := q.cluster.change(change{write: w, of: func(old runtime.Object) (runtime.Object, error) {
		return q.patched(types.PatchType(media), old, body)
	}})
	if err != nil {
		return err
	}
	return q.answerPart(http.StatusOK, done.result)
}

// patched returns what a patch makes of an object.
func (q *request) patched(of types.PatchType, old runtime.Object, body []byte) (runtime.Object, error) {
	k, from := q.kind, old
	if q.sub == "scale" {
		s, err := scaleOf(q.kind, old)
		if err != nil {
			return nil, err
		}
		k, from = scaleKind(), s
	}
	raw, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	switch of {
	case types.JSONPatchType:
		raw, err = patchJSON(raw, body)
	case types.MergePatchType:
		raw, err = patchMerge(raw, body)
	default:
		raw, err = strategicpatch.StrategicMergePatch(raw, body, k.New())
		if err != nil {
			err = apierrors.NewBadRequest(err.Error())
		}
	}
	if err != nil {
		return nil, err
	}
	o, unknown, err := decodeJSON(k, raw)
	if err != nil {
		return nil, patchInvalid(k, q.name, body, err)
	}
	if err := q.complain(k, unknown); err != nil || q.sub != "scale" {
		return o, err
	}
	return scaled(q.kind, old, o)
}

// patchInvalid is the error for a patch whose outcome is no object.
func patchInvalid(k *kind.Kind, name string, body []byte, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: k.Group, Kind: k.Kind}, name, field.ErrorList{field.Invalid(field.NewPath("patch"), string(body), err.Error())})
}

func patchJSON(raw, body []byte) ([]byte, error) {
	p, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(p) > jsonPatchMost {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", jsonPatchMost, len(p)))
	}
	out, err := p.Apply(raw)
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	return out, nil
}

func patchMerge(raw, body []byte) ([]byte, error) {
	var p map[string]any
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	out, err := jsonpatch.MergePatch(raw, body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return out, nil
}

package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
)

// maxOperations is the largest number of operations of a JSON patch.
const maxOperations = 10_000

// CheckPatch refuses what is no patch, whatever the object is like. With strict set, a
// JSON patch or a merge patch must not have unknown or repeated fields.
func CheckPatch(of types.PatchType, body []byte, strict bool) error {
	if !json.Valid(body) {
		return apierrors.NewBadRequest("invalid JSON patch")
	}
	if of == types.StrategicMergePatchType || !strict {
		return nil
	}
	var operations []struct {
		Op    string `json:"op"`
		From  string `json:"from"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	var err error
	if of == types.JSONPatchType {
		_, err = kjson.UnmarshalStrict(body, &operations)
	} else {
		_, err = kjson.UnmarshalStrict(body, &map[string]any{})
	}
	if err != nil {
		return apierrors.NewBadRequest("error decoding patch: " + err.Error())
	}
	return nil
}

// Patch returns what a patch makes of an object, both in JSON.
func Patch(of types.PatchType, k *kind.Kind, raw, patch []byte) (out []byte, err error) {
	if err := BoundPatch(of, raw, patch); err != nil {
		return nil, err
	}
	switch of {
	case types.JSONPatchType:
		return patchJSON(raw, patch)
	case types.MergePatchType:
		out, err = jsonpatch.MergePatch(raw, patch)
	default:
		out, err = strategicpatch.StrategicMergePatch(raw, patch, k.New())
	}
	if err != nil {
		return nil, patchError(err)
	}
	return out, nil
}

func patchJSON(raw, body []byte) ([]byte, error) {
	p, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(p) > maxOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(p)))
	}
	limitCopies()
	var out []byte
	if slices.ContainsFunc(p, testsForNull) {
		err = jsonpatch.ErrTestFailed
	} else {
		out, err = p.Apply(raw)
	}
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	return out, nil
}

// testsForNull says whether an operation tests that the whole object is null. It is not,
// and the library panics.
func testsForNull(o jsonpatch.Operation) bool {
	path, err := o.Path()
	return o.Kind() == "test" && err == nil && path == "" && o["value"] == nil
}

// patchError is the error for a merge patch that is no object.
func patchError(err error) error {
	if errors.Is(err, jsonpatch.ErrBadJSONDoc) || errors.Is(err, mergepatch.ErrBadJSONDoc) || errors.Is(err, jsonpatch.ErrBadJSONPatch) {
		err = errors.New("invalid JSON patch")
	}
	return apierrors.NewBadRequest(err.Error())
}

// Package codec reads the bodies of requests: objects in JSON, YAML and protobuf, and
// patches. It refuses a body that would take more memory or time than one request may.
//
// It knows neither requests nor stored objects.
package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	yamlnode "go.yaml.in/yaml/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/weight"
)

// Bounds on bodies, in bytes unless stated otherwise.
const (
	// Limit is the length of the longest body that is read.
	Limit = 3 << 20
	// ObjectLimit is the length of the longest object that is stored: etcd's
	// default --max-request-bytes.
	ObjectLimit = 3 << 19
	// copyLimit is how much the copy operations of one JSON patch may add: an API
	// server's JSONPatchMaxCopyBytes.
	copyLimit = 3 << 20
	// pairLimit is how many pairs of list elements a strategic merge patch may make
	// its library compare. The library compares each element of a list with each
	// other of the patch's and the object's list, at some 30 ns a pair.
	pairLimit = 5e7
	// nestLimit is how many bytes all objects and lists of a patch and of the object may
	// have, where those in others count again: the library copies each several times.
	nestLimit = 16 << 20
	// deepLimit is the same of an object: who manages which field is written as paths.
	deepLimit = 64 << 20
	// metadataLimit is how many labels an object may have, and how many finalizers.
	metadataLimit = 10_000
	// memoryLimit is about how many bytes one request may take for what it decodes.
	memoryLimit = 48 << 20
	// uncounted is the length of bodies that cannot take that much: nobody counts
	// their values.
	uncounted = 16 << 10
)

// What a value takes at most, in bytes, measured with bodies of the smallest values.
const (
	typedObject   = 1500 // an object or null that becomes a struct: 424 bytes, and what growing its list leaves behind
	schemaObject  = 4000 // of a CustomResourceDefinition, which is copied and written several times
	typedValue    = 300
	schemaValue   = 800
	customValue   = 400
	yamlValue     = 600  // to convert it to JSON
	patchedValue  = 1200 // of a patch or of the object that it changes
	mergedValue   = 2400 // of an object whose fields have managers
	messageFactor = 2    // of what protobuf decodes to: the answer comes on top
)

// ErrTooLarge is what an API server answers when etcd refuses an object.
var ErrTooLarge = errors.New("etcdserver: request is too large")

// limitCopies bounds the copies of JSON patches. The library has no option for a
// single patch: API servers set the same variable.
var limitCopies = sync.OnceFunc(func() { atomic.StoreInt64(&jsonpatch.AccumulatedCopySizeLimit, copyLimit) })

// boundMemory refuses a request that would take more than memoryLimit.
func boundMemory(size int) error {
	if size <= memoryLimit {
		return nil
	}
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the object has too many values: they would take about %d MiB of memory, the limit is %d MiB", size>>20, memoryLimit>>20))
}

// BoundObject refuses an object in JSON that would take too much to decode.
func BoundObject(k *kind.Kind, raw []byte) error {
	if len(raw) <= uncounted {
		return nil
	}
	w := weight.OfJSON(raw)
	switch {
	case w.Nested > deepLimit:
		return tooDeepError()
	case k.Custom != nil:
		return boundMemory(w.Values * customValue)
	case k.Group == apiextensionsv1.GroupName:
		return boundMemory(w.Objects*schemaObject + w.Values*schemaValue)
	}
	return boundMemory(w.Objects*typedObject + w.Values*typedValue)
}

func tooDeepError() error {
	return apierrors.NewRequestEntityTooLargeError("the values in the body are nested too deep")
}

// boundMessage refuses an object in protobuf that would take too much to decode. It
// returns how many values the object has, at least.
func boundMessage(k *kind.Kind, raw []byte) (values int, err error) {
	if len(raw) <= uncounted {
		return 1, nil
	}
	w, err := k.Weigh(raw)
	if err != nil {
		return 0, CannotHandle(k, err)
	}
	return w.Values, boundMemory(w.Bytes * messageFactor)
}

// BoundPatch refuses a patch that would take too much, or minutes, to apply to an
// object in JSON.
func BoundPatch(of types.PatchType, raw, patch []byte) error {
	if n := len(raw) + len(patch); n*n/4 <= nestLimit { // two bytes a level
		return nil
	}
	object, by := weight.OfJSON(raw), weight.OfJSON(patch)
	if of == types.StrategicMergePatchType && object.Squares+by.Squares > pairLimit {
		return apierrors.NewRequestEntityTooLargeError("the patch and the object have too many list elements for a strategic merge")
	}
	if object.Nested+by.Nested > nestLimit {
		return tooDeepError()
	}
	return boundMemory((object.Values + by.Values) * patchedValue)
}

// BoundMerge refuses to merge a body with so many values into the current object,
// whose fields have managers; nil: there is none yet.
func BoundMerge(k *kind.Kind, values int, current []byte) error {
	if values == 0 { // it does not come from a request
		return nil
	}
	if len(current) > uncounted {
		w, err := k.Weigh(current)
		if err != nil {
			return err
		}
		values += w.Values
	}
	return boundMemory(values * mergedValue)
}

// CountValues returns how many values a body in JSON has, at least.
func CountValues(body []byte) int {
	if len(body) <= uncounted {
		return 1
	}
	return weight.OfJSON(body).Values
}

// BoundMetadata says that an object has so many labels or finalizers that nobody wants to
// know what is wrong with each of them.
func BoundMetadata(m metav1.Object) (errs field.ErrorList) {
	if n := len(m.GetLabels()); n > metadataLimit {
		errs = append(errs, field.TooMany(field.NewPath("metadata", "labels"), n, metadataLimit))
	}
	if n := len(m.GetFinalizers()); n > metadataLimit {
		errs = append(errs, field.TooMany(field.NewPath("metadata", "finalizers"), n, metadataLimit))
	}
	return errs
}

// maxErrors is how many mistakes of an object are named: the library that joins them
// copies all of the text for each.
const maxErrors = 256

// InvalidError is the error for an object with mistakes.
func InvalidError(kind schema.GroupKind, name string, errs field.ErrorList) *apierrors.StatusError {
	return apierrors.NewInvalid(kind, name, errs[:min(len(errs), maxErrors)])
}

// ConvertYAML converts a body in YAML. Aliases must not make more of it than a body may
// be long: the parser bounds how many values they stand for, but not how long these
// are.
func ConvertYAML(body []byte) ([]byte, error) {
	if err := boundYAML(body); err != nil {
		return nil, err
	}
	if bytes.IndexByte(body, '&') >= 0 && bytes.IndexByte(body, '*') >= 0 {
		var n yamlnode.Node
		if err := yamlnode.Unmarshal(body, &n); err == nil && expandedSize(&n, map[*yamlnode.Node]int{}) > Limit {
			return nil, fmt.Errorf("yaml: the document with its aliases is longer than %d bytes", Limit)
		}
	}
	return yaml.YAMLToJSON(body)
}

// boundYAML refuses a body in YAML that would take too much to convert.
func boundYAML(body []byte) error {
	switch {
	case len(body) <= uncounted:
		return nil
	case json.Valid(body):
		return boundMemory(weight.OfJSON(body).Values * yamlValue)
	}
	return boundMemory(weight.OfYAML(body) * yamlValue)
}

// expandedSize returns about how long a node is in JSON when each alias stands for what
// it names, and more than Limit for one that is longer. An alias to a node that
// contains the alias counts nothing: the parser refuses it.
func expandedSize(n *yamlnode.Node, known map[*yamlnode.Node]int) int {
	if n.Kind == yamlnode.AliasNode {
		n = n.Alias
	}
	if size, ok := known[n]; ok {
		return size
	}
	known[n] = 0 // while it is being looked at
	size := len(n.Value) + 1
	for _, c := range n.Content {
		size = min(size+expandedSize(c, known), Limit+1)
	}
	known[n] = size
	return size
}

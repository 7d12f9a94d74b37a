package hollow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

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

// Bounds on what a request may make of its body, which is at most bodyLimit long.
const (
	// objectLimit is the length of the longest object that is stored: etcd's
	// default --max-request-bytes.
	objectLimit = 3 << 19
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
	// metaLimit is how many labels an object may have, and how many finalizers.
	metaLimit = 10_000
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

// requestTime is how long a request but a watch may take, as an API server's
// --request-timeout: on its own, and in waiting for its client.
const requestTime = time.Minute

// lookEvery is after how many objects a request looks whether its time is over.
const lookEvery = 256

// late says whether a change has taken longer than its request may.
func (c *Cluster) late(w write) bool { return w.until > 0 && c.server.clock.Now() > w.until }

// errTimeout is what an API server answers when a request takes too long.
func errTimeout() error {
	return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
}

// errObjectTooLarge is what an API server answers when etcd refuses an object.
var errObjectTooLarge = errors.New("etcdserver: request is too large")

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

// boundObject refuses an object in JSON that would take too much to decode.
func boundObject(k *kind.Kind, raw []byte) error {
	if len(raw) <= uncounted {
		return nil
	}
	w := weight.OfJSON(raw)
	switch {
	case w.Nested > deepLimit:
		return errDeep()
	case k.Custom != nil:
		return boundMemory(w.Values * customValue)
	case k.Group == apiextensionsv1.GroupName:
		return boundMemory(w.Objects*schemaObject + w.Values*schemaValue)
	}
	return boundMemory(w.Objects*typedObject + w.Values*typedValue)
}

func errDeep() error {
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
		return 0, cannotHandle(k, err)
	}
	return w.Values, boundMemory(w.Bytes * messageFactor)
}

// boundPatch refuses a patch that would take too much, or minutes, to apply to an
// object in JSON.
func boundPatch(of types.PatchType, raw, patch []byte) error {
	if n := len(raw) + len(patch); n*n/4 <= nestLimit { // two bytes a level
		return nil
	}
	object, by := weight.OfJSON(raw), weight.OfJSON(patch)
	if of == types.StrategicMergePatchType && object.Squares+by.Squares > pairLimit {
		return apierrors.NewRequestEntityTooLargeError("the patch and the object have too many list elements for a strategic merge")
	}
	if object.Nested+by.Nested > nestLimit {
		return errDeep()
	}
	return boundMemory((object.Values + by.Values) * patchedValue)
}

// boundMerge refuses to merge a body with so many values into the current object,
// whose fields have managers; nil: there is none yet.
func boundMerge(k *kind.Kind, values int, current []byte) error {
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

// valuesIn returns how many values a body in JSON has, at least.
func valuesIn(body []byte) int {
	if len(body) <= uncounted {
		return 1
	}
	return weight.OfJSON(body).Values
}

// boundMeta says that an object has so many labels or finalizers that nobody wants to
// know what is wrong with each of them.
func boundMeta(m metav1.Object) (errs field.ErrorList) {
	if n := len(m.GetLabels()); n > metaLimit {
		errs = append(errs, field.TooMany(field.NewPath("metadata", "labels"), n, metaLimit))
	}
	if n := len(m.GetFinalizers()); n > metaLimit {
		errs = append(errs, field.TooMany(field.NewPath("metadata", "finalizers"), n, metaLimit))
	}
	return errs
}

// errorsMost is how many mistakes of an object are named: the library that joins them
// copies all of the text for each.
const errorsMost = 256

// invalid is the error for an object with mistakes.
func invalid(kind schema.GroupKind, name string, errs field.ErrorList) *apierrors.StatusError {
	return apierrors.NewInvalid(kind, name, errs[:min(len(errs), errorsMost)])
}

// toJSON converts a body in YAML. Aliases must not make more of it than a body may
// be long: the parser bounds how many values they stand for, but not how long these
// are.
func toJSON(body []byte) ([]byte, error) {
	if err := boundYAML(body); err != nil {
		return nil, err
	}
	if bytes.IndexByte(body, '&') >= 0 && bytes.IndexByte(body, '*') >= 0 {
		var n yamlnode.Node
		if err := yamlnode.Unmarshal(body, &n); err == nil && expanded(&n, map[*yamlnode.Node]int{}) > bodyLimit {
			return nil, fmt.Errorf("yaml: the document with its aliases is longer than %d bytes", bodyLimit)
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

// expanded returns about how long a node is in JSON when each alias stands for what
// it names, and more than bodyLimit for one that is longer. An alias to a node that
// contains the alias counts nothing: the parser refuses it.
func expanded(n *yamlnode.Node, known map[*yamlnode.Node]int) int {
	if n.Kind == yamlnode.AliasNode {
		n = n.Alias
	}
	if size, ok := known[n]; ok {
		return size
	}
	known[n] = 0 // while it is being looked at
	size := len(n.Value) + 1
	for _, c := range n.Content {
		size = min(size+expanded(c, known), bodyLimit+1)
	}
	known[n] = size
	return size
}

package hollow

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	yamlnode "go.yaml.in/yaml/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"
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
	// its library compare. The library compares each element of a patch's list with
	// each of the object's list, at some 10 ns a pair.
	pairLimit = 1e9
)

// requestTime is how long a request but a watch may take, as an API server's
// --request-timeout: on its own, and in waiting for its client.
const requestTime = time.Minute

// lookEvery is after how many objects a request looks whether its time is over.
const lookEvery = 256

// errTimeout is what an API server answers when a request takes too long.
func errTimeout() error {
	return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
}

// errObjectTooLarge is what an API server answers when etcd refuses an object.
var errObjectTooLarge = errors.New("etcdserver: request is too large")

// limitCopies bounds the copies of JSON patches. The library has no option for a
// single patch: API servers set the same variable.
var limitCopies = sync.OnceFunc(func() { atomic.StoreInt64(&jsonpatch.AccumulatedCopySizeLimit, copyLimit) })

// boundStrategic refuses a strategic merge patch that takes minutes. Commas are at
// least as many as list elements, and are counted in microseconds.
func boundStrategic(raw, patch []byte) error {
	if (bytes.Count(raw, []byte{','})+1)*(bytes.Count(patch, []byte{','})+1) <= pairLimit {
		return nil
	}
	return apierrors.NewRequestEntityTooLargeError("the patch and the object have too many list elements for a strategic merge")
}

// toJSON converts a body in YAML. Aliases must not make more of it than a body may
// be long: the parser bounds how many values they stand for, but not how long these
// are.
func toJSON(body []byte) ([]byte, error) {
	if bytes.IndexByte(body, '&') >= 0 && bytes.IndexByte(body, '*') >= 0 {
		var n yamlnode.Node
		if err := yamlnode.Unmarshal(body, &n); err == nil && expanded(&n, map[*yamlnode.Node]int{}) > bodyLimit {
			return nil, fmt.Errorf("yaml: the document with its aliases is longer than %d bytes", bodyLimit)
		}
	}
	return yaml.YAMLToJSON(body)
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

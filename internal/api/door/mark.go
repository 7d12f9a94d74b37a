package door

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// applyPatch is the type of a server-side apply.
const applyPatch = "application/apply-patch+yaml"

// protobufPrefix begins Kubernetes' protobuf bodies.
const protobufPrefix = "k8s\x00"

// markObject puts the run's label on the object in a body, and a taint on a node. Pods get the
// whole stamp.
func markObject(raw []byte, contentType string, s object.Stamp, t target) ([]byte, *metav1.PartialObjectMetadata, error) {
	run, node := s.Run, t.resource == "nodes" && t.group == ""
	if !t.hasPods() {
		s = object.Stamp{Run: run}
	}
	if bytes.HasPrefix(raw, []byte(protobufPrefix)) {
		if t.hasPods() {
			var err error
			if raw, err = stampProtobuf(raw, s); err != nil {
				return nil, nil, err
			}
		}
		return markProtobuf(raw, run, node)
	}
	if strings.HasSuffix(contentType, "yaml") {
		var err error
		if raw, err = yaml.YAMLToJSON(raw); err != nil {
			return nil, nil, err
		}
	}
	raw, err := s.MarkJSON(raw)
	if err == nil && node {
		raw, err = taintJSON(raw, run)
	}
	about := &metav1.PartialObjectMetadata{}
	if err == nil {
		err = json.Unmarshal(raw, about)
	}
	return raw, about, err
}

// runTaint is what keeps pods of others off the nodes that a run's processes make.
func runTaint(run string) corev1.Taint {
	return corev1.Taint{Key: object.RunLabel, Value: run, Effect: corev1.TaintEffectNoSchedule}
}

// isTainted says whether a node keeps others off by a taint of its own.
func isTainted(taints []corev1.Taint) bool {
	for _, t := range taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			return true
		}
	}
	return false
}

func taintJSON(raw []byte, run string) ([]byte, error) {
	var n struct {
		Spec struct{ Taints []corev1.Taint }
	}
	tree := map[string]json.RawMessage{}
	spec := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &n); err != nil || isTainted(n.Spec.Taints) {
		return raw, err
	}
	err := json.Unmarshal(raw, &tree)
	if err == nil && len(tree["spec"]) > 0 {
		err = json.Unmarshal(tree["spec"], &spec)
	}
	if err == nil {
		spec["taints"], err = json.Marshal(append(n.Spec.Taints, runTaint(run)))
	}
	if err == nil {
		tree["spec"], err = json.Marshal(spec)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

// stampProtobuf stamps an object of a kind of Kubernetes itself, in a protobuf body.
func stampProtobuf(raw []byte, s object.Stamp) ([]byte, error) {
	codec := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	o, kind, err := codec.Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err == nil {
		err = s.Mark(tree)
	}
	if err == nil {
		o, err = scheme.Scheme.New(*kind)
	}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(tree, o)
	}
	if err != nil {
		return nil, err
	}
	o.GetObjectKind().SetGroupVersionKind(*kind)
	return runtime.Encode(codec, o)
}

// markProtobuf is mark for a protobuf body. Of all kinds the metadata is field 1, and a
// message that occurs twice is merged: what is appended adds to the labels.
func markProtobuf(raw []byte, run string, node bool) ([]byte, *metav1.PartialObjectMetadata, error) {
	var outer runtime.Unknown
	if err := outer.Unmarshal(raw[len(protobufPrefix):]); err != nil {
		return nil, nil, fmt.Errorf("envelope: %w", err)
	}
	entry := appendField(appendField(nil, 1, []byte(object.RunLabel)), 2, []byte(run))
	const metadata, labels = 1, 11
	outer.Raw = appendField(outer.Raw, metadata, appendField(nil, labels, entry))
	if node {
		var n corev1.Node
		if err := n.Unmarshal(outer.Raw); err != nil {
			return nil, nil, err
		}
		if !isTainted(n.Spec.Taints) {
			n.Spec.Taints = append(n.Spec.Taints, runTaint(run))
		}
		inner, err := n.Marshal()
		if err != nil {
			return nil, nil, err
		}
		outer.Raw = inner
	}
	about := &metav1.PartialObjectMetadata{}
	if err := about.Unmarshal(outer.Raw); err != nil {
		return nil, nil, err
	}
	out, err := outer.Marshal()
	return append([]byte(protobufPrefix), out...), about, err
}

// appendField appends a field of bytes to a protobuf message.
func appendField(message []byte, number uint64, value []byte) []byte {
	const bytesType = 2
	message = binary.AppendUvarint(bytes.Clone(message), number<<3|bytesType)
	message = binary.AppendUvarint(message, uint64(len(value)))
	return append(message, value...)
}

package protobuf

import (
	"bytes"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// codec turns the JSON of built-in objects into protobuf, the way a client does
// that holds typed objects.
type codec struct {
	json     *json.Serializer
	protobuf *protobuf.Serializer
}

func newCodec() *codec {
	return &codec{
		json:     json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Strict: true}),
		protobuf: protobuf.NewSerializer(scheme.Scheme, scheme.Scheme),
	}
}

// appendEnvelope appends an object's protobuf in its envelope, or says why it stays
// JSON.
func (c *codec) appendEnvelope(dst, object []byte) (out []byte, why string) {
	typed, kind, err := c.json.Decode(object, nil, nil)
	switch {
	case runtime.IsNotRegisteredError(err):
		return dst, "it is no built-in kind"
	case runtime.IsStrictDecodingError(err):
		return dst, "it has a field that its kind does not have: " + err.Error()
	case err != nil:
		return dst, "it cannot be decoded: " + err.Error()
	}
	// Encoding writes into quantities, which would then differ.
	copied := typed.DeepCopyObject()
	copied.GetObjectKind().SetGroupVersionKind(*kind)
	typed.GetObjectKind().SetGroupVersionKind(*kind)
	var b bytes.Buffer
	if err := c.protobuf.Encode(copied, &b); err != nil {
		return dst, "it has no protobuf form: " + err.Error()
	}
	back, _, err := c.protobuf.Decode(b.Bytes(), nil, nil)
	if err != nil {
		return dst, "its protobuf form cannot be read: " + err.Error()
	}
	back.GetObjectKind().SetGroupVersionKind(*kind)
	if !equality.Semantic.DeepEqualWithNilDifferentFromEmpty(typed, back) {
		return dst, "protobuf would lose something of it, such as that a list is empty and not absent"
	}
	return append(dst, b.Bytes()...), ""
}

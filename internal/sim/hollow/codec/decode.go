package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
)

// BadRequest is the error for a body that cannot be read.
func BadRequest(err error) error {
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		return err
	}
	return apierrors.NewBadRequest(err.Error())
}

// CheckHead says what is wrong with a body before anybody looks at more than its
// version and kind, in whose names it takes capital letters for small ones.
func CheckHead(raw []byte) error {
	var head struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	return nil
}

// DecodeMessage reads an object in protobuf with its envelope. It returns how many values
// the object has, at least.
func DecodeMessage(k *kind.Kind, raw []byte) (o runtime.Object, values int, err error) {
	inner, _, err := object.Unwrap(raw)
	if err != nil {
		return nil, 0, CannotHandle(k, err)
	}
	var head runtime.Unknown
	if err := head.Unmarshal(raw[len(object.Magic):]); err != nil {
		return nil, 0, CannotHandle(k, err)
	}
	if err := checkKind(k, head.APIVersion, head.Kind); err != nil {
		return nil, 0, err
	}
	if values, err = boundMessage(k, inner); err != nil {
		return nil, 0, err
	}
	if o, err = k.Decode(inner); err != nil {
		return nil, 0, CannotHandle(k, err)
	}
	return o, values, nil
}

// CannotHandle is the error for a body that is no object of a kind.
func CannotHandle(k *kind.Kind, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", k.Kind, k.Version, k.Kind, err))
}

// internalGroupName is what an API server calls a group in its sources.
func internalGroupName(group string) string {
	first, _, _ := strings.Cut(group, ".")
	if first == "" {
		return "core"
	}
	return first
}

// Unrecognized is the error for a body that is no object.
func Unrecognized(k *kind.Kind, raw []byte, err error) error {
	const shown = 30
	summary := string(raw)
	if len(raw) > shown {
		summary = string(raw[:shown]) + " ..."
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", k.Kind, err, summary))
}

// checkKind refuses an object of another kind than the request is about; one that
// says nothing is of that.
func checkKind(k *kind.Kind, apiVersion, name string) error {
	if gv, err := schema.ParseGroupVersion(apiVersion); name != "" && name != k.Kind && (err != nil || kind.Builtin().OfKind(gv.WithKind(name)) == nil) && k.Custom == nil {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: no kind %q is registered for version %q in scheme \"pkg/runtime/scheme.go:111\"",
			name, gv.Version, k.Kind, name, apiVersion))
	}
	if name != "" && name != k.Kind {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: converting (%s) to (%s): unknown conversion",
			name, k.Version, k.Kind, apiVersion+"."+name, internalGroupName(k.Group)+"."+k.Kind))
	}
	if apiVersion != "" && apiVersion != k.APIVersion() {
		_, v, ok := strings.Cut(apiVersion, "/")
		if !ok {
			v = apiVersion
		}
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: no kind %q is registered for version %q in scheme \"pkg/runtime/scheme.go:111\"",
			k.Kind, v, k.Kind, k.Kind, apiVersion))
	}
	return nil
}

// HasCapitals says whether a custom object has version or kind in other letters, which its
// schema may let it have.
func HasCapitals(o runtime.Object) bool {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	for name := range u.Object {
		for _, known := range []string{"apiVersion", "kind"} {
			if name != known && strings.EqualFold(name, known) {
				return true
			}
		}
	}
	return false
}

// Decode reads an object in JSON, and says which fields it has beyond those of
// its kind.
func Decode(k *kind.Kind, raw []byte) (o runtime.Object, unknown []string, err error) {
	o, unknown, err = DecodePlain(k, raw)
	var known apierrors.APIStatus
	if err != nil && !errors.As(err, &known) {
		err = CannotHandle(k, err)
	}
	return o, unknown, err
}

// DecodePlain is Decode with the decoder's own errors.
func DecodePlain(k *kind.Kind, raw []byte) (o runtime.Object, unknown []string, err error) {
	o = k.New()
	if u, ok := o.(*unstructured.Unstructured); ok {
		return decodeCustom(k, u, raw)
	}
	strict, err := kjson.UnmarshalStrict(raw, o)
	if err != nil {
		return nil, nil, err
	}
	head := o.GetObjectKind().GroupVersionKind()
	apiVersion, name := head.ToAPIVersionAndKind()
	if err := checkKind(k, apiVersion, name); err != nil {
		return nil, nil, err
	}
	o.GetObjectKind().SetGroupVersionKind(k.GVK())
	for _, s := range strict {
		unknown = append(unknown, s.Error())
	}
	return o, unknown, nil
}

// decodeCustom reads a custom object: what its schema does not know is dropped, and
// what it has a default for filled in.
func decodeCustom(k *kind.Kind, u *unstructured.Unstructured, raw []byte) (runtime.Object, []string, error) {
	u.Object = nil
	strict, err := kjson.UnmarshalStrict(raw, &u.Object)
	if err != nil {
		return nil, nil, err
	}
	if u.Object == nil {
		u.Object = map[string]any{}
	}
	for _, name := range []string{"kind", "apiVersion"} {
		if s, _ := u.Object[name].(string); s == "" {
			return nil, nil, Unrecognized(k, raw, fmt.Errorf("Object '%s' is missing in '%s'", strings.ToUpper(name[:1])+name[1:], raw))
		}
	}
	if m, there := u.Object["metadata"]; there {
		if _, ok := m.(map[string]any); !ok {
			return nil, nil, errors.New("metadata is no object")
		}
		if u.Object["metadata"], err = CleanMetadata(m); err != nil {
			return nil, nil, err
		}
	}
	if v := u.GetAPIVersion(); u.GetKind() == k.Kind && v != k.APIVersion() {
		return nil, nil, apierrors.NewBadRequest("the API version in the data (" + v + ") does not match the expected API version (" + k.APIVersion() + ")")
	}
	if err := checkKind(k, u.GetAPIVersion(), u.GetKind()); err != nil {
		return nil, nil, err
	}
	u.SetGroupVersionKind(k.GVK())
	var unknown []string
	for _, s := range strict {
		unknown = append(unknown, s.Error())
	}
	for _, path := range k.Custom.Prune(u.Object) {
		unknown = append(unknown, fmt.Sprintf("unknown field %q", path))
	}
	if err := k.Custom.Default(u.Object); err != nil {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	return u, unknown, nil
}

// CleanMetadata returns an object's metadata as an API server keeps it: without what
// metadata has not, and what is empty. The error says what is of another type than it
// has there.
func CleanMetadata(m any) (map[string]any, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	var typed metav1.ObjectMeta
	if _, err := kjson.UnmarshalStrict(raw, &typed); err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(&typed)
}

// Package kind says which resources an API server has and in which forms their
// objects come: built-in ones, whose objects are kept in protobuf, and those of
// CustomResourceDefinitions, kept in JSON.
//
// It keeps no objects and knows nothing of requests.
package kind

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/weight"
)

// Version is the version of Kubernetes whose API hollow clusters have.
const Version = "v1.37.1"

// Kind is a resource and the kind of its objects. It is immutable.
type Kind struct {
	Group, Version, Kind string
	List                 string // the kind of its lists
	Plural, Singular     string
	Short, Categories    []string
	Namespaced           bool
	Verbs                []string
	Sub                  []Sub

	Traits
	Custom *Custom // of a CustomResourceDefinition; nil of what is built in

	goType reflect.Type // nil of what is custom
	schema func() *object.Schema
	layout func() *weight.Layout // of goType
	fields []selector            // that selectors may name, besides name and namespace
}

// Traits are how an API server treats objects of a kind beyond the common.
type Traits struct {
	Status      bool // status is written apart from the rest
	Generation  bool // counts the changes of what is not metadata or status
	PutCreates  bool // PUT creates an object
	NeedVersion bool // PUT must name the version that it replaces
	ShowDeleted bool // DELETE is answered with the object
	KeepStatus  bool // a create may set the status
	StatusMeta  bool // a write of the status leaves all metadata as it is
}

// Sub is a subresource.
type Sub struct {
	Name    string
	Group   string // of its objects, where they are of another kind
	Version string
	Kind    string
	Verbs   []string
}

// Resource returns the group and plural name.
func (k *Kind) Resource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Plural}
}

// GVK returns group, version and kind.
func (k *Kind) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
}

// APIVersion returns the group and version as objects have them.
func (k *Kind) APIVersion() string {
	if k.Group == "" {
		return k.Version
	}
	return k.Group + "/" + k.Version
}

// Table names the table of its objects: those of all versions are in one.
func (k *Kind) Table() string {
	if k.Group == "" {
		return k.Plural
	}
	return k.Plural + "." + k.Group
}

// StorageHash is what discovery says of how objects are stored: the same for the
// same group, version and kind.
func (k *Kind) StorageHash() string {
	if len(k.Verbs) == 1 { // nothing is
		return ""
	}
	sum := sha256.Sum256([]byte(k.Group + "/" + k.Version + "/" + k.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// Find returns the subresource of a name.
func (k *Kind) Find(name string) (Sub, bool) {
	for _, s := range k.Sub {
		if s.Name == name {
			return s, true
		}
	}
	return Sub{}, false
}

// Weigh counts what an object holds in the form in which it is kept. The error says
// that its messages are nested too deep.
func (k *Kind) Weigh(raw []byte) (weight.Proto, error) {
	if k.goType == nil {
		return weight.Proto{Values: weight.OfJSON(raw).Values}, nil
	}
	return k.layout().Weigh(raw)
}

// Packs says whether its objects have a protobuf form.
func (k *Kind) Packs() bool { return k.goType != nil }

// GoType returns the Go type of built-in objects; nil of custom ones.
func (k *Kind) GoType() reflect.Type { return k.goType }

// New returns an empty object.
func (k *Kind) New() runtime.Object {
	if k.goType == nil {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetGroupVersionKind(k.GVK())
		return u
	}
	o := reflect.New(k.goType).Interface().(runtime.Object)
	o.GetObjectKind().SetGroupVersionKind(k.GVK())
	return o
}

// marshaler is a type with a protobuf form.
type marshaler interface{ Marshal() ([]byte, error) }

type unmarshaler interface{ Unmarshal([]byte) error }

// Meta returns the metadata of an object of any kind.
func Meta(o runtime.Object) metav1.Object { return o.(metav1.Object) }

// Encode returns the form in which an object is kept.
func (k *Kind) Encode(o runtime.Object) ([]byte, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return json.Marshal(u.Object)
	}
	m, ok := o.(marshaler)
	if !ok {
		return nil, fmt.Errorf("%T has no protobuf form", o)
	}
	return m.Marshal()
}

// Decode reads the form in which an object is kept.
func (k *Kind) Decode(raw []byte) (runtime.Object, error) {
	o := k.New()
	if u, ok := o.(*unstructured.Unstructured); ok {
		if err := u.UnmarshalJSON(raw); err != nil {
			return nil, err
		}
		u.SetAPIVersion(k.APIVersion())
		return u, nil
	}
	return o, o.(unmarshaler).Unmarshal(raw)
}

// JSON returns an object's JSON from the form in which it is kept.
func (k *Kind) JSON(raw []byte) ([]byte, error) {
	if k.goType == nil {
		return k.withVersion(raw), nil
	}
	o, err := k.Decode(raw)
	if err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// Item is JSON for an element of a list: built-in ones say no kind there.
func (k *Kind) Item(raw []byte) ([]byte, error) {
	if k.goType == nil {
		return k.withVersion(raw), nil
	}
	o, err := k.Decode(raw)
	if err != nil {
		return nil, err
	}
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return json.Marshal(o)
}

// withVersion gives the JSON of a custom object this kind's version.
func (k *Kind) withVersion(raw []byte) []byte {
	head := `{"apiVersion":"` + k.APIVersion() + `"`
	if bytes.HasPrefix(raw, []byte(head)) {
		return raw
	}
	_, rest, _ := bytes.Cut(raw, []byte(`,`)) // json.Marshal puts apiVersion first
	return append([]byte(head+","), rest...)
}

// AppendProto appends an object in protobuf with its envelope.
func (k *Kind) AppendProto(dst, raw []byte) []byte {
	return object.AppendEnvelope(dst, k.APIVersion(), k.Kind, raw)
}

// Labels returns an object's labels.
func (k *Kind) Labels(raw []byte) map[string]string {
	if k.goType == nil {
		return k.metadataOf(raw).Labels
	}
	var out map[string]string
	object.Pairs(raw, false, func(key, value []byte) {
		if out == nil {
			out = map[string]string{}
		}
		out[string(key)] = string(value)
	})
	return out
}

func (k *Kind) metadataOf(raw []byte) metav1.ObjectMeta {
	var o struct{ Metadata metav1.ObjectMeta }
	_ = json.Unmarshal(raw, &o) // what is kept was encoded here
	return o.Metadata
}

// Metadata returns an object's metadata.
func (k *Kind) Metadata(raw []byte) (m metav1.ObjectMeta) {
	if k.goType == nil {
		return k.metadataOf(raw)
	}
	_ = m.Unmarshal(object.Field(raw, 1)) // what is kept was encoded here
	return m
}

// Key returns the key of an object's name: NAMESPACE/NAME, or NAME.
func Key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// SplitKey is the reverse of Key.
func SplitKey(key string) (namespace, name string) {
	if before, after, ok := strings.Cut(key, "/"); ok {
		return before, after
	}
	return "", key
}

// everyVerb are the verbs of an ordinary resource.
func everyVerb() []string {
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}

// Set is the resources of a server, by group, version and plural name. It is
// immutable: With returns a larger one.
type Set struct {
	kinds map[string]*Kind
	order []*Kind
}

func kindName(group, version, plural string) string { return group + "/" + version + "/" + plural }

func newSet(kinds []*Kind) *Set {
	s := &Set{kinds: make(map[string]*Kind, len(kinds)), order: kinds}
	for _, k := range kinds {
		s.kinds[kindName(k.Group, k.Version, k.Plural)] = k
	}
	return s
}

// Find returns a resource; nil if there is none.
func (s *Set) Find(group, version, plural string) *Kind {
	return s.kinds[kindName(group, version, plural)]
}

// All returns all resources, those of a group together.
func (s *Set) All() []*Kind { return s.order }

// OfKind returns the resource of a group, version and kind; nil if there is none.
func (s *Set) OfKind(gvk schema.GroupVersionKind) *Kind {
	for _, k := range s.order {
		if k.GVK() == gvk && len(k.Verbs) > 1 {
			return k
		}
	}
	return nil
}

// OfTable returns the resource of a table, in its first version; nil if there is
// none.
func (s *Set) OfTable(table string) *Kind {
	for _, k := range s.order {
		if k.Table() == table {
			return k
		}
	}
	return nil
}

// With returns the set without the resources of a group and plural name, and
// with others.
func (s *Set) With(drop schema.GroupResource, more ...*Kind) *Set {
	var out []*Kind
	for _, k := range s.order {
		if k.Resource() != drop {
			out = append(out, k)
		}
	}
	return newSet(append(out, more...))
}

// HasGroup says whether the set has a group and version; empty: any version.
func (s *Set) HasGroup(group, version string) bool {
	return slices.ContainsFunc(s.order, func(k *Kind) bool { return k.Group == group && (version == "" || k.Version == version) })
}

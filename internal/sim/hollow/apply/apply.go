// Package apply is server-side apply: which manager owns which field of an object,
// what an apply makes of it, and with whom it conflicts. The work is done by the
// API server's own library.
package apply

import (
	"fmt"
	"maps"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/openapi"
)

// Managers are who applies to which resources. The zero value is ready; its methods
// may be called from many goroutines.
type Managers struct {
	known sync.Map // by part
}

// part is a resource, or a subresource of one.
type part struct {
	kind *kind.Kind
	sub  string
}

// builtin converts built-in objects by the schemas that client-go has of them. They
// are read once a process, which takes a tenth of a second.
var builtin = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })

// managerOf returns the manager of a resource's part.
func (m *Managers) managerOf(k *kind.Kind, sub string) (*managedfields.FieldManager, error) {
	p := part{k, sub}
	if known, ok := m.known.Load(p); ok {
		return known.(*managedfields.FieldManager), nil
	}
	made, err := newManager(k, sub)
	if err != nil {
		return nil, err
	}
	known, _ := m.known.LoadOrStore(p, made)
	return known.(*managedfields.FieldManager), nil
}

func newManager(k *kind.Kind, sub string) (*managedfields.FieldManager, error) {
	c, gv := converter{k}, k.GVK().GroupVersion()
	reset := resetBy(k, sub)
	if k.Custom == nil {
		types := builtin()
		if k.Group == "apiextensions.k8s.io" { // client-go knows nothing of it
			types = managedfields.NewDeducedTypeConverter()
		}
		return managedfields.NewDefaultFieldManager(types, c, c, c, k.GVK(), gv, sub, reset)
	}
	types, err := customTypes(k)
	if err != nil {
		return nil, err
	}
	return managedfields.NewDefaultCRDFieldManager(types, c, c, c, k.GVK(), gv, sub, reset)
}

// resetBy returns the fields that a write of the part leaves as they are: nobody
// comes to own them by it.
func resetBy(k *kind.Kind, sub string) map[fieldpath.APIVersion]fieldpath.Filter {
	if !k.Status {
		return nil
	}
	set := fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	if sub == "status" {
		set = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"))
		if k.StatusMeta {
			set.Insert(fieldpath.MakePathOrDie("metadata"))
		}
	}
	return map[fieldpath.APIVersion]fieldpath.Filter{fieldpath.APIVersion(k.APIVersion()): fieldpath.NewExcludeSetFilter(set)}
}

// customTypes returns what converts a custom resource's objects by their schema.
func customTypes(k *kind.Kind) (managedfields.TypeConverter, error) {
	s, err := k.Custom.OpenAPI()
	if err != nil {
		return nil, err
	}
	if s == nil {
		return managedfields.NewDeducedTypeConverter(), nil
	}
	d := openapi.NewDefinitions()
	meta := d.Add(reflect.TypeFor[metav1.ObjectMeta]())
	root := *s
	root.Properties = map[string]spec.Schema{}
	maps.Copy(root.Properties, s.Properties)
	root.Properties["apiVersion"], root.Properties["kind"] = *spec.StringProperty(), *spec.StringProperty()
	root.Properties["metadata"] = spec.Schema{SchemaProps: spec.SchemaProps{Ref: spec.MustCreateRef("#/components/schemas/" + meta)}}
	root.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}})
	d.Schemas["custom"] = &root
	return managedfields.NewTypeConverter(d.Schemas, false)
}

// Apply returns what an apply makes of an object. An empty live one is created. The
// error says which fields others own.
func (m *Managers) Apply(k *kind.Kind, sub string, live, applied runtime.Object, by string, force bool) (runtime.Object, error) {
	f, err := m.managerOf(k, sub)
	if err != nil {
		return nil, err
	}
	out, err := f.Apply(live, applied, by, force)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Update notes who changed which fields, on an object that somebody has applied
// something to.
func (m *Managers) Update(k *kind.Kind, sub string, live, next runtime.Object, by string) (runtime.Object, error) {
	f, err := m.managerOf(k, sub)
	if err != nil {
		return nil, err
	}
	return f.UpdateNoErrors(live, next, by), nil
}

// converter is what the library asks to make objects of: a kind has one version.
type converter struct{ kind *kind.Kind }

// Default has nothing to fill in.
func (c converter) Default(runtime.Object) {}

// New returns an empty object.
func (c converter) New(schema.GroupVersionKind) (runtime.Object, error) { return c.kind.New(), nil }

// Convert is not asked for.
func (c converter) Convert(in, out, _ any) error {
	return fmt.Errorf("convert %T to %T: objects have one form", in, out)
}

// ConvertToVersion returns a built-in object in Go.
func (c converter) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	u, ok := in.(*unstructured.Unstructured)
	if !ok || !c.kind.Packs() {
		return in, nil
	}
	out := c.kind.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, fmt.Errorf("unable to convert unstructured object to %v: %w", c.kind.GVK(), err)
	}
	return out, nil
}

// ConvertFieldLabel is not asked for.
func (c converter) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

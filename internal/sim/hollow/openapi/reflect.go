// Package openapi describes the objects of an API server in OpenAPI: built-in ones
// by their Go types, which carry names, descriptions and how lists are merged, and
// custom ones by the schemas of their CustomResourceDefinitions.
//
// It knows less than an API server's own document, which is generated from the
// sources' comments: no enums, and a field is required where its JSON is never
// left out.
package openapi

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Definitions are schemas by their names. Those of one document belong together.
type Definitions struct {
	Schemas map[string]*spec.Schema
	prefix  string // of references
}

// The prefixes of references in documents of both versions.
const (
	prefixV2 = "#/definitions/"
	prefixV3 = "#/components/schemas/"
)

// NewDefinitions returns definitions for a document of version 3.
func NewDefinitions() *Definitions {
	return &Definitions{Schemas: map[string]*spec.Schema{}, prefix: prefixV3}
}

// Add adds the schema of a Go type, and those that it refers to, and returns its
// name.
func (d *Definitions) Add(t reflect.Type) string {
	name := Name(t)
	if _, known := d.Schemas[name]; known {
		return name
	}
	s := &spec.Schema{}
	s.Type = spec.StringOrArray{"object"}
	d.Schemas[name] = s // before its fields, which may refer to it
	docs := docsOf(t)
	s.Description = docs[""]
	s.Properties = map[string]spec.Schema{}
	d.addFields(s, t, docs)
	return name
}

// Name returns what a document calls a Go type: io.k8s.api.core.v1.Pod.
func Name(t reflect.Type) string {
	host, rest, _ := strings.Cut(t.PkgPath(), "/")
	parts := strings.Split(host, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(rest, "/", ".") + "." + t.Name()
}

// docsOf returns the descriptions of a type's fields.
func docsOf(t reflect.Type) map[string]string {
	if d, ok := reflect.New(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		return d.SwaggerDoc()
	}
	return nil
}

func (d *Definitions) addFields(s *spec.Schema, t reflect.Type, docs map[string]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" { // its fields are this type's
			if f.Type.Kind() == reflect.Struct {
				d.addFields(s, f.Type, docsOf(f.Type))
			}
			continue
		}
		p := d.schemaOf(f.Type)
		addMergeRules(&p, f)
		if docs[name] != "" {
			p = withDescription(p, docs[name])
		}
		s.Properties[name] = p
		if !strings.Contains(options, "omit") && f.Type.Kind() != reflect.Pointer {
			s.Required = append(s.Required, name)
		}
	}
}

// withDescription gives a schema a description, beside a reference too.
func withDescription(p spec.Schema, text string) spec.Schema {
	if p.Ref.String() != "" {
		p = spec.Schema{SchemaProps: spec.SchemaProps{AllOf: []spec.Schema{p}}}
	}
	p.Description = text
	return p
}

// addMergeRules says how patches and applies merge a field.
func addMergeRules(p *spec.Schema, f reflect.StructField) {
	strategy, key := f.Tag.Get("patchStrategy"), f.Tag.Get("patchMergeKey")
	if strategy == "" {
		if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() != reflect.Uint8 {
			p.AddExtension("x-kubernetes-list-type", "atomic")
		}
		return
	}
	p.AddExtension("x-kubernetes-patch-strategy", strategy)
	if key != "" {
		p.AddExtension("x-kubernetes-patch-merge-key", key)
	}
	if f.Type.Kind() != reflect.Slice {
		return
	}
	if key == "" {
		p.AddExtension("x-kubernetes-list-type", "set")
		return
	}
	p.AddExtension("x-kubernetes-list-type", "map")
	p.AddExtension("x-kubernetes-list-map-keys", []any{key})
}

// referenceTo returns a reference to a schema that goes by its type's name, as that of a
// quantity does: kubectl explain shows it.
func (d *Definitions) referenceTo(t reflect.Type, s spec.Schema) spec.Schema {
	if t.Kind() != reflect.Struct {
		return s
	}
	d.Schemas[Name(t)] = &s
	return spec.Schema{SchemaProps: spec.SchemaProps{Ref: spec.MustCreateRef(d.prefix + Name(t))}}
}

// schemaOf returns the schema of a field's type.
func (d *Definitions) schemaOf(t reflect.Type) spec.Schema {
	if t.Kind() == reflect.Pointer {
		return d.schemaOf(t.Elem())
	}
	if t == reflect.TypeFor[intstr.IntOrString]() {
		s := *spec.StringProperty()
		s.Format = "int-or-string"
		return s
	}
	v := reflect.New(t).Interface()
	if named, ok := v.(interface {
		OpenAPISchemaType() []string
		OpenAPISchemaFormat() string
	}); ok {
		return d.referenceTo(t, spec.Schema{SchemaProps: spec.SchemaProps{Type: named.OpenAPISchemaType(), Format: named.OpenAPISchemaFormat()}})
	}
	switch t.Kind() {
	case reflect.String:
		return *spec.StringProperty()
	case reflect.Bool:
		return *spec.BoolProperty()
	case reflect.Int32:
		return *spec.Int32Property()
	case reflect.Int64, reflect.Int:
		return *spec.Int64Property()
	case reflect.Float64, reflect.Float32:
		return *spec.Float64Property()
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return *spec.StrFmtProperty("byte")
		}
		item := d.schemaOf(t.Elem())
		return *spec.ArrayProperty(&item)
	case reflect.Map:
		item := d.schemaOf(t.Elem())
		return *spec.MapProperty(&item)
	case reflect.Struct:
		if _, own := v.(json.Marshaler); own && t != reflect.TypeFor[metav1.ObjectMeta]() {
			return d.referenceTo(t, spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}}}) // of any form
		}
		return spec.Schema{SchemaProps: spec.SchemaProps{Ref: spec.MustCreateRef(d.prefix + d.Add(t))}}
	}
	return spec.Schema{}
}

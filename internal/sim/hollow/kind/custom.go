package kind

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// Custom is what a CustomResourceDefinition says of a version's objects.
type Custom struct {
	Columns []apiextensionsv1.CustomResourceColumnDefinition
	Scale   *apiextensionsv1.CustomResourceSubresourceScale
	Schema  *apiextensionsv1.JSONSchemaProps // nil: any object

	openAPI   func() (*spec.Schema, error)
	validator func() (*validate.SchemaValidator, error)
}

// OfDefinition returns the resources of a CustomResourceDefinition: one for each
// version that is served.
func OfDefinition(d *apiextensionsv1.CustomResourceDefinition) (out []*Kind) {
	for i := range d.Spec.Versions {
		if v := &d.Spec.Versions[i]; v.Served {
			out = append(out, ofVersion(d, v))
		}
	}
	return out
}

func ofVersion(d *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion) *Kind {
	names := d.Spec.Names
	k := &Kind{
		Group: d.Spec.Group, Version: v.Name, Kind: names.Kind, List: names.ListKind,
		Plural: names.Plural, Singular: names.Singular, Short: names.ShortNames, Categories: names.Categories,
		Namespaced: d.Spec.Scope == apiextensionsv1.NamespaceScoped,
		Verbs:      []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"},
		Traits:     Traits{Generation: true, NeedVersion: true},
	}
	if k.List == "" {
		k.List = k.Kind + "List"
	}
	if k.Singular == "" {
		k.Singular = strings.ToLower(k.Kind)
	}
	change := []string{"get", "patch", "update"}
	c := &Custom{Columns: v.AdditionalPrinterColumns}
	if v.Schema != nil {
		c.Schema = v.Schema.OpenAPIV3Schema
	}
	if s := v.Subresources; s != nil && s.Status != nil {
		k.Status, k.StatusMeta = true, true
		k.Sub = append(k.Sub, Sub{Name: "status", Kind: k.Kind, Verbs: change})
	}
	if s := v.Subresources; s != nil && s.Scale != nil {
		c.Scale = s.Scale
		k.Sub = append(k.Sub, Sub{Name: "scale", Group: "autoscaling", Version: "v1", Kind: "Scale", Verbs: change})
	}
	for _, f := range v.SelectableFields {
		name := strings.TrimPrefix(f.JSONPath, ".")
		k.fields = append(k.fields, selector{name: name, path: strings.Split(name, ".")})
	}
	c.openAPI = sync.OnceValues(c.toOpenAPI)
	c.validator = sync.OnceValues(func() (*validate.SchemaValidator, error) {
		s, err := c.openAPI()
		if err != nil || s == nil {
			return nil, err
		}
		return validate.NewSchemaValidator(s, nil, "", strfmt.Default), nil
	})
	k.Custom = c
	return k
}

// toOpenAPI returns the schema in OpenAPI's own form; nil without one.
func (c *Custom) toOpenAPI() (*spec.Schema, error) {
	if c.Schema == nil {
		return nil, nil
	}
	raw, err := json.Marshal(c.Schema)
	if err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	s := &spec.Schema{}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("decode schema: %w", err)
	}
	return s, nil
}

// OpenAPI returns the schema; nil without one.
func (c *Custom) OpenAPI() (*spec.Schema, error) { return c.openAPI() }

// Validate says what in an object is not as the schema wants it.
func (c *Custom) Validate(o map[string]any) (out field.ErrorList) {
	v, err := c.validator()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if v == nil {
		return nil
	}
	for _, err := range v.Validate(o).Errors {
		out = append(out, fieldError(err))
	}
	return out
}

func fieldError(err error) *field.Error {
	var path *field.Path
	e, ok := err.(*openapierrors.Validation) //nolint:errorlint // it is made by the validator just called
	if !ok {
		return field.Invalid(path, "", err.Error())
	}
	if name := strings.TrimPrefix(e.Name, "."); name != "" {
		path = field.NewPath(name)
	}
	var value any = ""
	if e.Value != nil {
		value = e.Value
	}
	count := func(v any) int {
		n, ok := v.(int64)
		if !ok {
			return -1
		}
		return int(n)
	}
	switch e.Code() {
	case openapierrors.RequiredFailCode:
		return field.Required(path, "")
	case openapierrors.EnumFailCode:
		return field.NotSupported(path, e.Value, enumTexts(e.Values))
	case openapierrors.TooLongFailCode:
		return field.TooLong(path, "", count(e.Valid))
	case openapierrors.MaxItemsFailCode, openapierrors.TooManyPropertiesCode:
		return field.TooMany(path, count(e.Value), count(e.Valid))
	case openapierrors.InvalidTypeCode:
		return field.TypeInvalid(path, value, e.Error())
	}
	return field.Invalid(path, value, e.Error())
}

func enumTexts(values []any) (out []string) {
	for _, v := range values {
		if s, ok := v.(string); ok {
			out = append(out, s)
			continue
		}
		raw, _ := json.Marshal(v) // it came out of JSON
		out = append(out, string(raw))
	}
	return out
}

// defaultLimit is how many bytes of defaults one object may be given. Without it, a
// list of a million empty objects, each with a default, takes all memory.
const defaultLimit = 3 << 20

// ErrDefaults says that an object would be given more than 3 MiB of defaults.
var ErrDefaults = errors.New("the defaults of its schema make the object too large")

// Default fills in what an object leaves out and the schema has a default for. The
// error is ErrDefaults.
func (c *Custom) Default(o map[string]any) error {
	left := defaultLimit
	if fillDefaults(o, c.Schema, &left); left < 0 {
		return ErrDefaults
	}
	return nil
}

// fillDefaults fills in defaults while bytes are left for them.
func fillDefaults(v any, s *apiextensionsv1.JSONSchemaProps, left *int) {
	if s == nil || *left < 0 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name := range s.Properties {
			p := s.Properties[name]
			if old, there := v[name]; p.Default != nil && (!there || old == nil && !p.Nullable) {
				if *left -= len(p.Default.Raw); *left < 0 {
					return
				}
				var value any
				if err := json.Unmarshal(p.Default.Raw, &value); err == nil {
					v[name] = toIntegers(value)
				}
			}
			if old, there := v[name]; there && old == nil && !p.Nullable && p.Default == nil {
				delete(v, name) // null where there is none is nothing
			} else if there {
				fillDefaults(old, &p, left)
			}
		}
		if more := s.AdditionalProperties; more != nil {
			for name, item := range v {
				if _, named := s.Properties[name]; !named {
					fillDefaults(item, more.Schema, left)
				}
			}
		}
	case []any:
		if s.Items != nil {
			for _, item := range v {
				fillDefaults(item, s.Items.Schema, left)
			}
		}
	}
}

// toIntegers makes integers of the numbers that are, as objects have them.
func toIntegers(v any) any {
	switch v := v.(type) {
	case float64:
		if n := int64(v); float64(n) == v {
			return n
		}
	case map[string]any:
		for name, item := range v {
			v[name] = toIntegers(item)
		}
	case []any:
		for i, item := range v {
			v[i] = toIntegers(item)
		}
	}
	return v
}

// unknownLimit is how many unknown fields are named: as many as the decoder of
// built-in objects names.
const unknownLimit = 100

// Prune removes what the schema does not know and returns the paths of it, at most
// 100.
func (c *Custom) Prune(o map[string]any) []string {
	if c.Schema == nil {
		return nil
	}
	var out []string
	pruneUnknown(o, c.Schema, pruning{root: true, found: &out})
	return out
}

type pruning struct {
	path  string
	root  bool // of an object with a head: apiVersion, kind and metadata
	found *[]string
}

func (p pruning) pruningAt(name string) pruning {
	if p.path != "" && !strings.HasPrefix(name, "[") {
		name = "." + name
	}
	return pruning{path: p.path + name, found: p.found}
}

func pruneUnknown(v any, s *apiextensionsv1.JSONSchemaProps, at pruning) {
	keep := s == nil || s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
	if s == nil {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, item := range v {
			if (at.root || s.XEmbeddedResource) && (name == "apiVersion" || name == "kind" || name == "metadata") {
				continue
			}
			p, known := s.Properties[name]
			more := s.AdditionalProperties
			switch {
			case known:
				pruneUnknown(item, &p, at.pruningAt(name))
			case more != nil && more.Schema != nil:
				pruneUnknown(item, more.Schema, at.pruningAt(name))
			case more != nil && more.Allows, keep:
			default:
				delete(v, name)
				if len(*at.found) < unknownLimit {
					*at.found = append(*at.found, at.pruningAt(name).path)
				}
			}
		}
	case []any:
		if s.Items != nil && s.Items.Schema != nil {
			for i, item := range v {
				pruneUnknown(item, s.Items.Schema, at.pruningAt(fmt.Sprintf("[%d]", i)))
			}
		}
	}
}

package openapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"reflect"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
)

// object is a part of a document.
type object = map[string]any

// V3 returns the document of version 3 for a group and version.
func V3(kinds *kind.Set, group, version string) ([]byte, error) {
	d, paths := NewDefinitions(), object{}
	for _, k := range kinds.All() {
		if k.Group == group && k.Version == version {
			name, err := d.addKind(k)
			if err != nil {
				return nil, err
			}
			pathsOf(paths, k, d.prefix+name, true)
		}
	}
	return json.Marshal(object{
		"openapi": "3.0.0", "info": object{"title": "Kubernetes", "version": "v1.37.1"},
		"paths": paths, "components": object{"schemas": d.Schemas},
	})
}

// V2 returns the document of version 2, of all groups.
func V2(kinds *kind.Set) ([]byte, error) {
	d, paths := &Definitions{Schemas: map[string]*spec.Schema{}, prefix: prefixV2}, object{}
	for _, k := range kinds.All() {
		name, err := d.addKind(k)
		if err != nil {
			return nil, err
		}
		pathsOf(paths, k, d.prefix+name, false)
	}
	return json.Marshal(object{
		"swagger": "2.0", "info": object{"title": "Kubernetes", "version": "v1.37.1"},
		"paths": paths, "definitions": d.Schemas,
	})
}

// Index returns the list of the documents of version 3, with a hash in each address
// that changes with the document.
func Index(kinds *kind.Set, hash func(group, version string) string) ([]byte, error) {
	paths := object{}
	for _, k := range kinds.All() {
		path := "api/" + k.Version
		if k.Group != "" {
			path = "apis/" + k.Group + "/" + k.Version
		}
		paths[path] = object{"serverRelativeURL": "/openapi/v3/" + path + "?hash=" + hash(k.Group, k.Version)}
	}
	return json.Marshal(object{"paths": paths})
}

// addKind adds the schema of a resource's objects and returns its name.
func (d *Definitions) addKind(k *kind.Kind) (string, error) {
	name := ""
	if t := k.GoType(); t != nil {
		name = d.Add(t)
	} else {
		parts := strings.Split(k.Group, ".")
		slices.Reverse(parts)
		name = strings.Join(parts, ".") + "." + k.Version + "." + k.Kind
		s, err := d.customSchema(k)
		if err != nil {
			return "", err
		}
		d.Schemas[name] = s
	}
	d.Schemas[name].AddExtension("x-kubernetes-group-version-kind", []any{gvkObject(k)})
	d.addList(k, name)
	return name, nil
}

// addList adds the schema of a resource's lists.
func (d *Definitions) addList(k *kind.Kind, name string) {
	if len(k.Verbs) == 1 {
		return
	}
	s := &spec.Schema{}
	s.Type, s.Required = spec.StringOrArray{"object"}, []string{"items"}
	item := spec.Schema{SchemaProps: spec.SchemaProps{Ref: spec.MustCreateRef(d.prefix + name)}}
	s.Properties = map[string]spec.Schema{
		"apiVersion": *spec.StringProperty(), "kind": *spec.StringProperty(), "items": *spec.ArrayProperty(&item),
		"metadata": {SchemaProps: spec.SchemaProps{Ref: spec.MustCreateRef(d.prefix + d.Add(reflect.TypeFor[metav1.ListMeta]()))}},
	}
	s.AddExtension("x-kubernetes-group-version-kind", []any{object{"group": k.Group, "version": k.Version, "kind": k.List}})
	d.Schemas[strings.TrimSuffix(name, k.Kind)+k.List] = s
}

// customSchema returns the schema of custom objects, with the metadata that all have.
func (d *Definitions) customSchema(k *kind.Kind) (*spec.Schema, error) {
	s, err := k.Custom.OpenAPI()
	if err != nil {
		return nil, err
	}
	out := &spec.Schema{}
	if s != nil {
		*out = *s
	}
	out.Extensions = maps.Clone(out.Extensions)
	out.Properties = maps.Clone(out.Properties)
	if out.Properties == nil {
		out.Properties = map[string]spec.Schema{}
	}
	out.Type = spec.StringOrArray{"object"}
	out.Properties["apiVersion"], out.Properties["kind"] = *spec.StringProperty(), *spec.StringProperty()
	out.Properties["metadata"] = spec.Schema{SchemaProps: spec.SchemaProps{Ref: spec.MustCreateRef(d.prefix + d.Add(reflect.TypeFor[metav1.ObjectMeta]()))}}
	return out, nil
}

func gvkObject(k *kind.Kind) object {
	return object{"group": k.Group, "version": k.Version, "kind": k.Kind}
}

// pathsOf adds what may be done to a resource: as much as clients look for, which is
// whether a change takes fieldValidation and dryRun, and of which kind it is.
func pathsOf(paths object, k *kind.Kind, ref string, v3 bool) {
	root := "/apis/" + k.Group + "/" + k.Version
	if k.Group == "" {
		root = "/api/" + k.Version
	}
	if k.Namespaced {
		root += "/namespaces/{namespace}"
	}
	all, one := object{}, object{}
	for _, verb := range k.Verbs {
		switch verb {
		case "create":
			all["post"] = newOperation(k, "post", ref, v3)
		case "list":
			all["get"] = newOperation(k, "list", ref, v3)
		case "get":
			one["get"] = newOperation(k, "get", ref, v3)
		case "update":
			one["put"] = newOperation(k, "put", ref, v3)
		case "patch":
			one["patch"] = newOperation(k, "patch", ref, v3)
		case "delete":
			one["delete"] = newOperation(k, "delete", ref, v3)
		}
	}
	paths[root+"/"+k.Plural] = all
	if len(one) > 0 {
		paths[root+"/"+k.Plural+"/{name}"] = one
	}
}

// newOperation is one thing that may be done.
func newOperation(k *kind.Kind, action, ref string, v3 bool) object {
	var parameters []any
	query := func(name string) {
		p := object{"name": name, "in": "query"}
		if v3 {
			p["schema"] = object{"type": "string"}
		} else {
			p["type"] = "string"
		}
		parameters = append(parameters, p)
	}
	switch action {
	case "post", "put", "patch":
		query("dryRun")
		query("fieldManager")
		query("fieldValidation")
	case "delete":
		query("dryRun")
	case "list":
		query("labelSelector")
		query("fieldSelector")
	}
	answer := object{"description": "OK"}
	if v3 {
		answer["content"] = object{"application/json": object{"schema": object{"$ref": ref}}}
	} else {
		answer["schema"] = object{"$ref": ref}
	}
	return object{
		"parameters": parameters, "responses": object{"200": answer},
		"x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvkObject(k),
	}
}

package controller

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/template"
)

// manifest is one object that a component renders.
type manifest struct {
	object    *unstructured.Unstructured
	component string
	as        string // its name among its component's outputs; empty for the output itself
	trait     string // type of the trait that added it; empty for the component's own
	cluster   string // that it is for; empty for the one that the applications are in
}

// Values of the label of an object's role.
const (
	roleWorkload = "WORKLOAD"
	roleTrait    = "TRAIT"
)

// context returns what templates know of a component.
func (p *pass) context(component string, at placement) map[string]any {
	return map[string]any{
		"name": component, "appName": p.app.Name, "namespace": p.app.Namespace, "appRevision": p.revisionName(), "appRevisionNum": p.number,
		"appLabels": p.app.Labels, "appAnnotations": p.app.Annotations, "cluster": cmp.Or(at.cluster, cluster.Local),
	}
}

// render evaluates a component with its traits for a place.
func (p *pass) render(component api.Component, at placement) ([]manifest, error) {
	d := p.definitions[api.KindComponent][component.Type]
	in := template.Input{Parameter: component.Properties, Context: p.context(component.Name, at)}
	fields, err := p.c.templates.Evaluate(d.Template(), in, "output", "outputs")
	if err != nil {
		return nil, fmt.Errorf("component %s: %w", component.Name, err)
	}
	out, err := read(fields, component.Name, "")
	if err != nil {
		return nil, err
	}
	for _, trait := range component.Traits {
		more, err := p.renderTrait(component, trait, out, at)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	for i := range out {
		if err := p.finish(&out[i], component, at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// renderTrait patches a component's own object, or returns objects beside it.
func (p *pass) renderTrait(component api.Component, trait api.Trait, base []manifest, at placement) ([]manifest, error) {
	d := p.definitions[api.KindTrait][trait.Type]
	in := template.Input{Parameter: trait.Properties, Context: p.context(component.Name, at)}
	fields, err := p.c.templates.Evaluate(d.Template(), in, "patch", "outputs")
	if err != nil {
		return nil, fmt.Errorf("component %s: trait %s: %w", component.Name, trait.Type, err)
	}
	if patch := fields["patch"]; patch != nil && len(base) > 0 {
		if err := merge(base[0].object, patch); err != nil {
			return nil, fmt.Errorf("component %s: trait %s: %w", component.Name, trait.Type, err)
		}
	}
	return read(fields, component.Name, trait.Type)
}

// read returns the objects that a template rendered, its output first.
func read(fields map[string]json.RawMessage, component, trait string) ([]manifest, error) {
	var out []manifest
	add := func(what, as string, raw json.RawMessage) error {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal(raw, &o.Object); err != nil {
			return fmt.Errorf("component %s: %s: %w", component, what, err)
		}
		if o.GetKind() == "" || o.GetAPIVersion() == "" {
			return fmt.Errorf("component %s: %s has no kind or apiVersion", component, what)
		}
		out = append(out, manifest{object: o, component: component, as: as, trait: trait})
		return nil
	}
	if raw := fields["output"]; raw != nil {
		if err := add("output", "", raw); err != nil {
			return nil, err
		}
	}
	if raw := fields["outputs"]; raw != nil {
		var more map[string]json.RawMessage
		if err := json.Unmarshal(raw, &more); err != nil {
			return nil, fmt.Errorf("component %s: outputs: %w", component, err)
		}
		for _, name := range slices.Sorted(maps.Keys(more)) {
			if err := add("outputs."+name, name, more[name]); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// merge patches an object in the way of its kind.
func merge(o *unstructured.Unstructured, patch []byte) error {
	raw, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	if typed, unknown := scheme.Scheme.New(o.GroupVersionKind()); unknown == nil {
		raw, err = strategicpatch.StrategicMergePatch(raw, patch, typed)
	} else {
		raw, err = mergeJSON(raw, patch)
	}
	if err != nil {
		return err
	}
	o.Object = nil
	return json.Unmarshal(raw, &o.Object)
}

// finish gives an object its name, its place and its labels.
func (p *pass) finish(m *manifest, component api.Component, at placement) error {
	o := m.object
	m.cluster = at.cluster
	if o.GetName() == "" {
		o.SetName(component.Name)
	}
	namespaced, err := p.c.objects.namespaced(o.GroupVersionKind())
	if err != nil {
		return fmt.Errorf("component %s: %w", component.Name, err)
	}
	if namespaced && (o.GetNamespace() == "" || at.namespace != "") {
		o.SetNamespace(cmp.Or(at.namespace, p.app.Namespace))
	}
	role := roleWorkload
	if m.trait != "" {
		role = roleTrait
	}
	hash, err := hashOf(o.Object)
	if err != nil {
		return err
	}
	labels := maps.Clone(o.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, map[string]string{
		api.LabelName: p.app.Name, api.LabelNamespace: p.app.Namespace, api.LabelComponent: component.Name,
		api.LabelRevision: p.revisionName(), api.LabelResourceType: role, api.LabelRenderHash: hash,
	})
	if m.trait != "" {
		labels[api.LabelTrait] = m.trait
	}
	o.SetLabels(labels)
	return nil
}

// managed returns what a tracker holds of an object.
func (m manifest) managed() (api.ManagedResource, error) {
	raw, err := json.Marshal(m.object.Object)
	if err != nil {
		return api.ManagedResource{}, fmt.Errorf("%s %s: %w", m.object.GetKind(), m.object.GetName(), err)
	}
	return api.ManagedResource{
		ResourceReference: api.ResourceReference{
			Cluster: m.cluster, APIVersion: m.object.GetAPIVersion(), Kind: m.object.GetKind(), Namespace: m.object.GetNamespace(), Name: m.object.GetName(),
		},
		Component: m.component, Trait: m.trait, Raw: raw,
	}, nil
}

// healthy asks a component's definition how its object is, and for a word on it.
func (p *pass) healthy(component api.Component, at placement, output *unstructured.Unstructured) (ok bool, message string, err error) {
	status := p.definitions[api.KindComponent][component.Type].Spec.Status
	if status == nil || status.HealthPolicy == "" {
		return true, "", nil
	}
	in := template.Input{Context: p.context(component.Name, at)}
	in.Context["output"] = output.Object
	got, err := p.c.templates.Evaluate(status.HealthPolicy, in, "isHealth")
	if err != nil {
		return false, "", fmt.Errorf("component %s: health: %w", component.Name, err)
	}
	if status.CustomStatus != "" {
		word, err := p.c.templates.Evaluate(status.CustomStatus, in, "message")
		if err != nil {
			return false, "", fmt.Errorf("component %s: status: %w", component.Name, err)
		}
		if err := json.Unmarshal(word["message"], &message); err != nil {
			return false, "", fmt.Errorf("component %s: status: %w", component.Name, err)
		}
	}
	return string(got["isHealth"]) == "true", message, nil
}

// hashOf returns a short hash of a value's JSON, whose keys are in order.
func hashOf(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}

// find returns a definition: of the application's own namespace, else of the system's.
func (c *Controller) find(kind, namespace, name string) (*api.Definition, error) {
	defer c.metrics.own("GetCache", kind)()
	for _, ns := range []string{namespace, api.SystemNamespace} {
		o, exists, err := c.definitions[kind].GetStore().GetByKey(ns + "/" + name)
		if err != nil {
			return nil, err
		}
		if exists {
			return o.(*api.Definition), nil
		}
	}
	return nil, fmt.Errorf("%s %q: %w", kind, name, errUnknownType)
}

var errUnknownType = errors.New("not found in the namespace of the application or in " + api.SystemNamespace)

// mergeJSON lays one object over another.
func mergeJSON(base, patch []byte) ([]byte, error) {
	var o, change map[string]any
	if err := errors.Join(json.Unmarshal(base, &o), json.Unmarshal(patch, &change)); err != nil {
		return nil, err
	}
	overlay(o, change)
	return json.Marshal(o)
}

func overlay(o, change map[string]any) {
	for k, v := range change {
		a, isMap := o[k].(map[string]any)
		b, both := v.(map[string]any)
		if isMap && both {
			overlay(a, b)
			continue
		}
		o[k] = v
	}
}

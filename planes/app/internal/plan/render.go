package plan

import (
	"cmp"
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

// Manifest is one object that a component renders.
type Manifest struct {
	Object    *unstructured.Unstructured
	Component string
	Output    string // its name among the component's outputs; empty for the output itself
	Trait     string // type of the trait that added it; empty for the component's own
	Cluster   string // that it is for; empty for the cluster that the applications are in
}

// Values of the label of an object's role.
const (
	roleWorkload = "WORKLOAD"
	roleTrait    = "TRAIT"
)

// templateContext returns what templates know of a component.
func (p *Plan) templateContext(component string, at Place) map[string]any {
	return map[string]any{
		"name": component, "appName": p.App.Name, "namespace": p.App.Namespace, "appRevision": p.Revision, "appRevisionNum": p.Number,
		"appLabels": p.App.Labels, "appAnnotations": p.App.Annotations, "cluster": cmp.Or(at.Cluster, cluster.Local),
	}
}

// Render evaluates a component with its traits for a place. It returns at least one
// manifest.
func (p *Plan) Render(component api.Component, at Place) ([]Manifest, error) {
	d := p.Definitions[api.KindComponent][component.Type]
	in := template.Input{Parameter: component.Properties, Context: p.templateContext(component.Name, at)}
	fields, err := p.tools.Templates.Evaluate(d.Template(), in, "output", "outputs")
	if err != nil {
		return nil, fmt.Errorf("component %s: %w", component.Name, err)
	}
	out, err := readManifests(fields, component.Name, "")
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
	if len(out) == 0 {
		return nil, fmt.Errorf("component %s: definition %s renders no object", component.Name, component.Type)
	}
	for i := range out {
		if err := p.setIdentity(&out[i], component, at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// renderTrait patches a component's own object, or returns objects beside it.
func (p *Plan) renderTrait(component api.Component, trait api.Trait, base []Manifest, at Place) ([]Manifest, error) {
	d := p.Definitions[api.KindTrait][trait.Type]
	in := template.Input{Parameter: trait.Properties, Context: p.templateContext(component.Name, at)}
	fields, err := p.tools.Templates.Evaluate(d.Template(), in, "patch", "outputs")
	if err != nil {
		return nil, fmt.Errorf("component %s: trait %s: %w", component.Name, trait.Type, err)
	}
	if patch := fields["patch"]; patch != nil && len(base) > 0 {
		if err := patchObject(base[0].Object, patch); err != nil {
			return nil, fmt.Errorf("component %s: trait %s: %w", component.Name, trait.Type, err)
		}
	}
	return readManifests(fields, component.Name, trait.Type)
}

// readManifests returns the objects that a template rendered, its output first.
func readManifests(fields map[string]json.RawMessage, component, trait string) ([]Manifest, error) {
	var out []Manifest
	add := func(what, name string, raw json.RawMessage) error {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal(raw, &o.Object); err != nil {
			return fmt.Errorf("component %s: %s: %w", component, what, err)
		}
		if o.GetKind() == "" || o.GetAPIVersion() == "" {
			return fmt.Errorf("component %s: %s has no kind or apiVersion", component, what)
		}
		out = append(out, Manifest{Object: o, Component: component, Output: name, Trait: trait})
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

// patchObject patches an object in the way of its kind.
func patchObject(o *unstructured.Unstructured, patch []byte) error {
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

// setIdentity gives an object its name, its place and its labels.
func (p *Plan) setIdentity(m *Manifest, component api.Component, at Place) error {
	o := m.Object
	m.Cluster = at.Cluster
	if o.GetName() == "" {
		o.SetName(component.Name)
	}
	namespaced, err := p.tools.Namespaced(o.GroupVersionKind())
	if err != nil {
		return fmt.Errorf("component %s: %w", component.Name, err)
	}
	if namespaced && (o.GetNamespace() == "" || at.Namespace != "") {
		o.SetNamespace(cmp.Or(at.Namespace, p.App.Namespace))
	}
	role := roleWorkload
	if m.Trait != "" {
		role = roleTrait
	}
	hash, err := api.Hash(o.Object)
	if err != nil {
		return err
	}
	labels := maps.Clone(o.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, map[string]string{
		api.LabelName: p.App.Name, api.LabelNamespace: p.App.Namespace, api.LabelComponent: component.Name,
		api.LabelRevision: p.Revision, api.LabelResourceType: role, api.LabelRenderHash: hash,
	})
	if m.Trait != "" {
		labels[api.LabelTrait] = m.Trait
	}
	o.SetLabels(labels)
	return nil
}

// Managed returns what a tracker holds of an object.
func (m Manifest) Managed() (api.ManagedResource, error) {
	raw, err := json.Marshal(m.Object.Object)
	if err != nil {
		return api.ManagedResource{}, fmt.Errorf("%s %s: %w", m.Object.GetKind(), m.Object.GetName(), err)
	}
	return api.ManagedResource{
		ResourceReference: api.ResourceReference{
			Cluster: m.Cluster, APIVersion: m.Object.GetAPIVersion(), Kind: m.Object.GetKind(), Namespace: m.Object.GetNamespace(), Name: m.Object.GetName(),
		},
		Component: m.Component, Trait: m.Trait, Raw: raw,
	}, nil
}

// Health asks a component's definition how its object is, and for a word on it.
func (p *Plan) Health(component api.Component, at Place, output *unstructured.Unstructured) (ok bool, message string, err error) {
	status := p.Definitions[api.KindComponent][component.Type].Spec.Status
	if status == nil || status.HealthPolicy == "" {
		return true, "", nil
	}
	in := template.Input{Context: p.templateContext(component.Name, at)}
	in.Context["output"] = output.Object
	got, err := p.tools.Templates.Evaluate(status.HealthPolicy, in, "isHealth")
	if err != nil {
		return false, "", fmt.Errorf("component %s: health: %w", component.Name, err)
	}
	if status.CustomStatus != "" {
		word, err := p.tools.Templates.Evaluate(status.CustomStatus, in, "message")
		if err != nil {
			return false, "", fmt.Errorf("component %s: status: %w", component.Name, err)
		}
		if err := json.Unmarshal(word["message"], &message); err != nil {
			return false, "", fmt.Errorf("component %s: status: %w", component.Name, err)
		}
	}
	return string(got["isHealth"]) == "true", message, nil
}

// mergeJSON lays one object over another.
func mergeJSON(base, patch []byte) ([]byte, error) {
	var o, change map[string]any
	if err := errors.Join(json.Unmarshal(base, &o), json.Unmarshal(patch, &change)); err != nil {
		return nil, err
	}
	mergeMaps(o, change)
	return json.Marshal(o)
}

func mergeMaps(o, change map[string]any) {
	for k, v := range change {
		a, isMap := o[k].(map[string]any)
		b, both := v.(map[string]any)
		if isMap && both {
			mergeMaps(a, b)
			continue
		}
		o[k] = v
	}
}

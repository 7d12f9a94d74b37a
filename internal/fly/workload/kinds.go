package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/scenario"
)

// builtInGroups are those that kube-apiserver itself has had since 1.16. Others
// that end in k8s.io, such as gateway.networking.k8s.io, have to be installed.
func builtInGroups() []string {
	return []string{
		"", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "auditregistration.k8s.io",
		"authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io",
		"discovery.k8s.io", "events.k8s.io", "extensions", "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io",
		"networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io",
		"storage.k8s.io", "storagemigration.k8s.io",
	}
}

// BuiltIn tells a group that every API server has.
func BuiltIn(group string) bool { return slices.Contains(builtInGroups(), group) }

// Definitions are the kinds that a scenario brings to a plane, such as "Widget of
// example.org/v1", by group. A group without kinds has any.
type Definitions map[string][]string

// Add takes note of what an object defines. What defines nothing, or cannot be
// read, adds nothing.
func (d Definitions) Add(raw []byte) {
	var o struct {
		Kind string `json:"kind"`
		Spec struct {
			Group string `json:"group"`
			Names struct {
				Kind string `json:"kind"`
			} `json:"names"`
			Versions []struct {
				Name string `json:"name"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if json.Unmarshal(raw, &o) != nil || o.Spec.Group == "" {
		return
	}
	group := o.Spec.Group
	switch kinds, known := d[group]; {
	case o.Kind == "APIService":
		d[group] = nil
	case o.Kind == "CustomResourceDefinition" && (!known || kinds != nil):
		for _, v := range o.Spec.Versions {
			if kind := o.Spec.Names.Kind + " of " + group + "/" + v.Name; !slices.Contains(d[group], kind) {
				d[group] = append(d[group], kind)
			}
		}
	}
}

// ErrNoDefinition says that an object is of a kind that nothing brings to the
// plane.
var ErrNoDefinition = errors.New("no plane has this kind by itself")

// Unserved joins an error for each body whose kind neither Kubernetes has, nor
// definitions, nor objects that the steps themselves make. A step that follows a hook is
// not judged.
func (w *Workload) Unserved(definitions Definitions) error {
	w.addOwn(definitions)
	var errs []error
	judged := map[string]bool{}
	for step := range w.Scenario.AllSteps() {
		if step.Exec != nil {
			break // which may install anything
		}
		for _, name := range bodiesMade(step) {
			if body := w.Bodies[name]; body != nil && !judged[name] {
				judged[name] = true
				errs = append(errs, w.requireServed(name, body, definitions))
			}
		}
	}
	return errors.Join(errs...)
}

// addOwn takes note of what the steps define.
func (w *Workload) addOwn(definitions Definitions) {
	for step := range w.Scenario.AllSteps() {
		for _, name := range bodiesMade(step) {
			body := w.Bodies[name]
			if body == nil || body.Kind() != "CustomResourceDefinition" && body.Kind() != "APIService" {
				continue
			}
			with := map[string]any{}
			if c := step.Create; c != nil {
				with = c.With
				for _, o := range c.Objects {
					with = MergeVariables(with, o.With)
				}
			}
			if raw, err := w.renderFirst(name, step.Name, "", with); err == nil {
				definitions.Add(raw)
			}
			if step.Create != nil {
				w.addLater(definitions, name, step, with)
			}
		}
	}
}

// maxDefinitions bounds the objects of one body that are looked at for what they define.
const maxDefinitions = 10_000

// addLater takes note of what the later objects of a body define, whose names may differ.
func (w *Workload) addLater(definitions Definitions, body string, step *scenario.Step, with map[string]any) {
	most := 1 // replicas of an index
	for _, o := range step.Create.Objects {
		if o.Body == body {
			most = max(most, o.Replicas)
		}
	}
	v := template.Vars{Name: step.Name, Namespace: w.Namespace(0), Seed: w.Scenario.Seed, With: with}
	for i := range min(max(step.Create.Count, step.Create.PerNamespace)*most, maxDefinitions) {
		v.Index, v.Replica = i/most, i%most+1
		raw, err := w.Bodies[body].Render(nil, v)
		if err != nil {
			return // the step says it
		}
		definitions.Add(raw)
	}
}

// bodiesMade are those of the objects that a step makes.
func bodiesMade(step *scenario.Step) (out []string) {
	if c := step.Create; c != nil {
		if c.Body != "" {
			out = append(out, c.Body)
		}
		for _, o := range c.Objects {
			out = append(out, o.Body)
		}
	}
	if r := step.Requests; r != nil {
		for _, c := range r.Mix {
			if c.Verb == "create" && c.Subresource == "" {
				out = append(out, c.Body)
			}
		}
	}
	return out
}

// requireServed is nil where a body's kind is one that the plane will have.
func (w *Workload) requireServed(name string, body *template.Template, definitions Definitions) error {
	if body.Kind() == "" {
		return nil
	}
	if err := definitions.Lack(body.APIVersion(), body.Kind()); err != nil {
		return fmt.Errorf("%s: body %q is a %s of %s, and %w", w.placeOf(name), name, body.Kind(), body.APIVersion(), err)
	}
	return nil
}

// Lack is nil where the plane will have a kind: Kubernetes has its group, or it is defined.
func (d Definitions) Lack(apiVersion, kind string) error {
	group, _, named := strings.Cut(apiVersion, "/")
	if !named || BuiltIn(group) {
		return nil
	}
	kinds, known := d[group]
	if known && (kinds == nil || slices.Contains(kinds, kind+" of "+apiVersion)) {
		return nil
	}
	way := "add its CustomResourceDefinition under crds: (a cluster with --kubeconfig may have it)"
	if known {
		way = "what is installed defines " + strings.Join(kinds, ", ")
	}
	return fmt.Errorf("%w: %s", ErrNoDefinition, way)
}

// placeOf returns where a body stands, "FILE:LINE".
func (w *Workload) placeOf(name string) string {
	b := w.Scenario.Bodies[name]
	if b.File != "" {
		return filepath.Join(filepath.Dir(w.File), b.File) + ":1"
	}
	file, line := w.Scenario.Place(w.File, b.Line)
	return fmt.Sprintf("%s:%d", file, line)
}

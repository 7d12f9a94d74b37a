package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
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

// Definition is a kind that a scenario brings to a plane, or that Kubernetes has.
type Definition struct {
	scenario.Resource
	Kind string
}

// Definitions are the kinds that a scenario brings to a plane, by group. A group without
// kinds has any.
type Definitions map[string][]Definition

// Add takes note of what an object defines. What defines nothing, or cannot be
// read, adds nothing.
func (d Definitions) Add(raw []byte) {
	var o struct {
		Kind string `json:"kind"`
		Spec struct {
			Group string `json:"group"`
			Names struct {
				Kind   string `json:"kind"`
				Plural string `json:"plural"`
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
			one := Definition{scenario.Resource{Plural: o.Spec.Names.Plural, Group: group, Version: v.Name}, o.Spec.Names.Kind}
			if !slices.Contains(d[group], one) {
				d[group] = append(d[group], one)
			}
		}
	}
}

// ErrNoDefinition says that an object is of a kind that nothing brings to the
// plane.
var ErrNoDefinition = errors.New("no plane has this kind by itself")

// Unserved joins an error for each kind that the steps are about that neither Kubernetes has,
// nor definitions, nor objects that the steps themselves make.
func (w *Workload) Unserved(definitions Definitions) error {
	w.addOwn(definitions)
	var errs []error
	for _, k := range w.kinds() {
		if err := definitions.lack(k); err != nil {
			errs = append(errs, fmt.Errorf("%s%w", k.asked, err))
		}
	}
	return errors.Join(errs...)
}

// CheckServed is Unserved for a cluster that is not the run's own: it is asked. What it does
// not answer is left to the steps, and what is asked of members to these.
func (w *Workload) CheckServed(ctx context.Context, resources *discovery.Cache, definitions Definitions) error {
	w.addOwn(definitions)
	var errs []error
	for _, k := range w.kinds() {
		if k.members || definitions.bring(k) {
			continue
		}
		var err error
		if k.kind != "" {
			_, err = resources.Kind(ctx, schema.GroupVersion{Group: k.Group, Version: k.Version}.String(), k.kind)
		} else {
			_, err = resources.Named(ctx, k.named)
		}
		if errors.Is(err, discovery.ErrNotServed) {
			errs = append(errs, fmt.Errorf("%s%w%s", k.asked, discovery.ErrNotServed, k.meant()))
		}
	}
	return errors.Join(errs...)
}

// askedKind is a kind that a step is about: that of a body, or a resource by its name.
type askedKind struct {
	scenario.Resource        // without a plural: that of a body
	kind              string // of a body
	named             string // the resource
	asked             string // where, and how
	members           bool   // it is asked of members
}

// kinds are those that the steps are about, up to the first that runs a command, which may
// install anything.
func (w *Workload) kinds() (out []askedKind) {
	judged := map[string]bool{}
	for step := range w.Scenario.AllSteps() {
		if step.Exec != nil {
			break
		}
		for _, name := range bodiesMade(step) {
			body := w.Bodies[name]
			if body == nil || body.Kind() == "" || judged[name] {
				continue
			}
			judged[name] = true
			group, version := cutVersion(body.APIVersion())
			out = append(out, askedKind{scenario.Resource{Group: group, Version: version}, body.Kind(), "",
				fmt.Sprintf("%s: body %q is a %s of %s, and ", w.placeOf(name), name, body.Kind(), body.APIVersion()), step.Cluster != ""})
		}
		for _, name := range resourcesNamed(step) {
			if r, err := scenario.ParseResource(name); err == nil && !judged[name+" by name"] {
				judged[name+" by name"] = true
				out = append(out, askedKind{r, "", name, fmt.Sprintf("%s: %s: ", w.PlaceOfStep(step), name), step.Cluster != ""})
			}
		}
	}
	return out
}

// PlaceOfStep is where a step stands, and its name: "FILE:LINE: step". The steps that an
// importer made stand in no line.
func (w *Workload) PlaceOfStep(step *scenario.Step) string {
	if step.Line == 0 {
		return fmt.Sprintf("%s: step %q", w.File, step.Name)
	}
	file, line := w.Scenario.Place(w.File, step.Line)
	return fmt.Sprintf("%s:%d: step %q", file, line, step.Name)
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

// resourcesNamed are those that a step asks for by their names.
func resourcesNamed(step *scenario.Step) (out []string) {
	if w := step.Wait; w != nil && w.Objects != "" {
		out = append(out, w.Objects)
	}
	if r := step.Requests; r != nil {
		for _, c := range r.Mix {
			if c.Resource != "" && !slices.Contains(out, c.Resource) {
				out = append(out, c.Resource)
			}
		}
	}
	return out
}

// Lack is nil where the plane will have a kind: Kubernetes has it, or it is defined.
func (d Definitions) Lack(apiVersion, kind string) error {
	group, version := cutVersion(apiVersion)
	return d.lack(askedKind{Resource: scenario.Resource{Group: group, Version: version}, kind: kind})
}

func (d Definitions) lack(k askedKind) error {
	switch kinds, known := d[k.Group]; {
	case d.bring(k), BuiltIn(k.Group) && !isSettled(k.Group), BuiltIn(k.Group) && slices.ContainsFunc(builtInKinds(), func(one Definition) bool { return k.is(one) && one.Group == k.Group }):
		return nil
	case BuiltIn(k.Group):
		return fmt.Errorf("%w%s", ErrNoDefinition, k.meant())
	case known:
		var names []string
		for _, one := range kinds {
			names = append(names, k.shown(one))
		}
		return fmt.Errorf("%w: what is installed defines %s", ErrNoDefinition, strings.Join(names, ", "))
	}
	return fmt.Errorf("%w: add its CustomResourceDefinition under crds: (a cluster with --kubeconfig may have it)", ErrNoDefinition)
}

// bring tells a kind that is defined.
func (d Definitions) bring(k askedKind) bool {
	kinds, known := d[k.Group]
	return known && (kinds == nil || slices.ContainsFunc(kinds, func(one Definition) bool { return k.is(one) && (k.Version == "" || k.Version == one.Version) }))
}

// is tells whether a kind is the one that is asked for, in whatever group and version.
func (k askedKind) is(one Definition) bool {
	return k.kind != "" && k.kind == one.Kind || k.kind == "" && k.Plural == one.Plural
}

// meant asks whether a kind that Kubernetes has in another group, or by its plural, is meant.
func (k askedKind) meant() string {
	i := slices.IndexFunc(builtInKinds(), func(one Definition) bool { return k.is(one) || strings.EqualFold(k.Plural, one.Kind) })
	if i < 0 {
		return ""
	}
	return " (did you mean " + k.shown(builtInKinds()[i]) + "?)"
}

// shown names another kind as this one is named.
func (k askedKind) shown(one Definition) string {
	version := schema.GroupVersion{Group: one.Group, Version: one.Version}.String()
	switch {
	case k.kind != "":
		return one.Kind + " of " + version
	case k.Version != "":
		return one.Plural + "." + one.Version + "." + one.Group
	}
	return one.Resource.String()
}

// isSettled tells a group whose resources have been the same since Kubernetes 1.21.
func isSettled(group string) bool {
	return slices.Contains([]string{"", "apps", "autoscaling", "batch", "rbac.authorization.k8s.io"}, group)
}

// builtInKinds are those of Kubernetes.
func builtInKinds() (out []Definition) {
	for _, k := range kind.Builtin().All() {
		out = append(out, Definition{scenario.Resource{Plural: k.Plural, Group: k.Group, Version: k.Version}, k.Kind})
	}
	return append(out, Definition{scenario.Resource{Plural: "componentstatuses", Version: "v1"}, "ComponentStatus"})
}

// HasNoNamespace tells a kind of Kubernetes whose objects are in no namespace.
func HasNoNamespace(apiVersion, name string) bool {
	group, version := cutVersion(apiVersion)
	for _, k := range kind.Builtin().All() {
		if k.Group == group && k.Version == version && k.Kind == name {
			return !k.Namespaced
		}
	}
	return false
}

// cutVersion cuts an apiVersion.
func cutVersion(apiVersion string) (group, version string) {
	group, version, named := strings.Cut(apiVersion, "/")
	if !named {
		return "", apiVersion
	}
	return group, version
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

package registry

import (
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// prepareDefinition fills in the status of a CustomResourceDefinition that is created.
func prepareDefinition(d *apiextensionsv1.CustomResourceDefinition) {
	for _, v := range d.Spec.Versions {
		if v.Storage && !slices.Contains(d.Status.StoredVersions, v.Name) {
			d.Status.StoredVersions = append(d.Status.StoredVersions, v.Name)
		}
	}
}

// defaultDefinition fills in the defaults of a CustomResourceDefinition.
func defaultDefinition(d *apiextensionsv1.CustomResourceDefinition) {
	n := &d.Spec.Names
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&d.Spec)
	apiextensionsv1.SetDefaults_CustomResourceDefinition(d)
	if n.ListKind == "" {
		n.ListKind = n.Kind + "List"
	}
}

// checkDefinition returns the mistakes of a CustomResourceDefinition that would make it
// unusable.
func checkDefinition(d *apiextensionsv1.CustomResourceDefinition) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if want := d.Spec.Names.Plural + "." + d.Spec.Group; d.Name != want {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), d.Name, "must be spec.names.plural+\".\"+spec.group"))
	}
	stored := 0
	for i, v := range d.Spec.Versions {
		if v.Storage {
			stored++
		}
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			errs = append(errs, field.Required(spec.Child("versions").Index(i).Child("schema", "openAPIV3Schema"), "schemas are required"))
		}
	}
	if stored != 1 {
		errs = append(errs, field.Invalid(spec.Child("versions"), len(d.Spec.Versions), "must have exactly one version marked as storage version"))
	}
	return errs
}

// definer is the controller of CustomResourceDefinitions.
type definer struct{ registry *Registry }

// definitionKind returns the kind of CustomResourceDefinitions.
func (c definer) definitionKind() *kind.Kind {
	return c.registry.Kinds().Find(apiextensionsv1.GroupName, "v1", "customresourcedefinitions")
}

// serveDefinition serves the resources of a CustomResourceDefinition.
func (c definer) serveDefinition(d *apiextensionsv1.CustomResourceDefinition) []Task {
	if d.DeletionTimestamp != nil {
		return []Task{{Verb: EmptyDefinition, Key: d.Name}}
	}
	kinds, err := c.registry.options.Shared.definitions.Resources(d)
	if err != nil {
		return nil // a definition that cannot be read is not served
	}
	c.registry.served.Update(func(now *kind.Set) *kind.Set {
		if slices.Equal(kinds, customKinds(now, d)) {
			return now
		}
		return now.With(schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}, kinds...)
	}, nil)
	if isEstablished(d) {
		return nil
	}
	return []Task{{Verb: Establish, Key: d.Name}}
}

// customKinds returns the resources of a definition that are served.
func customKinds(s *kind.Set, d *apiextensionsv1.CustomResourceDefinition) (out []*kind.Kind) {
	for _, k := range s.All() {
		if k.Group == d.Spec.Group && k.Plural == d.Spec.Names.Plural && k.Custom != nil {
			out = append(out, k)
		}
	}
	return out
}

func isEstablished(d *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// establishDefinition accepts the names of a definition, says that its resources are served, and
// adds the finalizer that keeps the definition until its objects are gone.
func (c definer) establishDefinition(name string, now time.Time) []Task {
	w := Write{Target: Target{Kind: c.definitionKind(), Name: name}, Now: now}
	out := c.registry.changeAlways(Change{Write: w, Replace: func(old runtime.Object, _ time.Time) (runtime.Object, error) {
		next := old.DeepCopyObject().(*apiextensionsv1.CustomResourceDefinition)
		if !slices.Contains(next.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
			next.Finalizers = append(next.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
		}
		return next, nil
	}})
	w.Sub = "status"
	return append(out, c.registry.changeAlways(Change{Write: w, Replace: func(old runtime.Object, now time.Time) (runtime.Object, error) {
		next := old.DeepCopyObject().(*apiextensionsv1.CustomResourceDefinition)
		next.Status.AcceptedNames = next.Spec.Names
		next.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: TimeOf(now), Reason: "NoConflicts", Message: "no conflicts found"},
			{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: TimeOf(now), Reason: "InitialNamesAccepted", Message: "the initial names have been accepted"},
		}
		return next, nil
	}})...)
}

// emptyDefinition deletes the objects of a definition that is being deleted, and lets the
// definition go when none is left.
func (c definer) emptyDefinition(name string, now time.Time) (out []Task) {
	if !c.isDeletedDefinition(name) {
		return nil
	}
	if k := c.registry.Kinds().OfTable(name); k != nil {
		left, next := c.registry.deleteAll(k, store.Query{}, now)
		if out = next; left > 0 {
			return out // who has a finalizer on them removes it; then the task comes again
		}
	}
	return append(out, c.registry.removeFinalizer(c.definitionKind(), name, apiextensionsv1.CustomResourceCleanupFinalizer, now)...)
}

// isDeletedDefinition reports whether a definition exists and is being deleted.
func (c definer) isDeletedDefinition(name string) bool {
	k := c.definitionKind()
	o := c.registry.Table(k).Get(name)
	return o != nil && k.Metadata(o.Raw).DeletionTimestamp != nil
}

// checkDefinitionWaits looks whether the definition of an object that was removed has
// waited for it.
func (c definer) checkDefinitionWaits(k *kind.Kind) []Task {
	if !c.isDeletedDefinition(k.Table()) {
		return nil
	}
	return []Task{{Verb: EmptyDefinition, Key: k.Table()}}
}

// stopServing stops serving the resources of a definition that was removed.
func (c definer) stopServing(d *apiextensionsv1.CustomResourceDefinition) {
	c.registry.served.Update(func(now *kind.Set) *kind.Set {
		return now.With(schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural})
	}, func() { c.registry.store.Drop(d.Name) })
}

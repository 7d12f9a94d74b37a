package hollow

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// definitions is the kind of CustomResourceDefinitions.
func (c *Cluster) definitions() *kind.Kind {
	return c.kinds.Load().Find(apiextensionsv1.GroupName, "v1", "customresourcedefinitions")
}

// prepareDefinition makes of a CustomResourceDefinition that is created what is
// stored.
func prepareDefinition(d *apiextensionsv1.CustomResourceDefinition) {
	for _, v := range d.Spec.Versions {
		if v.Storage && !slices.Contains(d.Status.StoredVersions, v.Name) {
			d.Status.StoredVersions = append(d.Status.StoredVersions, v.Name)
		}
	}
}

// defaultDefinition fills in what a CustomResourceDefinition leaves out.
func defaultDefinition(d *apiextensionsv1.CustomResourceDefinition) {
	n := &d.Spec.Names
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&d.Spec)
	apiextensionsv1.SetDefaults_CustomResourceDefinition(d)
	if n.ListKind == "" {
		n.ListKind = n.Kind + "List"
	}
}

// checkDefinition holds what nothing works without.
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

// define serves the resources of a CustomResourceDefinition and says that they are.
func (c *Cluster) define(d *apiextensionsv1.CustomResourceDefinition) {
	if d.DeletionTimestamp != nil {
		c.later(func() { c.uproot(d.Name) })
		return
	}
	kinds, err := c.server.kindsOf(d)
	if err != nil {
		return // nothing is served that cannot be read
	}
	c.defining.Lock()
	now := c.kinds.Load()
	if !slices.Equal(kinds, custom(now, d)) {
		c.kinds.Store(now.With(schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}, kinds...))
	}
	c.defining.Unlock()
	if !established(d) {
		c.later(func() { c.establish(d.Name) })
	}
}

// custom returns what is served of a definition.
func custom(s *kind.Set, d *apiextensionsv1.CustomResourceDefinition) (out []*kind.Kind) {
	for _, k := range s.All() {
		if k.Group == d.Spec.Group && k.Plural == d.Spec.Names.Plural && k.Custom != nil {
			out = append(out, k)
		}
	}
	return out
}

// kindsOf returns the resources of a definition, which clusters that have the same
// one share.
func (s *Server) kindsOf(d *apiextensionsv1.CustomResourceDefinition) ([]*kind.Kind, error) {
	raw, err := json.Marshal(d.Spec)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	if known, ok := s.custom.Load(sum); ok {
		return known.([]*kind.Kind), nil
	}
	known, _ := s.custom.LoadOrStore(sum, kind.OfDefinition(d.DeepCopy()))
	return known.([]*kind.Kind), nil
}

func established(d *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// establish says of a definition that its names are accepted and that its resources
// are served, and holds it until they are gone.
func (c *Cluster) establish(name string) {
	_, _ = c.change(change{write: write{target: target{kind: c.definitions(), name: name}}, of: func(old runtime.Object) (runtime.Object, error) {
		next := old.DeepCopyObject().(*apiextensionsv1.CustomResourceDefinition)
		if !slices.Contains(next.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
			next.Finalizers = append(next.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
		}
		return next, nil
	}}) // it may have gone
	_, _ = c.change(change{write: write{target: target{kind: c.definitions(), name: name, sub: "status"}}, of: func(old runtime.Object) (runtime.Object, error) {
		next := old.DeepCopyObject().(*apiextensionsv1.CustomResourceDefinition)
		next.Status.AcceptedNames = next.Spec.Names
		next.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: c.now(), Reason: "NoConflicts", Message: "no conflicts found"},
			{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: c.now(), Reason: "InitialNamesAccepted", Message: "the initial names have been accepted"},
		}
		return next, nil
	}}) // it may have gone
}

// uproot removes the objects of a definition that is being deleted, and then the
// definition.
func (c *Cluster) uproot(name string) {
	o := c.table(c.definitions()).Get(name)
	if o == nil || c.definitions().Metadata(o.Raw).DeletionTimestamp == nil {
		return
	}
	if k := c.kinds.Load().OfTable(name); k != nil && c.clear(k, store.Query{}) > 0 {
		return // whoever has a finalizer on them ends it
	}
	c.unfinalize(c.definitions(), name, apiextensionsv1.CustomResourceCleanupFinalizer)
}

// undefineLater looks whether a definition waited for the object that went.
func (c *Cluster) undefineLater(k *kind.Kind) {
	o := c.table(c.definitions()).Get(k.Table())
	if o != nil && c.definitions().Metadata(o.Raw).DeletionTimestamp != nil {
		c.later(func() { c.uproot(k.Table()) })
	}
}

// undefine stops serving what a definition that was removed had defined.
func (c *Cluster) undefine(d *apiextensionsv1.CustomResourceDefinition) {
	c.defining.Lock()
	defer c.defining.Unlock()
	r := schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}
	c.kinds.Store(c.kinds.Load().With(r))
	c.store.Drop(d.Name)
}

package hollow

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// result is an object that a request is answered with: as it is stored, or in Go,
// or both.
type result struct {
	kind   *kind.Kind
	stored *store.Object
	typed  runtime.Object
}

func (c *Cluster) table(k *kind.Kind) *store.Table { return c.store.Table(k.Table()) }

// encoder returns what encodes an object with the version that it is given.
func encoder(k *kind.Kind, o runtime.Object) func(version uint64) ([]byte, error) {
	return func(version uint64) ([]byte, error) {
		kind.Meta(o).SetResourceVersion(strconv.FormatUint(version, 10))
		raw, err := k.Encode(o)
		if err == nil && len(raw) > codec.ObjectLimit {
			return nil, codec.ErrTooLarge
		}
		return raw, err
	}
}

// generated is how often a name is made by chance until it is one that nobody has.
const generated = 8

// create stores a new object.
func (c *Cluster) create(w write, o runtime.Object) (result, error) {
	m := kind.Meta(o)
	if err := place(w.target, m); err != nil {
		return result{}, err
	}
	if err := c.open(w.kind, m.GetNamespace()); err != nil {
		return result{}, err
	}
	if v := m.GetResourceVersion(); v != "" && v != "0" {
		return result{}, errors.New("resourceVersion should not be set on objects to be created")
	}
	byChance := m.GetName() == "" && m.GetGenerateName() != ""
	for try := 1; ; try++ {
		if byChance {
			m.SetName(generateName(m.GetGenerateName()))
		}
		r, err := c.createNamed(w, o)
		if !byChance || try == generated || !apierrors.IsAlreadyExists(err) {
			return r, err
		}
	}
}

func (c *Cluster) createNamed(w write, o runtime.Object) (result, error) {
	m := kind.Meta(o)
	c.begin(m)
	prepareCreate(w.kind, o)
	if errs := check(w.kind, o, nil); len(errs) > 0 {
		return result{}, codec.InvalidError(w.kind.GVK().GroupKind(), m.GetName(), errs)
	}
	key, t := kind.Key(m.GetNamespace(), m.GetName()), c.table(w.kind)
	taken := apierrors.NewAlreadyExists(w.kind.Resource(), m.GetName())
	if w.dryRun {
		if t.Get(key) != nil {
			return result{}, taken
		}
		return result{kind: w.kind, typed: o}, nil
	}
	stored, err := t.Put(key, nil, encoder(w.kind, o))
	if errors.Is(err, store.ErrChanged) {
		if o := t.Get(key); o != nil && w.kind.Metadata(o.Raw).DeletionTimestamp != nil {
			taken.ErrStatus.Message = "object is being deleted: " + taken.ErrStatus.Message
		}
		return result{}, taken
	}
	if err != nil {
		return result{}, err
	}
	c.wrote(w.kind, o)
	return result{w.kind, stored, o}, nil
}

// place gives an object the namespace of its request, or refuses that it has
// another one.
func place(t target, m metav1.Object) error {
	if err := sameNamespace(t.namespace, m); err != nil {
		return err
	}
	m.SetNamespace(t.namespace)
	if t.name != "" && m.GetName() == "" {
		m.SetName(t.name)
	}
	if t.name != "" && m.GetName() != t.name {
		return apierrors.NewBadRequest("the name of the object (" + m.GetName() + ") does not match the name on the URL (" + t.name + ")")
	}
	return nil
}

// open refuses what is to be created in a namespace that is not there, or that is
// being removed.
func (c *Cluster) open(k *kind.Kind, namespace string) error {
	if !k.Namespaced {
		return nil
	}
	o := c.store.Table("namespaces").Get(namespace)
	if o == nil {
		return notFoundNamespace(namespace)
	}
	var m object.Meta
	if err := object.DecodeMeta(o.Raw, &m); err != nil {
		return err
	}
	if !m.Deleting {
		return nil
	}
	err := apierrors.NewForbidden(k.Resource(), "", fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: "NamespaceTerminating", Message: fmt.Sprintf("namespace %s is being terminated", namespace), Field: "metadata.namespace",
	})
	return err
}

// begin gives an object what the server says of it at its creation.
func (c *Cluster) begin(m metav1.Object) {
	m.SetCreationTimestamp(c.now())
	m.SetDeletionTimestamp(nil)
	m.SetDeletionGracePeriodSeconds(nil)
	m.SetSelfLink("")
	m.SetResourceVersion("")
	m.SetUID(uuid.NewUUID())
}

// now returns the time as objects have it.
func (c *Cluster) now() metav1.Time { return metav1.NewTime(c.server.now()).Rfc3339Copy() }

// generateName adds five letters and digits by chance to a name, of which what
// comes first is shortened if need be.
func generateName(base string) string {
	const letters, suffix, most = "bcdfghjklmnpqrstvwxz2456789", 5, 63
	b := make([]byte, suffix)
	_, _ = rand.Read(b) // it never fails
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return base[:min(len(base), most-suffix)] + string(b)
}

// check says what in an object is not valid. old is what it replaces; nil for a
// new one.
func check(k *kind.Kind, o, old runtime.Object) field.ErrorList {
	m, path := kind.Meta(o), field.NewPath("metadata")
	if errs := codec.BoundMetadata(m); len(errs) > 0 {
		return errs
	}
	name := func(name string, prefix bool) []string {
		if prefix {
			return content.IsPathSegmentPrefix(name)
		}
		return content.IsPathSegmentName(name)
	}
	if old == nil {
		name = nameRule(k)
	}
	errs := validation.ValidateObjectMetaAccessor(m, k.Namespaced, name, path)
	if old != nil {
		errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(m, kind.Meta(old), path)...)
	}
	switch o := o.(type) {
	case *unstructured.Unstructured:
		if old != nil { // an API server says it twice of them
			errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(m, kind.Meta(old), path)...)
		}
		errs = append(errs, k.Custom.Validate(o.Object)...)
	case *apiextensionsv1.CustomResourceDefinition:
		errs = append(errs, checkDefinition(o)...)
	}
	return errs
}

// nameRule returns what a new object's name must be like.
func nameRule(k *kind.Kind) validation.ValidateNameFunc {
	switch {
	case k.Table() == "namespaces":
		return validation.ValidateNamespaceName
	case k.Group == "rbac.authorization.k8s.io":
		return func(name string, prefix bool) []string { return content.IsPathSegmentName(name) }
	}
	return validation.NameIsDNSSubdomain
}

// change says how an object is to be changed.
type change struct {
	write
	create bool      // it is created if it is not there
	values int       // in the request's body, at least; 0: it does not come from a request
	uid    types.UID // that it must have; empty: any
	// binding says that the status changes with the rest, as a binding does it.
	binding bool
	// of returns what replaces an object, or a new one where old is nil. It leaves
	// old as it is, and is called again when the object has changed meanwhile.
	of func(old runtime.Object) (runtime.Object, error)
}

// changed is what came of a change.
type changed struct {
	result
	created bool
}

// change changes an object.
func (c *Cluster) change(ch change) (changed, error) {
	t := c.table(ch.kind)
	for {
		current := t.Get(ch.key())
		if current == nil {
			r, err := c.createByChange(ch)
			return changed{r, true}, err
		}
		old, err := ch.kind.Decode(current.Raw)
		if err != nil {
			return changed{}, err
		}
		if ch.applied || len(kind.Meta(old).GetManagedFields()) > 0 {
			if err := codec.BoundMerge(ch.kind, ch.values, current.Raw); err != nil {
				return changed{}, err
			}
		}
		next, err := c.next(ch, old)
		if err != nil {
			return changed{}, err
		}
		r, err := c.replace(ch.write, current, old, next)
		if !errors.Is(err, store.ErrChanged) {
			return changed{result: r}, err
		}
		if c.late(ch.write) {
			return changed{}, errTimeout()
		}
	}
}

// createByChange creates what a change finds missing.
func (c *Cluster) createByChange(ch change) (result, error) {
	if !ch.create {
		return result{}, apierrors.NewNotFound(ch.kind.Resource(), ch.name)
	}
	if ch.applied {
		if err := codec.BoundMerge(ch.kind, ch.values, nil); err != nil {
			return result{}, err
		}
	}
	o, err := ch.of(nil)
	if err != nil {
		return result{}, err
	}
	if ch.uid != "" {
		return result{}, preconditionFailed(ch.target, ch.uid, "")
	}
	given := kind.Meta(o).GetResourceVersion()
	if err := checkVersion(given); err != nil {
		return result{}, err
	}
	kind.Meta(o).SetResourceVersion("")
	r, err := c.create(ch.write, o)
	if ch.dryRun && err == nil {
		kind.Meta(r.typed).SetResourceVersion(given) // no version is made
	}
	return r, err
}

func preconditionFailed(t target, want, is types.UID) error {
	return apierrors.NewConflict(t.kind.Resource(), t.name, fmt.Errorf("StorageError: invalid object, Code: 4, Key: /registry/%s/%s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %v, UID in object meta: %v", t.kind.Table(), t.key(), want, is))
}

// next returns what replaces an object, with all that an API server does to it.
func (c *Cluster) next(ch change, old runtime.Object) (runtime.Object, error) {
	was := kind.Meta(old)
	if ch.uid != "" && ch.uid != was.GetUID() {
		return nil, preconditionFailed(ch.target, ch.uid, was.GetUID())
	}
	next, err := ch.of(old)
	if err != nil {
		return nil, err
	}
	m := kind.Meta(next)
	if err := sameName(ch.name, m); err != nil {
		return nil, err
	}
	if err := checkVersion(m.GetResourceVersion()); err != nil {
		return nil, err
	}
	switch v := m.GetResourceVersion(); {
	case v != "" && v != "0" && v != was.GetResourceVersion():
		return nil, apierrors.NewConflict(ch.kind.Resource(), ch.name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	case (v == "" || v == "0") && ch.kind.NeedVersion:
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: ch.kind.Group, Kind: ch.kind.Plural}, ch.name,
			field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
	}
	m.SetResourceVersion(was.GetResourceVersion())
	if err := place(ch.target, m); err != nil {
		return nil, err
	}
	m.SetGeneration(was.GetGeneration())
	if !ch.binding {
		prepareUpdate(ch.kind, ch.sub, next, old)
	}
	keepSystem(m, was)
	if !ch.applied && len(was.GetManagedFields()) > 0 {
		if next, err = c.server.apply.Update(ch.kind, ch.sub, old, next, ch.manager); err != nil {
			return nil, err
		}
	}
	if errs := check(ch.kind, next, old); len(errs) > 0 {
		return nil, codec.InvalidError(ch.kind.GVK().GroupKind(), ch.name, errs)
	}
	return next, nil
}

// sameName refuses what has another name than its request, or none.
func sameName(name string, m metav1.Object) error {
	switch m.GetName() {
	case name:
		return nil
	case "":
		return apierrors.NewBadRequest("the name of the object (" + name + " based on URL) was undeterminable: name must be provided")
	}
	return apierrors.NewBadRequest("the name of the object (" + m.GetName() + ") does not match the name on the URL (" + name + ")")
}

// sameNamespace refuses what has another namespace than its request.
func sameNamespace(namespace string, m metav1.Object) error {
	if own := m.GetNamespace(); own != "" && own != namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// checkVersion says that a version of an object is none: an API server answers with
// the plain error, too.
func checkVersion(version string) error {
	if version == "" {
		return nil
	}
	_, err := strconv.ParseUint(version, 10, 64)
	return err
}

// keepSystem keeps what an update cannot change and does not have to know.
func keepSystem(m, was metav1.Object) {
	if m.GetUID() == "" {
		m.SetUID(was.GetUID())
	}
	m.SetCreationTimestamp(was.GetCreationTimestamp())
	if was.GetDeletionTimestamp() != nil {
		m.SetDeletionTimestamp(was.GetDeletionTimestamp())
	}
	if was.GetDeletionGracePeriodSeconds() != nil && m.GetDeletionGracePeriodSeconds() == nil {
		m.SetDeletionGracePeriodSeconds(was.GetDeletionGracePeriodSeconds())
	}
}

// replace stores an object in place of the current one, unless they are the same,
// or removes it when it was waiting for that only.
func (c *Cluster) replace(w write, current *store.Object, old, next runtime.Object) (result, error) {
	t := c.table(w.kind)
	if ended(w.kind, old, next) {
		if w.dryRun {
			return result{kind: w.kind, typed: next}, nil
		}
		_, err := t.Remove(current, encoder(w.kind, next))
		if err != nil {
			return result{}, err
		}
		c.removed(w.kind, next)
		kind.Meta(next).SetResourceVersion(version(current.Version)) // as it was last seen
		return result{kind: w.kind, typed: next}, nil
	}
	raw, err := w.kind.Encode(next)
	if err != nil {
		return result{}, err
	}
	if bytes.Equal(raw, current.Raw) {
		return result{w.kind, current, next}, nil
	}
	if w.dryRun {
		return result{kind: w.kind, typed: next}, nil
	}
	stored, err := t.Put(current.Key, current, encoder(w.kind, next))
	if err != nil {
		return result{}, err
	}
	c.wrote(w.kind, next)
	return result{w.kind, stored, next}, nil
}

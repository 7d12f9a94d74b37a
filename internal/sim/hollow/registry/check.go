package registry

import (
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
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
)

// validateObject returns what is not valid in an object. old is what the object replaces; nil
// for a new one.
func validateObject(k *kind.Kind, o, old runtime.Object) field.ErrorList {
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

// nameRule returns the rule for the names of new objects.
func nameRule(k *kind.Kind) validation.ValidateNameFunc {
	switch {
	case k.Table() == "namespaces":
		return validation.ValidateNamespaceName
	case k.Group == "rbac.authorization.k8s.io":
		return func(name string, prefix bool) []string { return content.IsPathSegmentName(name) }
	}
	return validation.NameIsDNSSubdomain
}

// setPlace gives an object the namespace and the name of its request, and refuses an
// object that has others.
func setPlace(t Target, m metav1.Object) error {
	if err := CheckNamespace(t.Namespace, m); err != nil {
		return err
	}
	m.SetNamespace(t.Namespace)
	if t.Name != "" && m.GetName() == "" {
		m.SetName(t.Name)
	}
	if t.Name != "" && m.GetName() != t.Name {
		return apierrors.NewBadRequest("the name of the object (" + m.GetName() + ") does not match the name on the URL (" + t.Name + ")")
	}
	return nil
}

// CheckName refuses an object that has another name than its request, or none.
func CheckName(name string, m metav1.Object) error {
	switch m.GetName() {
	case name:
		return nil
	case "":
		return apierrors.NewBadRequest("the name of the object (" + name + " based on URL) was undeterminable: name must be provided")
	}
	return apierrors.NewBadRequest("the name of the object (" + m.GetName() + ") does not match the name on the URL (" + name + ")")
}

// CheckNamespace refuses an object that has another namespace than its request.
func CheckNamespace(namespace string, m metav1.Object) error {
	if own := m.GetNamespace(); own != "" && own != namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// checkVersion refuses a version that is no number. An API server answers with the plain
// error, too.
func checkVersion(version string) error {
	if version == "" {
		return nil
	}
	_, err := strconv.ParseUint(version, 10, 64)
	return err
}

// keepSystemFields keeps the fields that an update cannot change and may leave out.
func keepSystemFields(m, was metav1.Object) {
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

// uidConflict is the error for an object that has another uid than the request says.
func uidConflict(t Target, want, is types.UID) error {
	return apierrors.NewConflict(t.Kind.Resource(), t.Name, fmt.Errorf("StorageError: invalid object, Code: 4, Key: /registry/%s/%s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %v, UID in object meta: %v", t.Kind.Table(), t.Key(), want, is))
}

// namespaceNotFound is the error for an object in a namespace that does not exist.
func namespaceNotFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
}

package registry

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// maxGenerated is how many names generateName tries until one is free.
const maxGenerated = 8

// The length of the longest generated name, and of its suffix.
const (
	generatedLength = 63
	suffixLength    = 5
)

// Create stores a new object, which it changes.
func (r *Registry) Create(w Write, o runtime.Object) (Result, error) {
	m := kind.Meta(o)
	if err := setPlace(w.Target, m); err != nil {
		return Result{}, err
	}
	if err := r.checkNamespace(w.Kind, m.GetNamespace()); err != nil {
		return Result{}, err
	}
	if v := m.GetResourceVersion(); v != "" && v != "0" {
		return Result{}, errors.New("resourceVersion should not be set on objects to be created")
	}
	generated := m.GetName() == "" && m.GetGenerateName() != ""
	for try := 1; ; try++ {
		if generated {
			base := m.GetGenerateName()
			m.SetName(base[:min(len(base), generatedLength-suffixLength)] + r.options.NewSuffix())
		}
		out, err := r.createNamed(w, o)
		if !generated || try == maxGenerated || !apierrors.IsAlreadyExists(err) {
			return out, err
		}
	}
}

func (r *Registry) createNamed(w Write, o runtime.Object) (Result, error) {
	m := kind.Meta(o)
	r.initMetadata(m, w.Now)
	prepareCreate(w.Kind, o)
	if errs := validateObject(w.Kind, o, nil); len(errs) > 0 {
		return Result{}, codec.InvalidError(w.Kind.GVK().GroupKind(), m.GetName(), errs)
	}
	key, t := kind.Key(m.GetNamespace(), m.GetName()), r.Table(w.Kind)
	taken := apierrors.NewAlreadyExists(w.Kind.Resource(), m.GetName())
	if w.DryRun {
		if t.Get(key) != nil {
			return Result{}, taken
		}
		return Result{Kind: w.Kind, Typed: o}, nil
	}
	stored, err := t.Put(key, nil, Encoder(w.Kind, o))
	if errors.Is(err, store.ErrChanged) {
		if o := t.Get(key); o != nil && w.Kind.Metadata(o.Raw).DeletionTimestamp != nil {
			taken.ErrStatus.Message = "object is being deleted: " + taken.ErrStatus.Message
		}
		return Result{}, taken
	}
	if err != nil {
		return Result{}, err
	}
	return Result{Kind: w.Kind, Stored: stored, Typed: o, Tasks: r.afterWrite(w.Kind, o, w.Now)}, nil
}

// initMetadata sets what the server decides about a new object.
func (r *Registry) initMetadata(m metav1.Object, now time.Time) {
	m.SetCreationTimestamp(TimeOf(now))
	m.SetDeletionTimestamp(nil)
	m.SetDeletionGracePeriodSeconds(nil)
	m.SetSelfLink("")
	m.SetResourceVersion("")
	m.SetUID(r.options.NewUID())
}

// checkNamespace refuses to create in a namespace that does not exist or is terminating.
func (r *Registry) checkNamespace(k *kind.Kind, namespace string) error {
	if !k.Namespaced {
		return nil
	}
	o := r.store.Table("namespaces").Get(namespace)
	if o == nil {
		return namespaceNotFound(namespace)
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

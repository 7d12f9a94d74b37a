package registry

import (
	"bytes"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// Change describes how an object is to be changed.
type Change struct {
	Write
	Create bool      // the object is created if it does not exist
	Values int       // of the request's body, at least; 0: the change does not come from a request
	UID    types.UID // that the object must have; empty: any
	// Binding says that the status changes together with the rest, as by a binding.
	Binding bool
	// Replace returns what replaces an object, or a new object where old is nil. It must
	// leave old as it is: it is called again when the object has changed meanwhile.
	Replace func(old runtime.Object, now time.Time) (runtime.Object, error)
}

// Change changes an object. store.ErrChanged says that another write came between: call
// Change again.
func (r *Registry) Change(ch Change) (Result, error) {
	current := r.Table(ch.Kind).Get(ch.Key())
	if current == nil {
		out, err := r.createByChange(ch)
		out.Created = true
		return out, err
	}
	old, err := ch.Kind.Decode(current.Raw)
	if err != nil {
		return Result{}, err
	}
	if ch.Applied || len(kind.Meta(old).GetManagedFields()) > 0 {
		if err := codec.BoundMerge(ch.Kind, ch.Values, current.Raw); err != nil {
			return Result{}, err
		}
	}
	next, err := r.prepareNext(ch, old)
	if err != nil {
		return Result{}, err
	}
	return r.storeReplacement(ch.Write, current, old, next)
}

// changeAlways changes an object and calls Change again until no other write comes
// between. Errors mean that the object has gone, or is another one by now: there is
// nothing left to do for a task.
func (r *Registry) changeAlways(ch Change) []Task {
	for {
		out, err := r.Change(ch)
		if !errors.Is(err, store.ErrChanged) {
			return out.Tasks
		}
	}
}

// createByChange creates an object that a change did not find.
func (r *Registry) createByChange(ch Change) (Result, error) {
	if !ch.Create {
		return Result{}, apierrors.NewNotFound(ch.Kind.Resource(), ch.Name)
	}
	if ch.Applied {
		if err := codec.BoundMerge(ch.Kind, ch.Values, nil); err != nil {
			return Result{}, err
		}
	}
	o, err := ch.Replace(nil, ch.Now)
	if err != nil {
		return Result{}, err
	}
	if ch.UID != "" {
		return Result{}, uidConflict(ch.Target, ch.UID, "")
	}
	given := kind.Meta(o).GetResourceVersion()
	if err := checkVersion(given); err != nil {
		return Result{}, err
	}
	kind.Meta(o).SetResourceVersion("")
	out, err := r.Create(ch.Write, o)
	if ch.DryRun && err == nil {
		kind.Meta(out.Typed).SetResourceVersion(given) // no version is made
	}
	return out, err
}

// prepareNext returns what replaces an object: what the change asks for, with everything that
// an API server keeps, replicas or refuses.
func (r *Registry) prepareNext(ch Change, old runtime.Object) (runtime.Object, error) {
	was := kind.Meta(old)
	if ch.UID != "" && ch.UID != was.GetUID() {
		return nil, uidConflict(ch.Target, ch.UID, was.GetUID())
	}
	next, err := ch.Replace(old, ch.Now)
	if err != nil {
		return nil, err
	}
	m := kind.Meta(next)
	if err := CheckName(ch.Name, m); err != nil {
		return nil, err
	}
	if err := checkVersion(m.GetResourceVersion()); err != nil {
		return nil, err
	}
	switch v := m.GetResourceVersion(); {
	case v != "" && v != "0" && v != was.GetResourceVersion():
		return nil, apierrors.NewConflict(ch.Kind.Resource(), ch.Name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	case (v == "" || v == "0") && ch.Kind.NeedVersion:
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: ch.Kind.Group, Kind: ch.Kind.Plural}, ch.Name,
			field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
	}
	m.SetResourceVersion(was.GetResourceVersion())
	if err := setPlace(ch.Target, m); err != nil {
		return nil, err
	}
	m.SetGeneration(was.GetGeneration())
	if !ch.Binding {
		prepareUpdate(ch.Kind, ch.Sub, next, old)
	}
	keepSystemFields(m, was)
	if !ch.Applied && len(was.GetManagedFields()) > 0 {
		if next, err = r.options.Shared.managers.Update(ch.Kind, ch.Sub, old, next, ch.Manager); err != nil {
			return nil, err
		}
	}
	if errs := validateObject(ch.Kind, next, old); len(errs) > 0 {
		return nil, codec.InvalidError(ch.Kind.GVK().GroupKind(), ch.Name, errs)
	}
	return next, nil
}

// storeReplacement stores an object in place of the current one, unless they are equal. An object
// that was being deleted, and has nothing left to wait for, is removed.
func (r *Registry) storeReplacement(w Write, current *store.Object, old, next runtime.Object) (Result, error) {
	if isFinalized(old, next) {
		if w.DryRun {
			return Result{Kind: w.Kind, Typed: next}, nil
		}
		_, err := r.Table(w.Kind).Remove(current, Encoder(w.Kind, next))
		if err != nil {
			return Result{}, err
		}
		tasks := r.afterRemoval(w.Kind, next)
		kind.Meta(next).SetResourceVersion(FormatVersion(current.Version)) // as it was last seen
		return Result{Kind: w.Kind, Typed: next, Tasks: tasks}, nil
	}
	raw, err := w.Kind.Encode(next)
	if err != nil {
		return Result{}, err
	}
	if bytes.Equal(raw, current.Raw) {
		return Result{Kind: w.Kind, Stored: current, Typed: next}, nil
	}
	if w.DryRun {
		return Result{Kind: w.Kind, Typed: next}, nil
	}
	stored, err := r.Table(w.Kind).Put(current.Key, current, Encoder(w.Kind, next))
	if err != nil {
		return Result{}, err
	}
	return Result{Kind: w.Kind, Stored: stored, Typed: next, Tasks: r.afterWrite(w.Kind, next, w.Now)}, nil
}

// Package install brings what a reference plane needs to the API server: its
// definitions, its registrations. In a cluster where others have made objects of
// the same names, such as one with the real thing in it, it changes nothing.
package install

import (
	"context"
	"errors"
	"fmt"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/scenario"
)

// ErrForeign says that an object is there already that the plane has not made.
var ErrForeign = errors.New("it exists already and is not this plane's, such as that of the real thing: it is left alone")

// Run returns the id of the run that the process is a part of in a cluster that is
// not the run's own; else it is empty.
func Run() string { return os.Getenv(scenario.VarRun) }

// Mark puts the run's stamp on an object that is about to be made.
func Mark(o metav1.Object) {
	if run := Run(); run != "" {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[object.RunLabel] = run
		o.SetLabels(labels)
	}
}

// Owns says whether an object is the plane's: it carries the run's stamp, or, where
// there is none, some of its fields are managed by it.
func Owns(there metav1.Object, manager string) bool {
	if run := Run(); run != "" {
		return there.GetLabels()[object.RunLabel] == run
	}
	for _, f := range there.GetManagedFields() {
		if f.Manager == manager {
			return true
		}
	}
	return false
}

// Apply applies an object (server-side apply; conflicts are won), unless it is
// ErrForeign. It can be repeated, and by several processes at once.
func Apply(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured, manager string) error {
	there, err := r.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err == nil && !Owns(there, manager) {
		err = ErrForeign
	}
	if err == nil || apierrors.IsNotFound(err) {
		Mark(o)
		_, err = r.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: true})
	}
	if err != nil {
		return fmt.Errorf("install %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

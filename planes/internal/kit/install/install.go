// Package install brings what a reference plane needs to the API server: its
// definitions, its registrations. In a cluster where others have made objects of
// the same names, such as one with the real thing in it, it changes nothing.
package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/scenario"
)

// ErrForeign says that an object is there already that the plane has not made.
var ErrForeign = errors.New("it exists already and is not this plane's, such as that of the real thing: it is left alone")

// Run returns the id of the run that the process is a part of in a cluster that is
// not the run's own; else it is empty. What the process makes there is marked by package door.
func Run() string { return os.Getenv(scenario.VarRun) }

// Stamp is what package door puts on what the process makes there.
func Stamp() object.Stamp { return object.Stamp{Run: Run(), Fleet: os.Getenv(scenario.VarFleet)} }

// Own returns a label selector of the objects that another selects, everything if it is
// empty, and that are the run's. Without a cluster of others there are no objects of others,
// so the other selector is returned as it is.
func Own(selector string) string {
	run := Run()
	if run == "" {
		return selector
	}
	own := object.RunLabel + "=" + run
	if selector == "" {
		return own
	}
	return selector + "," + own
}

// Owns says whether an object is the plane's: it carries the run's stamp, or, where
// there is none, some of its fields are managed by it.
func Owns(there metav1.Object, manager string) bool {
	if run := Run(); run != "" {
		return there.GetLabels()[object.RunLabel] == run
	}
	return slices.ContainsFunc(there.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Manager == manager })
}

// Definitions reads the CustomResourceDefinitions in the files of the folder crds.
func Definitions(files fs.FS) (out []*unstructured.Unstructured, err error) {
	names, err := fs.Glob(files, "crds/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &o.Object); err != nil {
			return nil, fmt.Errorf("definition %s: %w", name, err)
		}
		out = append(out, o)
	}
	return out, nil
}

// Define applies definitions, under the rules of Apply, and waits until the server serves
// what they define.
func Define(ctx context.Context, c dynamic.Interface, definitions []*unstructured.Unstructured, manager string) error {
	crds := c.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, o := range definitions {
		if err := Apply(ctx, crds, o, manager); err != nil {
			return err
		}
	}
	for _, o := range definitions {
		plural, group, _ := strings.Cut(o.GetName(), ".")
		versions, _, err := unstructured.NestedSlice(o.Object, "spec", "versions")
		if err != nil {
			return fmt.Errorf("definition %s: %w", o.GetName(), err)
		}
		for _, v := range versions {
			version := fmt.Sprint(v.(map[string]any)["name"])
			if err := Served(ctx, c, schema.GroupVersion{Group: group, Version: version}, plural); err != nil {
				return err
			}
		}
	}
	return nil
}

// DefineAll is Define of the files of the folder crds, and returns the client that it did
// so with.
func DefineAll(ctx context.Context, config *rest.Config, files fs.FS, manager string) (dynamic.Interface, error) {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("install definitions: %w", err)
	}
	all, err := Definitions(files)
	if err != nil {
		return nil, err
	}
	return c, Define(ctx, c, all, manager)
}

// Namespace makes a namespace where there is none. Whose it is does not matter: what is
// in it has owners of its own.
func Namespace(ctx context.Context, c dynamic.Interface, name, manager string) error {
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	_, err := c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(ctx, ns, metav1.CreateOptions{FieldManager: manager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("install namespace %s: %w", name, err)
	}
	return nil
}

// Served waits until the server serves resources: a list of each succeeds.
func Served(ctx context.Context, c dynamic.Interface, group schema.GroupVersion, resources ...string) error {
	for _, name := range resources {
		for {
			_, err := c.Resource(group.WithResource(name)).List(ctx, metav1.ListOptions{Limit: 1})
			if err == nil {
				break
			}
			if clock.Sleep(ctx, 100*time.Millisecond) != nil {
				return fmt.Errorf("wait until %s are served: %w", name, err)
			}
		}
	}
	return nil
}

// Apply applies an object (server-side apply; conflicts are won), unless it is
// ErrForeign. It can be repeated, and by several processes at once.
func Apply(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured, manager string) error {
	there, err := r.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err == nil && !Owns(there, manager) {
		err = ErrForeign
	}
	if err == nil || apierrors.IsNotFound(err) {
		_, err = r.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: true})
	}
	if err != nil {
		return fmt.Errorf("install %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

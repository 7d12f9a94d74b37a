package api

import (
	"context"
	"embed"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
)

//go:embed crds/*.yaml
var schemas embed.FS

// manager is the field manager of what is installed.
const manager = "windtunnel-app"

// CustomResources returns the CustomResourceDefinitions of the kinds here. They
// are far shorter than KubeVela's, and keep what they do not name.
func CustomResources() ([]*unstructured.Unstructured, error) { return install.Definitions(schemas) }

// Install brings the kinds to the server and waits until it serves them, then the
// system namespace with definitions. It can be repeated, and by several processes
// at once.
func Install(ctx context.Context, config *rest.Config, definitions []*Definition) error {
	c, err := install.DefineAll(ctx, config, schemas, manager)
	if err != nil {
		return err
	}
	if err := MakeNamespace(ctx, c); err != nil {
		return err
	}
	for _, d := range definitions {
		raw, err := yaml.Marshal(d)
		if err != nil {
			return fmt.Errorf("install %s %s: %w", d.Kind, d.Name, err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &o.Object); err != nil {
			return fmt.Errorf("install %s %s: %w", d.Kind, d.Name, err)
		}
		unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
		if err := install.Apply(ctx, c.Resource(GroupVersion().WithResource(Resource(d.Kind))).Namespace(d.Namespace), o, manager); err != nil {
			return err
		}
	}
	return nil
}

// MakeNamespace makes the system's namespace where there is none.
func MakeNamespace(ctx context.Context, c dynamic.Interface) error {
	return install.Namespace(ctx, c, SystemNamespace, manager)
}

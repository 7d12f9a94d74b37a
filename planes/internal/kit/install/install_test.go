package install_test

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/windtunnel/windtunnel/internal/api/door"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
	"github.com/windtunnel/windtunnel/scenario"
)

const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x.kubevirt.io"

// TestApply installs a definition where one stands already.
func TestApply(t *testing.T) {
	for name, tt := range map[string]struct {
		run, label, manager string
		foreign             bool
	}{
		"the real thing, own plane":              {manager: "virt-operator", foreign: true},
		"the real thing, a cluster of others":    {run: "r1", manager: "virt-operator", foreign: true},
		"made before, own plane":                 {manager: "us"},
		"made before, in this run":               {run: "r1", manager: "us", label: "r1"},
		"made before, in a run that left it":     {run: "r1", manager: "us", label: "r0", foreign: true},
		"by an earlier version, without a stamp": {run: "r1", manager: "us", foreign: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(scenario.VarRun, tt.run)
			s := apitest.New(t, apitest.Resource{Version: "apiextensions.k8s.io/v1", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition"})
			there := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: tt.manager, APIVersion: "apiextensions.k8s.io/v1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:group":{}}}`)}}}}
			if tt.label != "" {
				there.Labels = map[string]string{object.RunLabel: tt.label}
			}
			s.Add(path, there)
			c := repotest.Must(dynamic.NewForConfig(door.Guard(s.Endpoint().Config("test"), install.Stamp())))(t)
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
				"metadata": map[string]any{"name": "x.kubevirt.io"}, "spec": ourSpec()}}
			r := c.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
			if err := install.Apply(t.Context(), r, o, "us"); errors.Is(err, install.ErrForeign) != tt.foreign || err != nil && !tt.foreign {
				t.Errorf("%v, foreign %v", err, tt.foreign)
			}
			got := s.Get(path)
			if kind, _, _ := unstructured.NestedString(got.Object, "spec", "names", "kind"); (kind == "Ours") == tt.foreign {
				t.Errorf("there is %v", got.Object)
			}
			if stamped := got.GetLabels()[object.RunLabel]; !tt.foreign && stamped != tt.run {
				t.Errorf("its stamp is %q", stamped)
			}
		})
	}
}

// ourSpec is what a plane wants of the definition.
func ourSpec() map[string]any {
	return map[string]any{
		"group": "kubevirt.io", "scope": "Cluster", "names": map[string]any{"plural": "x", "kind": "Ours"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
	}
}

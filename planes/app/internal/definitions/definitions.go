// Package definitions holds the definitions that the app plane brings along:
// components, traits, steps and policies by KubeVela's names, with parameters as
// KubeVela has them as far as its published tests turn on them, and of the same
// sizes, which is what revisions are made of. Their texts are this project's own.
//
// A cluster with the real KubeVela has its own.
package definitions

import (
	"embed"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

//go:embed cue/*.cue
var texts embed.FS

// All returns the definitions, in the namespace of the system.
func All() ([]*api.Definition, error) {
	var out []*api.Definition
	for _, d := range []struct {
		kind, name string
		spec       api.DefinitionSpec
		health     bool
	}{
		{api.KindComponent, "webservice", workloadSpec("apps/v1", "Deployment"), true},
		{api.KindComponent, "worker", workloadSpec("apps/v1", "Deployment"), true},
		{api.KindComponent, "k8s-objects", api.DefinitionSpec{Workload: &api.Workload{Type: "autodetects.k8s.io"}}, false},
		{api.KindTrait, "scaler", api.DefinitionSpec{AppliesToWorkloads: []string{"deployments.apps", "statefulsets.apps"}}, false},
		{api.KindTrait, "sidecar", api.DefinitionSpec{AppliesToWorkloads: []string{"deployments.apps", "statefulsets.apps"}}, false},
		{api.KindTrait, "ingress", api.DefinitionSpec{AppliesToWorkloads: []string{"deployments.apps", "statefulsets.apps"}, Stage: StagePostDispatch}, false},
		{api.KindStep, "apply-component", api.DefinitionSpec{}, false},
		{api.KindStep, "deploy", api.DefinitionSpec{}, false},
		{api.KindStep, "suspend", api.DefinitionSpec{}, false},
		{api.KindStep, "step-group", api.DefinitionSpec{}, false},
		{api.KindPolicy, "apply-once", api.DefinitionSpec{}, false},
		{api.KindPolicy, "topology", api.DefinitionSpec{}, false},
		{api.KindPolicy, "override", api.DefinitionSpec{}, false},
	} {
		text, err := texts.ReadFile("cue/" + d.name + ".cue")
		if err != nil {
			return nil, fmt.Errorf("definition %s: %w", d.name, err)
		}
		d.spec.Schematic = &api.Schematic{CUE: &api.CUE{Template: string(text)}}
		if d.health {
			if d.spec.Status, err = deploymentStatus(); err != nil {
				return nil, err
			}
		}
		out = append(out, &api.Definition{
			TypeMeta: api.TypeOf(d.kind), ObjectMeta: metav1.ObjectMeta{Name: d.name, Namespace: api.SystemNamespace}, Spec: d.spec,
		})
	}
	return out, nil
}

// StagePostDispatch is that of traits whose objects KubeVela makes after their component
// is healthy; here they come with it.
const StagePostDispatch = "PostDispatch"

func workloadSpec(apiVersion, kind string) api.DefinitionSpec {
	return api.DefinitionSpec{Workload: &api.Workload{Definition: &api.WorkloadDefinition{APIVersion: apiVersion, Kind: kind}}}
}

func deploymentStatus() (*api.DefinitionStatus, error) {
	health, err := texts.ReadFile("cue/deployment-health.cue")
	if err != nil {
		return nil, err
	}
	message, err := texts.ReadFile("cue/deployment-status.cue")
	if err != nil {
		return nil, err
	}
	return &api.DefinitionStatus{HealthPolicy: string(health), CustomStatus: string(message)}, nil
}

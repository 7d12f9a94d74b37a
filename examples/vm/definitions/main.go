//go:build ignore

// Command definitions prints the CustomResourceDefinitions of a release of KubeVirt, which that
// release makes in code and has in no file:
//
//	windtunnel subject build kubevirt.io/kubevirt@v1.6.0 --main examples/vm/definitions/main.go
package main

import (
	"fmt"
	"os"

	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"sigs.k8s.io/yaml"
)

func main() {
	for _, define := range []func() (*extensions.CustomResourceDefinition, error){
		components.NewVirtualMachineInstanceCrd,
		components.NewVirtualMachineCrd,
		components.NewPresetCrd,
		components.NewReplicaSetCrd,
		components.NewVirtualMachineInstanceMigrationCrd,
		components.NewKubeVirtCrd,
		components.NewVirtualMachinePoolCrd,
		components.NewVirtualMachineSnapshotCrd,
		components.NewVirtualMachineSnapshotContentCrd,
		components.NewVirtualMachineRestoreCrd,
		components.NewVirtualMachineExportCrd,
		components.NewVirtualMachineInstancetypeCrd,
		components.NewVirtualMachineClusterInstancetypeCrd,
		components.NewVirtualMachinePreferenceCrd,
		components.NewVirtualMachineClusterPreferenceCrd,
		components.NewMigrationPolicyCrd,
		components.NewVirtualMachineCloneCrd,
	} {
		definition, err := define()
		var text []byte
		if err == nil {
			text, err = yaml.Marshal(map[string]any{
				"apiVersion": definition.APIVersion, "kind": definition.Kind,
				"metadata": map[string]any{"name": definition.Name}, "spec": definition.Spec,
			})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Printf("---\n%s", text)
	}
}

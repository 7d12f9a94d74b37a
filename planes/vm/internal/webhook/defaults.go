package webhook

import (
	"crypto/sha256"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// The layout of a guest's PCI bus, which an instance keeps for its life.
const (
	topologyAnnotation = "kubevirt.io/pci-topology-version"
	topology           = "v3"
)

// runtimeUser is who runs qemu in a launcher pod.
const runtimeUser = 107

// object is a new object of which the first failure to fill it in is kept.
type object struct {
	fields map[string]any
	failed error
}

func readObject(raw []byte) *object {
	o := &object{fields: map[string]any{}}
	o.failed = json.Unmarshal(raw, &o.fields)
	return o
}

// setDefault sets a field where there is none.
func (o *object) setDefault(value any, path ...string) {
	_, found, err := unstructured.NestedFieldNoCopy(o.fields, path...)
	if err == nil && !found {
		err = unstructured.SetNestedField(o.fields, value, path...)
	}
	if o.failed == nil {
		o.failed = err
	}
}

// at returns what is at a path; nil if there is nothing.
func (o *object) at(path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(o.fields, path...) // setDefault finds what is no object
	return value
}

// setInstanceDefaults fills in an instance and its status as KubeVirt does at HEAD.
func (o *object) setInstanceDefaults() {
	o.setDefault(topology, "metadata", "annotations", topologyAnnotation)
	o.setDefault("amd64", "spec", "architecture")
	o.setDefault("q35", "spec", "domain", "machine", "type")
	o.setDefault(true, "spec", "domain", "features", "acpi", "enabled")
	o.setDefault("None", "spec", "evictionStrategy")
	for name, value := range map[string]any{"cores": int64(1), "sockets": int64(1), "threads": int64(1), "model": "host-model", "maxSockets": int64(4)} {
		o.setDefault(value, "spec", "domain", "cpu", name)
	}
	for _, name := range []string{"cores", "sockets", "threads"} {
		o.setDefault(o.at("spec", "domain", "cpu", name), "status", "currentCPUTopology", name)
	}
	if memory := o.at("spec", "domain", "resources", "requests", "memory"); memory != nil {
		o.setDefault(memory, "spec", "domain", "memory", "guest")
	}
	if memory := o.at("spec", "domain", "memory", "guest"); memory != nil {
		for _, name := range []string{"guestAtBoot", "guestCurrent", "guestRequested"} {
			o.setDefault(memory, "status", "memory", name)
		}
	}
	o.setDefault(int64(runtimeUser), "status", "runtimeUser")
	volumes, _ := o.at("spec", "volumes").([]any)
	for _, v := range volumes {
		fields, _ := v.(map[string]any)
		if volume := (&object{fields: fields}); volume.at("containerDisk") != nil {
			volume.setDefault("IfNotPresent", "containerDisk", "imagePullPolicy")
		}
	}
}

// setMachineDefaults fills in what a machine's instances are made of. The serial number follows
// from the machine's key, so that one seed makes the same bytes.
func (o *object) setMachineDefaults(key string) {
	sum := sha256.Sum256([]byte(key))
	o.setDefault(topology, "spec", "template", "metadata", "annotations", topologyAnnotation)
	o.setDefault("amd64", "spec", "template", "spec", "architecture")
	o.setDefault("q35", "spec", "template", "spec", "domain", "machine", "type")
	o.setDefault(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]), "spec", "template", "spec", "domain", "firmware", "serial")
}

// patch returns a patch that sets fields of the object at paths.
func (o *object) patch(paths ...[]string) (*api.Patch, error) {
	p := &api.Patch{}
	for _, path := range paths {
		pointer := ""
		for _, name := range path {
			pointer += "/" + name
		}
		p.Set(pointer, o.at(path...))
	}
	return p, o.failed
}

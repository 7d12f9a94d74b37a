package api

import (
	"context"
	"embed"
	"encoding/json"
	"io/fs"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// The kinds of devices.kubeedge.io/v1beta1. Statuses are objects of their own, without
// a subresource.
const (
	GroupDevices     = "devices.kubeedge.io"
	VersionDevices   = "v1beta1"
	ResourceDevices  = "devices"
	ResourceModels   = "devicemodels"
	ResourceStatuses = "devicestatuses"
)

// Device is a thing at an edge.
type Device struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              DeviceSpec `json:"spec,omitempty"`
}

// DeviceSpec says of which model it is, where, and how it is spoken to.
type DeviceSpec struct {
	Model      ModelRef         `json:"deviceModelRef,omitempty"`
	NodeName   string           `json:"nodeName,omitempty"`
	Properties []DeviceProperty `json:"properties,omitempty"`
	Protocol   json.RawMessage  `json:"protocol,omitempty"`
	Methods    json.RawMessage  `json:"methods,omitempty"`
}

// ModelRef names a model in the device's namespace.
type ModelRef struct {
	Name string `json:"name,omitempty"`
}

// DeviceProperty is something that a device can be asked for or told.
type DeviceProperty struct {
	Name     string          `json:"name"`
	Desired  *TwinValue      `json:"desired,omitempty"`
	Visitors json.RawMessage `json:"visitors,omitempty"`
}

// DeviceModel is what devices have in common.
type DeviceModel struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              json.RawMessage `json:"spec,omitempty"`
}

// DeviceStatus is what a device reports. It has the device's name and belongs to it.
type DeviceStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            Twins `json:"status,omitempty"`
}

// Twins are the properties of a device, as they should be and as they are.
type Twins struct {
	Twins []Twin `json:"twins,omitempty"`
	State string `json:"state,omitempty"`
}

// Twin is one property.
type Twin struct {
	PropertyName string     `json:"propertyName"`
	Reported     *TwinValue `json:"reported,omitempty"`
	Desired      *TwinValue `json:"observedDesired,omitempty"`
}

// TwinValue is a property's value.
type TwinValue struct {
	Value    string            `json:"value"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// DeepCopyObject makes a Device a runtime.Object.
func (d *Device) DeepCopyObject() runtime.Object { return resource.CopyOf(d) }

// DeepCopyObject makes a DeviceModel a runtime.Object.
func (m *DeviceModel) DeepCopyObject() runtime.Object { return resource.CopyOf(m) }

// DeepCopyObject makes a DeviceStatus a runtime.Object.
func (s *DeviceStatus) DeepCopyObject() runtime.Object { return resource.CopyOf(s) }

// DevicesVersion returns devices.kubeedge.io/v1beta1.
func DevicesVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupDevices, Version: VersionDevices}
}

func addDevices(s *runtime.Scheme) {
	gv := DevicesVersion()
	resource.Register[Device](s, gv, "Device")
	resource.Register[DeviceModel](s, gv, "DeviceModel")
	resource.Register[DeviceStatus](s, gv, "DeviceStatus")
}

// ByModel is the index of devices by NODE/NAMESPACE/MODEL.
const ByModel = "model"

// ModelAt is what a device is found by in the index ByModel.
func ModelAt(node, namespace, model string) string { return node + "/" + namespace + "/" + model }

// DeviceInformer returns an informer of devices.
func (c *Client) DeviceInformer(indexers cache.Indexers) cache.SharedIndexInformer {
	return resource.New[*Device](c.devices, ResourceDevices).Informer("", 0, indexers)
}

// DeviceIndexers let a cache of devices find these by their node, and by their model there.
func DeviceIndexers() cache.Indexers {
	return cache.Indexers{
		ByNode: func(o any) ([]string, error) {
			if node := o.(*Device).Spec.NodeName; node != "" {
				return []string{node}, nil
			}
			return nil, nil
		},
		ByModel: func(o any) ([]string, error) {
			d := o.(*Device)
			return []string{ModelAt(d.Spec.NodeName, d.Namespace, d.Spec.Model.Name)}, nil
		},
	}
}

// ModelInformer returns an informer of models.
func (c *Client) ModelInformer() cache.SharedIndexInformer {
	return resource.New[*DeviceModel](c.devices, ResourceModels).Informer("", 0, cache.Indexers{})
}

// Statuses returns the calls on what devices report.
func (c *Client) Statuses() resource.Client[*DeviceStatus] {
	return resource.New[*DeviceStatus](c.devices, ResourceStatuses)
}

// CreateDeviceStatus makes the status of a device, which belongs to it.
func (c *Client) CreateDeviceStatus(ctx context.Context, d *Device) error {
	_, err := c.Statuses().Create(ctx, &DeviceStatus{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: d.Name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: DevicesVersion().String(), Kind: "Device", Name: d.Name, UID: d.UID, Controller: new(true),
		}},
	}})
	return err
}

// PatchDeviceStatus writes all twins of a device.
func (c *Client) PatchDeviceStatus(ctx context.Context, d *Device, twins []Twin) error {
	body, err := json.Marshal(map[string]any{"status": Twins{Twins: twins}})
	if err != nil {
		return err
	}
	_, err = c.Statuses().Patch(ctx, d, resource.Patch{Type: types.MergePatchType, Body: body})
	return err
}

//go:embed devices/crds/*.yaml
var deviceDefinitions embed.FS

// InstallDevices brings the definitions of devices to the server and waits until they
// are served. It can be repeated, and by several processes at once.
func InstallDevices(ctx context.Context, config *rest.Config) error {
	files, err := fs.Sub(deviceDefinitions, "devices")
	if err != nil {
		return err
	}
	_, err = install.DefineAll(ctx, config, files, manager)
	return err
}

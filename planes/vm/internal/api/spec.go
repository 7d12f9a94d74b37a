package api

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// InstanceSpec is the specification of an instance. It keeps the bytes that it
// was read from and writes them back, so that fields that nobody here knows
// survive a write of the whole object.
type InstanceSpec struct {
	View
	raw []byte
}

// View is the part of a specification that the plane acts on.
type View struct {
	Domain                        Domain              `json:"domain"`
	NodeSelector                  map[string]string   `json:"nodeSelector,omitempty"`
	Affinity                      *corev1.Affinity    `json:"affinity,omitempty"`
	Tolerations                   []corev1.Toleration `json:"tolerations,omitempty"`
	SchedulerName                 string              `json:"schedulerName,omitempty"`
	PriorityClassName             string              `json:"priorityClassName,omitempty"`
	TerminationGracePeriodSeconds *int64              `json:"terminationGracePeriodSeconds,omitempty"`
	Volumes                       []Volume            `json:"volumes,omitempty"`
	Networks                      []Network           `json:"networks,omitempty"`
}

// Domain is the virtual hardware.
type Domain struct {
	CPU             *CPU       `json:"cpu,omitempty"`
	Memory          *Memory    `json:"memory,omitempty"`
	Resources       Resources  `json:"resources,omitempty"`
	Devices         DeviceList `json:"devices,omitempty"`
	IOThreadsPolicy string     `json:"ioThreadsPolicy,omitempty"`
}

// CPU is the processor; 0 stands for 1 everywhere.
type CPU struct {
	Cores                 uint32 `json:"cores,omitempty"`
	Sockets               uint32 `json:"sockets,omitempty"`
	Threads               uint32 `json:"threads,omitempty"`
	DedicatedCPUPlacement bool   `json:"dedicatedCpuPlacement,omitempty"`
}

// Memory is what the guest has.
type Memory struct {
	Guest *resource.Quantity `json:"guest,omitempty"`
}

// Resources are what the launcher pod asks for.
type Resources struct {
	Requests         corev1.ResourceList `json:"requests,omitempty"`
	Limits           corev1.ResourceList `json:"limits,omitempty"`
	OvercommitMemory bool                `json:"overcommitGuestOverhead,omitempty"`
}

// DeviceList holds the devices that change what the pod needs.
type DeviceList struct {
	AutoattachGraphicsDevice *bool             `json:"autoattachGraphicsDevice,omitempty"`
	Interfaces               []json.RawMessage `json:"interfaces,omitempty"`
	TPM                      json.RawMessage   `json:"tpm,omitempty"`
}

// Volume is a disk; only container disks change the pod.
type Volume struct {
	Name          string `json:"name"`
	ContainerDisk *struct {
		Image string `json:"image"`
	} `json:"containerDisk,omitempty"`
}

// Network is a network; without any the pod's is taken.
type Network struct {
	Name string `json:"name"`
}

// UnmarshalJSON reads what is known and keeps everything.
func (s *InstanceSpec) UnmarshalJSON(b []byte) error {
	s.View = View{}
	if err := json.Unmarshal(b, &s.View); err != nil {
		return fmt.Errorf("read the specification of an instance: %w", err)
	}
	s.raw = append([]byte(nil), b...)
	return nil
}

// MarshalJSON writes what was read; one that was made here, its fields.
func (s InstanceSpec) MarshalJSON() ([]byte, error) {
	if s.raw != nil {
		return s.raw, nil
	}
	return json.Marshal(s.View)
}

// VCPUs returns the number of virtual processors.
func (s *InstanceSpec) VCPUs() int64 {
	c := s.Domain.CPU
	if c == nil {
		return 1
	}
	return max(1, int64(c.Cores)) * max(1, int64(c.Sockets)) * max(1, int64(c.Threads))
}

// GuestMemory returns the guest's memory in bytes: what it says itself, or
// what the pod is asked to reserve.
func (s *InstanceSpec) GuestMemory() int64 {
	if m := s.Domain.Memory; m != nil && m.Guest != nil {
		return m.Guest.Value()
	}
	if q, ok := s.Domain.Resources.Requests[corev1.ResourceMemory]; ok {
		return q.Value()
	}
	q := s.Domain.Resources.Limits[corev1.ResourceMemory]
	return q.Value()
}

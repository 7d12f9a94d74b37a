package message

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodStatus is one of the statuses that an edge as old as v1.11 reports together.
type PodStatus struct {
	UID    types.UID
	Name   string
	Status corev1.PodStatus
}

// MembershipUpdate is the content of a message about which devices are an edge's.
type MembershipUpdate struct {
	EventID   string `json:"event_id"`
	Timestamp int64  `json:"timestamp"` // ms since 1970
	Added     []ID   `json:"added_devices"`
	Removed   []ID   `json:"removed_devices"`
}

// ID names a device to its edge: NAMESPACE/NAME.
type ID struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// TwinUpdate is the content of a device's report, by property.
type TwinUpdate struct {
	Timestamp int64                 `json:"timestamp"`
	Twin      map[string]TwinReport `json:"twin"`
}

// TwinReport is what a property is.
type TwinReport struct {
	Actual   *TwinActual `json:"actual,omitempty"`
	Metadata *TwinKind   `json:"metadata,omitempty"`
}

// TwinActual is its value and when it was read, in ms since 1970.
type TwinActual struct {
	Value    string   `json:"value"`
	Metadata TwinTime `json:"metadata"`
}

// TwinTime is when a value was read.
type TwinTime struct {
	Timestamp int64 `json:"timestamp"`
}

// TwinKind is a property's type, such as int.
type TwinKind struct {
	Type string `json:"type"`
}

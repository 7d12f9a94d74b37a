package watch

import "google.golang.org/protobuf/encoding/protowire"

// Pod is the part of a pod that its life is read from. Strings are views of
// the event's bytes: they are valid only as long as those.
type Pod struct {
	Name, Namespace, UID []byte
	NodeName, Phase      []byte
	Group                []byte // value of the label GroupLabel
	Deleting             bool   // has a deletionTimestamp
	Ready                bool   // condition Ready is True
}

// GroupLabel is the label by which lives are grouped.
const GroupLabel = "windtunnel.dev/group"

// DecodePod reads a pod from its protobuf form. Field numbers are those of
// k8s.io/api/core/v1/generated.proto and apimachinery's meta/v1.
func DecodePod(p []byte) (pod Pod, err error) {
	err = fields(p, func(n protowire.Number, v []byte) {
		switch n {
		case 1:
			_ = fields(v, pod.metadata)
		case 2:
			_ = fields(v, func(n protowire.Number, v []byte) {
				if n == 10 {
					pod.NodeName = v
				}
			})
		case 3:
			_ = fields(v, pod.status)
		}
	})
	return pod, err
}

func (pod *Pod) metadata(n protowire.Number, v []byte) {
	switch n {
	case 1:
		pod.Name = v
	case 3:
		pod.Namespace = v
	case 5:
		pod.UID = v
	case 9:
		pod.Deleting = true
	case 11:
		if key, value := pair(v); string(key) == GroupLabel {
			pod.Group = value
		}
	}
}

func (pod *Pod) status(n protowire.Number, v []byte) {
	switch n {
	case 1:
		pod.Phase = v
	case 2: // condition: 1 = type, 2 = status
		if kind, status := pair(v); string(kind) == "Ready" {
			pod.Ready = string(status) == "True"
		}
	}
}

// pair reads a message whose fields 1 and 2 are strings: a map's entry, a
// condition's type and status.
func pair(p []byte) (first, second []byte) {
	_ = fields(p, func(n protowire.Number, v []byte) {
		switch n {
		case 1:
			first = v
		case 2:
			second = v
		}
	})
	return first, second
}

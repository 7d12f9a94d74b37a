package api

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// Copies share what nobody changes in place: specifications, and the elements
// of lists, which Enter and With replace as a whole.

// DeepCopyObject makes an Instance a runtime.Object.
func (in *Instance) DeepCopyObject() runtime.Object { return in.Copy() }

// Copy returns a copy to change.
func (in *Instance) Copy() *Instance {
	out := resource.CopyOf(in)
	s := &out.Status
	s.PhaseTransitionTimestamps = slices.Clone(s.PhaseTransitionTimestamps)
	s.Conditions = slices.Clone(s.Conditions)
	s.Interfaces = slices.Clone(s.Interfaces)
	s.ActivePods = maps.Clone(s.ActivePods)
	if s.MigrationState != nil {
		s.MigrationState = new(*s.MigrationState)
	}
	return out
}

// DeepCopyObject makes a Machine a runtime.Object.
func (in *Machine) DeepCopyObject() runtime.Object { return in.Copy() }

// Copy returns a copy to change.
func (in *Machine) Copy() *Machine {
	out := resource.CopyOf(in)
	out.Status.Conditions = slices.Clone(in.Status.Conditions)
	if in.Status.StartFailure != nil {
		out.Status.StartFailure = new(*in.Status.StartFailure)
	}
	return out
}

// DeepCopyObject makes a Migration a runtime.Object.
func (in *Migration) DeepCopyObject() runtime.Object { return in.Copy() }

// Copy returns a copy to change.
func (in *Migration) Copy() *Migration {
	out := resource.CopyOf(in)
	out.Status.PhaseTransitionTimestamps = slices.Clone(in.Status.PhaseTransitionTimestamps)
	out.Status.Conditions = slices.Clone(in.Status.Conditions)
	return out
}

// DeepCopyObject makes an Installation a runtime.Object.
func (in *Installation) DeepCopyObject() runtime.Object { return resource.CopyOf(in) }

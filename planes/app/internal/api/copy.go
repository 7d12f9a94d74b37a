package api

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// Copies share what nobody changes in place: specifications, definitions, and the
// elements of lists, which are replaced as a whole.

// DeepCopyObject makes an Application a runtime.Object.
func (in *Application) DeepCopyObject() runtime.Object { return in.Copy() }

// Copy returns a copy to change.
func (in *Application) Copy() *Application {
	out := resource.CopyOf(in)
	s := &out.Status
	s.Conditions = slices.Clone(s.Conditions)
	s.Services = slices.Clone(s.Services)
	s.AppliedResources = slices.Clone(s.AppliedResources)
	s.Workflow = s.Workflow.Copy()
	if s.LatestRevision != nil {
		s.LatestRevision = new(*s.LatestRevision)
	}
	return out
}

// Copy returns a copy to change; of nil it is nil.
func (in *WorkflowStatus) Copy() *WorkflowStatus {
	if in == nil {
		return nil
	}
	out := *in
	out.Steps = slices.Clone(in.Steps)
	for i := range out.Steps {
		out.Steps[i].SubSteps = slices.Clone(out.Steps[i].SubSteps)
	}
	return &out
}

// DeepCopyObject makes a Revision a runtime.Object.
func (in *Revision) DeepCopyObject() runtime.Object { return in.Copy() }

// Copy returns a copy to change.
func (in *Revision) Copy() *Revision {
	out := resource.CopyOf(in)
	c := &out.Spec.RevisionContent
	c.ComponentDefinitions = maps.Clone(c.ComponentDefinitions)
	c.TraitDefinitions = maps.Clone(c.TraitDefinitions)
	c.WorkflowStepDefinitions = maps.Clone(c.WorkflowStepDefinitions)
	c.Policies = maps.Clone(c.Policies)
	out.Status.Workflow = in.Status.Workflow.Copy()
	return out
}

// DeepCopyObject makes a Tracker a runtime.Object.
func (in *Tracker) DeepCopyObject() runtime.Object { return in.Copy() }

// Copy returns a copy to change.
func (in *Tracker) Copy() *Tracker {
	out := resource.CopyOf(in)
	out.Spec.ManagedResources = slices.Clone(in.Spec.ManagedResources)
	return out
}

// DeepCopyObject makes a Definition a runtime.Object.
func (in *Definition) DeepCopyObject() runtime.Object { return resource.CopyOf(in) }

package controller

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// TestEventsThatStartPasses holds which changes of an application start a pass, as in the
// releases and by skip-own-status.
func TestEventsThatStartPasses(t *testing.T) {
	later := metav1.NewTime(time.Unix(1e9, 0))
	for name, tt := range map[string]struct {
		phase        api.Phase // before
		change       func(*api.Application)
		starts, skip bool // of the releases; with skip-own-status
	}{
		"nothing but the version":               {api.Running, func(*api.Application) {}, false, false},
		"the specification":                     {api.Rendering, func(o *api.Application) { o.Generation++ }, true, true},
		"an annotation":                         {api.Running, func(o *api.Application) { o.Annotations = map[string]string{"a": "b"} }, true, true},
		"an annotation of one that is rendered": {api.Rendering, func(o *api.Application) { o.Annotations = map[string]string{"a": "b"} }, false, true},
		"a finalizer":                           {"", func(o *api.Application) { o.Finalizers = []string{"a"} }, true, true},
		"it is being deleted":                   {api.Running, func(o *api.Application) { o.DeletionTimestamp = &later }, true, true},
		"managed fields":                        {api.Running, func(o *api.Application) { o.ManagedFields = []metav1.ManagedFieldsEntry{{}} }, false, false},
		"it is rendered":                        {"", func(o *api.Application) { o.Status.Phase = api.Rendering }, false, false},
		"its workflow begins":                   {api.Rendering, func(o *api.Application) { o.Status.Phase = api.RunningWorkflow }, false, false},
		"it is running at once":                 {api.Rendering, func(o *api.Application) { o.Status.Phase = api.Running }, true, false},
		"it is running":                         {api.RunningWorkflow, func(o *api.Application) { o.Status.Phase = api.Running }, true, false},
		"a condition":                           {api.Running, func(o *api.Application) { o.Status.Conditions = []api.Condition{{Type: "Ready"}} }, true, false},
		"services and resources": {api.RunningWorkflow, func(o *api.Application) {
			o.Status.Services, o.Status.AppliedResources = []api.Service{{}}, []api.ResourceReference{{}}
		}, false, false},
		"steps, message and end": {api.RunningWorkflow, func(o *api.Application) {
			w := o.Status.Workflow
			w.Steps, w.Message, w.EndTime = []api.StepStatus{{}}, "wait", &later
		}, false, false},
		"its workflow is finished": {api.RunningWorkflow, func(o *api.Application) { o.Status.Workflow.Finished = true }, true, false},
		"somebody resumes it":      {api.WorkflowSuspending, func(o *api.Application) { o.Status.Workflow.Suspend = false }, true, true},
		"somebody ends it":         {api.WorkflowSuspending, func(o *api.Application) { o.Status.Workflow.Terminated = true }, true, true},
	} {
		old := &api.Application{Status: api.ApplicationStatus{Phase: tt.phase, Workflow: &api.WorkflowStatus{Suspend: tt.phase == api.WorkflowSuspending}}}
		old.ResourceVersion = "1"
		now := old.Copy()
		now.ResourceVersion = "2"
		tt.change(now)
		repotest.Equal(t, startsPass(old, now), tt.starts, "%s: a pass starts", name)
		repotest.Equal(t, isOthersChange(old, now), tt.skip, "%s, skip-own-status: a pass starts", name)
	}
}

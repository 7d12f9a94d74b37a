package controller

import (
	"context"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

type typesUID = types.UID

// writeInstance brings what changed to the server. Before Scheduled the controller owns
// the instance and writes all of it; from then on the node's agent does, and
// the controller only patches, testing what it replaces.
func (c *Controller) writeInstance(ctx context.Context, old, now *api.Instance) error {
	if isSame(old, now) {
		return nil
	}
	key := old.Namespace + "/" + old.Name
	c.unseen.Open(key)
	defer c.unseen.End(key)
	if c.o.StatusSubresource {
		return c.writeParts(ctx, old, now)
	}
	if ownsInstance(old) {
		got, err := c.client.Instances.Update(ctx, now)
		return c.noteInstance(old, got, err)
	}
	p := &api.Patch{}
	statusChanges(p, old, now)
	metaChanges(p, old, now)
	if p.Empty() {
		return nil
	}
	got, err := c.client.Instances.Patch(ctx, old, p)
	return c.noteInstance(old, got, err)
}

// noteInstance keeps which version of an instance a write of this controller made.
func (c *Controller) noteInstance(old, got *api.Instance, err error) error {
	if err == nil {
		c.unseen.Wrote(got.Namespace+"/"+got.Name, "VirtualMachineInstance", old.ResourceVersion, got)
	}
	return err
}

// writeParts writes the status and then the rest, each by its own call. In this
// order a kill between them leaves an instance that follows repairs.
func (c *Controller) writeParts(ctx context.Context, old, now *api.Instance) error {
	status, meta := &api.Patch{}, &api.Patch{}
	statusChanges(status, old, now)
	metaChanges(meta, old, now)
	switch {
	case status.Empty():
	case ownsInstance(old):
		got, err := c.client.Instances.Update(ctx, now, "status")
		if err := c.noteInstance(old, got, err); err != nil {
			return err
		}
	default:
		got, err := c.client.Instances.Patch(ctx, old, status, "status")
		if err := c.noteInstance(old, got, err); err != nil {
			return err
		}
	}
	if meta.Empty() {
		return nil
	}
	got, err := c.client.Instances.Patch(ctx, old, meta)
	return c.noteInstance(old, got, err)
}

func ownsInstance(old *api.Instance) bool {
	return !old.Status.Phase.OnNode() && !old.Status.Phase.Final()
}

func isSame(a, b *api.Instance) bool {
	return reflect.DeepEqual(a.Status, b.Status) && reflect.DeepEqual(a.Labels, b.Labels) && reflect.DeepEqual(a.Annotations, b.Annotations) && slices.Equal(a.Finalizers, b.Finalizers)
}

// statusChanges lists the differences of two statuses, phase last of all: what
// waits for the phase then finds the rest.
func statusChanges(p *api.Patch, old, now *api.Instance) {
	a, b := &old.Status, &now.Status
	addChange(p, "/status/conditions", a.Conditions, b.Conditions)
	addChange(p, "/status/qosClass", a.QOSClass, b.QOSClass)
	addChange(p, "/status/activePods", a.ActivePods, b.ActivePods)
	addChange(p, "/status/nodeName", a.NodeName, b.NodeName)
	addChange(p, "/status/launcherContainerImageVersion", a.LauncherContainerImageVersion, b.LauncherContainerImageVersion)
	addChange(p, "/status/migrationState", a.MigrationState, b.MigrationState)
	addChange(p, "/status/reason", a.Reason, b.Reason)
	addChange(p, "/status/phaseTransitionTimestamps", a.PhaseTransitionTimestamps, b.PhaseTransitionTimestamps)
	addChange(p, "/status/phase", a.Phase, b.Phase)
}

func metaChanges(p *api.Patch, old, now *api.Instance) {
	addChange(p, "/metadata/labels", old.Labels, now.Labels)
	addChange(p, "/metadata/annotations", old.Annotations, now.Annotations)
	if !slices.Equal(old.Finalizers, now.Finalizers) {
		p.Change("/metadata/finalizers", old.Finalizers, now.Finalizers)
	}
}

// addChange adds a difference to a patch; an empty text is what is not there.
func addChange(p *api.Patch, path string, old, now any) {
	if reflect.DeepEqual(old, now) {
		return
	}
	p.Change(path, orNull(old), orNull(now))
}

func orNull(v any) any {
	if reflect.ValueOf(v).IsZero() {
		return nil
	}
	return v
}

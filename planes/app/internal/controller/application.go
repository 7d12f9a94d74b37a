package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// application is the application of a pass, and the only door by which a pass writes
// it and its status.
type application struct {
	c      *Controller
	key    string           // NAMESPACE/NAME
	object *api.Application // as it will be written
	stored api.ApplicationStatus
}

// writeObject writes the application without its status.
func (a *application) writeObject(ctx context.Context) error {
	ctx, done := a.c.requests.beginOwn(ctx, "Update", api.KindApplication)
	defer done()
	a.object.TypeMeta = api.TypeOf(api.KindApplication)
	got, err := a.c.client.Applications.Update(ctx, a.object)
	if err != nil {
		return ignoreNotFound(err)
	}
	if got.DeletionTimestamp != nil && len(got.Finalizers) == 0 {
		a.c.unseen.Released(a.key, api.KindApplication, got)
	} else {
		a.c.unseen.Wrote(a.key, api.KindApplication, a.object.ResourceVersion, got)
	}
	return nil
}

// patchStatus sends the whole application as a merge patch of its status, unless
// nothing changed and that counts.
func (a *application) patchStatus(ctx context.Context) error {
	a.object.Status.ObservedGeneration = a.object.Generation
	if a.c.o.Features.SkipEqualStatus && reflect.DeepEqual(a.stored, a.object.Status) {
		return nil
	}
	a.object.TypeMeta = api.TypeOf(api.KindApplication)
	body, err := json.Marshal(a.object)
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	ctx, done := a.c.requests.beginOwn(ctx, "StatusPatch", api.KindApplication)
	defer done()
	got, err := a.c.client.Applications.Patch(ctx, a.object, resource.Patch{Type: types.MergePatchType, Body: body}, "status")
	return a.setStored(got, err)
}

// updateStatus writes the whole status, unless nothing changed and that counts.
func (a *application) updateStatus(ctx context.Context) error {
	a.object.Status.ObservedGeneration = a.object.Generation
	if a.c.o.Features.SkipEqualStatus && reflect.DeepEqual(a.stored, a.object.Status) {
		return nil
	}
	a.object.TypeMeta = api.TypeOf(api.KindApplication)
	ctx, done := a.c.requests.beginOwn(ctx, "StatusUpdate", api.KindApplication)
	defer done()
	got, err := a.c.client.Applications.Update(ctx, a.object, "status")
	return a.setStored(got, err)
}

// setStored notes the application as the server has it after a write of its status.
func (a *application) setStored(got *api.Application, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	a.c.unseen.Wrote(a.key, api.KindApplication, a.object.ResourceVersion, got)
	a.object.ResourceVersion = got.ResourceVersion
	a.stored = a.object.Copy().Status
	return nil
}

// setCondition sets a condition; its time is that of its last change.
func (a *application) setCondition(kind string, status corev1.ConditionStatus, reason, message string) {
	next := api.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(a.c.o.Now().Truncate(time.Second))}
	all := slices.Clone(a.object.Status.Conditions)
	i := slices.IndexFunc(all, func(c api.Condition) bool { return c.Type == kind })
	switch {
	case i < 0:
		all = append(all, next)
	case all[i].Status == status && all[i].Reason == reason && all[i].Message == message:
		return
	default:
		all[i] = next
	}
	a.object.Status.Conditions = all
}

// setAvailable sets a condition to true.
func (a *application) setAvailable(kind string) {
	a.setCondition(kind, corev1.ConditionTrue, "Available", "")
}

// setResult sets a condition by an error, with an event if there is one. What never
// failed has no condition.
func (a *application) setResult(kind, event string, err error) {
	if err != nil {
		a.setCondition(kind, corev1.ConditionFalse, "Unavailable", err.Error())
		a.recordEvent(corev1.EventTypeWarning, event, err.Error())
	} else if slices.ContainsFunc(a.object.Status.Conditions, func(c api.Condition) bool { return c.Type == kind }) {
		a.setAvailable(kind)
	}
}

func (a *application) recordEvent(kind, reason, message string) {
	a.c.events.Event(a.object, kind, reason, message)
}

// requeueAfter brings the application into the queue after so long.
func (a *application) requeueAfter(after time.Duration) { a.c.loop.Queue.AddAfter(a.key, after) }

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

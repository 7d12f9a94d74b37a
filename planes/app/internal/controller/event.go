package controller

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
)

// recordEvents lets event objects go out through a client of their own, with a rate
// limit of its own of the same size, as controller-runtime's do: they are in no
// metric of the controller's requests.
func (c *Controller) recordEvents(b record.EventBroadcaster) error {
	if c.o.Events {
		config := rest.CopyConfig(c.o.Config)
		config.UserAgent, config.RateLimiter = "windtunnel-app-controller-events", limiter.New(c.o.Limiter)
		core, err := typedcore.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("app-controller: %w", err)
		}
		b.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: core.Events("")})
	}
	s := api.Scheme()
	if err := scheme.AddToScheme(s); err != nil {
		return fmt.Errorf("app-controller: %w", err)
	}
	c.events = b.NewRecorder(s, corev1.EventSource{Component: "Application"})
	return nil
}

// handlers say which events bring an application into the queue.
func (c *Controller) addHandlers() error {
	return errors.Join(
		loop.Watch(c.applications, c.onApplication),
		c.followPart(c.trackers, api.KindTracker, func(owner string, o metav1.Object) {
			if o.GetDeletionTimestamp() != nil {
				c.loop.Queue.Add(owner)
			}
		}),
		c.followPart(c.revisions, api.KindRevision, func(string, metav1.Object) {}),
	)
}

// followPart lets passes know what the watch of a kind of which applications have objects
// shows, after onChange has brought them into the queue.
func (c *Controller) followPart(i cache.SharedIndexInformer, kind string, onChange func(owner string, o metav1.Object)) error {
	return loop.Watch(i, func(old, now metav1.Object) {
		object := cmp.Or(now, old)
		owner := ownerOf(object)
		if old != nil {
			onChange(owner, object)
		}
		if now == nil {
			c.unseen.Gone(owner, kind, object)
		} else {
			c.unseen.Shown(owner, kind, object)
		}
	})
}

func (c *Controller) onApplication(old, now *api.Application) {
	key := loop.Key(cmp.Or(now, old))
	if now == nil {
		c.loop.Queue.Add(key)
		c.unseen.Gone(key, api.KindApplication, old)
		return
	}
	c.metrics.showApplication(key, now)
	defer c.unseen.Shown(key, api.KindApplication, now)
	starts := startsPass
	if c.o.Features.SkipOwnStatus {
		starts = isOthersChange
	}
	if old == nil || old.ResourceVersion == now.ResourceVersion || starts(old, now) {
		c.loop.Queue.Add(key)
	}
}

// startsPass says whether a change of an application starts a pass. The steps, the message
// and the end of its workflow, its services and the list of what it applied start none, nor
// does a change that leaves it rendering or takes it from there to its workflow. All else
// does, the controller's own status too: whoever becomes running is looked at once more.
func startsPass(old, now *api.Application) bool {
	if old.Generation != now.Generation {
		return true
	}
	if now.Status.Phase == api.Rendering || old.Status.Phase == api.Rendering && now.Status.Phase == api.RunningWorkflow {
		return false
	}
	return !reflect.DeepEqual(comparedPart(old), comparedPart(now))
}

// comparedPart is what of an application of the same generation is compared.
func comparedPart(o *api.Application) *api.Application {
	out := *o
	out.ResourceVersion, out.ManagedFields, out.Status.Services, out.Status.AppliedResources = "", nil, nil, nil
	if w := o.Status.Workflow; w != nil {
		w := *w
		w.Steps, w.ContextBackend, w.Message, w.EndTime = nil, nil, "", nil
		out.Status.Workflow = &w
	}
	return &out
}

// isOthersChange says whether a change is one that somebody else wants to be acted upon: the
// status is the controller's own.
func isOthersChange(old, now *api.Application) bool {
	return old.Generation != now.Generation || (old.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil) ||
		!slices.Equal(old.Finalizers, now.Finalizers) || !maps.Equal(old.Annotations, now.Annotations) || !maps.Equal(old.Labels, now.Labels) ||
		isResumed(old.Status.Workflow, now.Status.Workflow)
}

// isResumed says whether somebody let a workflow go on that was suspended, or ended it.
func isResumed(old, now *api.WorkflowStatus) bool {
	return old != nil && now != nil && !now.Finished && (old.Suspend && !now.Suspend || !old.Terminated && now.Terminated)
}

// indexLabels indexes by the application that labels name.
func indexLabels(o any) ([]string, error) {
	m, err := meta.Accessor(o)
	if err != nil {
		return nil, err
	}
	return []string{ownerOf(m)}, nil
}

// ownerOf returns the key of the application of a revision or a tracker.
func ownerOf(o metav1.Object) string {
	namespace := o.GetNamespace()
	if namespace == "" {
		namespace = o.GetLabels()[api.LabelNamespace]
	}
	return namespace + "/" + o.GetLabels()[api.LabelName]
}

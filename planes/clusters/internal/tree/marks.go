package tree

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
)

// watchMarks calls changed with the key of an export or import that is made, changes, or is gone.
func watchMarks(i cache.SharedIndexInformer, o *Options, changed func(key string)) error {
	return loop.Watch(i, func(old, now *api.Mark) {
		if old == nil || now == nil || isNews(old, now, o) {
			m := cmp.Or(now, old)
			changed(m.Namespace + "/" + m.Name)
		}
	})
}

// updateFinalizer gives an export or import its finalizer, or takes it off.
func (t *tree) updateFinalizer(ctx context.Context, k api.Kind[*api.Mark], o *api.Mark) error {
	change := finalizerChange(o, t.o.ImportEnd)
	if change == nil {
		return nil
	}
	if _, err := changeMark(ctx, k, o, change); ignoreNotFound(err) != nil {
		return fmt.Errorf("finalizer of %s/%s: %w", o.Namespace, o.Name, err)
	}
	return nil
}

// changeMark writes a change of an export or import; of its latest state where the cache
// has an older one.
func changeMark(ctx context.Context, k api.Kind[*api.Mark], o *api.Mark, change markChange) (*api.Mark, error) {
	next := o.DeepCopyObject().(*api.Mark)
	change(next)
	out, err := k.Update(ctx, next)
	if !apierrors.IsConflict(err) {
		return out, err
	}
	if next, err = k.Get(ctx, o.Namespace, o.Name); err != nil {
		return nil, err
	}
	change(next)
	return k.Update(ctx, next)
}

// writeEvent writes an event.
func (t *tree) writeEvent(ctx context.Context, c *api.Client, key, kind string) error {
	namespace, name := cutKey(key)
	now := metav1.NewTime(t.o.Now())
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%x", name, now.UnixNano())}}
	e.InvolvedObject = corev1.ObjectReference{Kind: kind, APIVersion: api.GroupServices + "/" + api.Version, Namespace: namespace, Name: name}
	e.Type, e.Reason, e.Message = corev1.EventTypeNormal, "Synced", "slices are as they should be"
	e.FirstTimestamp, e.LastTimestamp, e.Count, e.Source = now, now, 1, corev1.EventSource{Component: "tree-manager"}
	if _, err := c.Events.Create(ctx, e); err != nil {
		return fmt.Errorf("event on %s %s: %w", kind, key, err)
	}
	return nil
}

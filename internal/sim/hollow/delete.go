package hollow

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// remove deletes an object.
func (q *request) remove() error {
	options, err := q.deletion()
	if err != nil {
		return err
	}
	w := write{target: q.target, dryRun: len(options.DryRun) > 0, until: q.end()}
	done, err := q.cluster.delete(w, options)
	if err != nil {
		return err
	}
	if done.gone && !q.kind.ShowDeleted {
		m := done.meta()
		q.status(&metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{
			Name: m.Name, Group: q.kind.Group, Kind: q.kind.Plural, UID: m.UID,
		}})
		return nil
	}
	return q.object(http.StatusOK, done.result)
}

// deletion reads the options of a deletion: the body's, or the query's.
func (q *request) deletion() (*metav1.DeleteOptions, error) {
	o := &metav1.DeleteOptions{}
	raw, err := q.body()
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		values := q.query
		if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&values, o, nil); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	} else if err := q.decodeOptions(raw, o); err != nil {
		return nil, err
	}
	if errs := validation.ValidateDeleteOptions(o); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	return o, nil
}

func (q *request) decodeOptions(raw []byte, o *metav1.DeleteOptions) error {
	media, err := q.bodyType(true)
	if err != nil {
		return err
	}
	switch media {
	case typeProto:
		var inner []byte
		if inner, _, err = object.Unwrap(raw); err == nil {
			err = o.Unmarshal(inner)
		}
	case typeYAML:
		if raw, err = codec.ConvertYAML(raw); err == nil {
			err = json.Unmarshal(raw, o)
		}
	default:
		if err = codec.CheckHead(raw); err == nil {
			err = json.Unmarshal(raw, o)
		}
	}
	if err != nil {
		return codec.BadRequest(err)
	}
	return nil
}

// deleted is what came of a deletion.
type deleted struct {
	result
	gone bool // and not only marked
}

// meta returns the metadata of what was deleted.
func (r result) meta() metav1.ObjectMeta {
	if r.stored != nil {
		return r.kind.Metadata(r.stored.Raw)
	}
	m := kind.Meta(r.typed)
	return metav1.ObjectMeta{Name: m.GetName(), Namespace: m.GetNamespace(), UID: m.GetUID()}
}

// delete removes an object, or marks it where a finalizer or a kubelet has to have
// its say.
func (c *Cluster) delete(w write, options *metav1.DeleteOptions) (deleted, error) {
	t := c.table(w.kind)
	for {
		current := t.Get(w.key())
		if current == nil {
			return deleted{}, apierrors.NewNotFound(w.kind.Resource(), w.name)
		}
		d, err := c.deleteOnce(w, current, *options)
		if !errors.Is(err, store.ErrChanged) {
			return d, err
		}
		if c.late(w) {
			return deleted{}, errTimeout()
		}
	}
}

func (c *Cluster) deleteOnce(w write, current *store.Object, options metav1.DeleteOptions) (deleted, error) {
	o, err := w.kind.Decode(current.Raw)
	if err != nil {
		return deleted{}, err
	}
	m := kind.Meta(o)
	if err := conditions(w.target, options.Preconditions, m); err != nil {
		return deleted{}, err
	}
	graceful, pending := c.grace(o, &options)
	if pending {
		return deleted{result: result{kind: w.kind, stored: current}}, nil
	}
	finalizers := collected(m.GetFinalizers(), options)
	m.SetFinalizers(finalizers)
	waits := len(finalizers) > 0
	if ns, ok := o.(*corev1.Namespace); ok {
		ns.Status.Phase = corev1.NamespaceTerminating
		waits = waits || len(ns.Spec.Finalizers) > 0
	}
	if waits && !graceful {
		c.mark(o)
	}
	if w.dryRun {
		return deleted{result{kind: w.kind, typed: o}, !waits && (!graceful || *options.GracePeriodSeconds == 0)}, nil
	}
	if graceful || waits {
		current, err = c.update(w, current, o)
		if err != nil || waits || *options.GracePeriodSeconds > 0 {
			return deleted{result: result{w.kind, current, o}}, err
		}
	}
	last, err := c.table(w.kind).Remove(current, encoder(w.kind, o))
	if err != nil {
		return deleted{}, err
	}
	c.removed(w.kind, o)
	return deleted{result{w.kind, last, o}, true}, nil
}

// update stores an object in place of the current one unless they are the same.
func (c *Cluster) update(w write, current *store.Object, o runtime.Object) (*store.Object, error) {
	r, err := c.replaceOnly(w.kind, current, o)
	if err == nil && r != current {
		c.wrote(w.kind, o)
	}
	return r, err
}

func (c *Cluster) replaceOnly(k *kind.Kind, current *store.Object, o runtime.Object) (*store.Object, error) {
	raw, err := k.Encode(o)
	if err != nil || string(raw) == string(current.Raw) {
		return current, err
	}
	return c.table(k).Put(current.Key, current, encoder(k, o))
}

// conditions holds that the object is the one that is meant.
func conditions(t target, p *metav1.Preconditions, m metav1.Object) error {
	if p == nil {
		return nil
	}
	r := schema.GroupResource{Group: t.kind.Group, Resource: t.kind.Kind}
	if p.UID != nil && *p.UID != m.GetUID() {
		if t.kind.Table() == "namespaces" {
			return apierrors.NewConflict(t.kind.Resource(), t.name, fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, m.GetUID()))
		}
		return apierrors.NewConflict(r, m.GetName(), fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, m.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != m.GetResourceVersion() {
		return apierrors.NewConflict(r, m.GetName(), fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, m.GetResourceVersion()))
	}
	return nil
}

// mark says of an object that it is being deleted, without a grace period.
func (c *Cluster) mark(o runtime.Object) {
	m := kind.Meta(o)
	if m.GetDeletionTimestamp() == nil {
		if m.GetGeneration() > 0 {
			m.SetGeneration(m.GetGeneration() + 1)
		}
		m.SetDeletionTimestamp(new(c.now()))
	}
	if _, ok := o.(*corev1.Namespace); !ok {
		m.SetDeletionGracePeriodSeconds(new(int64))
	}
}

// grace marks a pod whose kubelet is to end it. It is pending when the kubelet
// knows already and no less time is left.
func (c *Cluster) grace(o runtime.Object, options *metav1.DeleteOptions) (graceful, pending bool) {
	if g := options.GracePeriodSeconds; g != nil && *g < 0 {
		options.GracePeriodSeconds = new(int64(1))
	}
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return false, false
	}
	if pod.DeletionTimestamp != nil {
		return c.shorten(pod, options)
	}
	period := int64(0)
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		period = *g
	}
	if options.GracePeriodSeconds != nil {
		period = *options.GracePeriodSeconds
	}
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		period = 0
	}
	if period < 0 {
		period = 1
	}
	options.GracePeriodSeconds = &period
	pod.DeletionTimestamp = new(metav1.NewTime(c.now().Add(time.Duration(period) * time.Second)))
	pod.DeletionGracePeriodSeconds = &period
	if pod.Generation > 0 {
		pod.Generation++
	}
	return true, false
}

// shorten leaves a pod that is being deleted less time, if it is asked for.
func (c *Cluster) shorten(pod *corev1.Pod, options *metav1.DeleteOptions) (graceful, pending bool) {
	left := pod.DeletionGracePeriodSeconds
	if left == nil || *left == 0 {
		return false, false
	}
	if options.GracePeriodSeconds == nil || *options.GracePeriodSeconds >= *left {
		return false, true
	}
	period := *options.GracePeriodSeconds
	end := metav1.NewTime(pod.DeletionTimestamp.Add(time.Duration(period-*left) * time.Second))
	if now := c.now(); end.Before(&now) {
		end, period = now, min(period, 1)
	}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &end, &period
	options.GracePeriodSeconds = &period
	return true, false
}

// collected returns the finalizers of an object that is deleted: whether what it
// owns goes first, stays, or goes after it.
func collected(finalizers []string, options metav1.DeleteOptions) []string {
	orphan := slices.Contains(finalizers, metav1.FinalizerOrphanDependents)
	foreground := slices.Contains(finalizers, metav1.FinalizerDeleteDependents)
	if o := options.OrphanDependents; o != nil {
		orphan, foreground = *o, false
	}
	if p := options.PropagationPolicy; p != nil {
		orphan, foreground = *p == metav1.DeletePropagationOrphan, *p == metav1.DeletePropagationForeground
	}
	var out []string
	for _, f := range finalizers {
		if f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents {
			out = append(out, f)
		}
	}
	if orphan {
		out = append(out, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		out = append(out, metav1.FinalizerDeleteDependents)
	}
	return out
}

// ended says whether an object that was being deleted has nothing left to wait for.
func ended(k *kind.Kind, old, next runtime.Object) bool {
	was := kind.Meta(old)
	if was.GetDeletionTimestamp() == nil || len(kind.Meta(next).GetFinalizers()) > 0 {
		return false
	}
	if ns, ok := next.(*corev1.Namespace); ok {
		return len(ns.Spec.Finalizers) == 0
	}
	g := was.GetDeletionGracePeriodSeconds()
	return g == nil || *g == 0
}

// removeAll deletes what a list would show, and answers with it.
func (q *request) removeAll() error {
	options, err := q.deletion()
	if err != nil {
		return err
	}
	found, err := q.find()
	if err != nil {
		return err
	}
	for i, o := range found.Objects {
		if i%lookEvery == 0 && q.Context().Err() != nil {
			return errTimeout()
		}
		t := q.target
		t.namespace, t.name = kind.SplitKey(o.Key)
		_, err := q.cluster.delete(write{target: t, dryRun: len(options.DryRun) > 0}, options)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return q.objects(page{Listed: store.Listed{Objects: found.Objects, Version: found.Version}})
}

// version writes a version as objects have it.
func version(v uint64) string { return strconv.FormatUint(v, 10) }

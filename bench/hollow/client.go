package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
)

// The media types of bodies.
const (
	typeJSON  = "application/json"
	typeProto = "application/vnd.kubernetes.protobuf"
)

// podsPath is where the pods of the bench are.
const podsPath = "/api/v1/namespaces/default/pods"

// newPod returns a pod such as a Deployment of one container makes.
func newPod(i int) *corev1.Pod {
	name := fmt.Sprintf("density-deployment-7d4b9c6f5d-%06d", i)
	amount := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("10M")}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", GenerateName: "density-deployment-7d4b9c6f5d-",
			Labels:      map[string]string{"group": "density", "name": "density-deployment", "pod-template-hash": "7d4b9c6f5d"},
			Annotations: map[string]string{"windtunnel.dev/note": strings.Repeat("x", 100)}, // about as long as an owner
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprintf("node-%05d", i%1000),
			Containers: []corev1.Container{{
				Name: "density-deployment", Image: "registry.example/pause:3.10", ImagePullPolicy: corev1.PullIfNotPresent,
				Resources:              corev1.ResourceRequirements{Requests: amount},
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
				Env: []corev1.EnvVar{{Name: "ENV_VAR", Value: "a"}},
			}},
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, SchedulerName: corev1.DefaultSchedulerName,
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
				{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			},
		},
	}
}

// encodePod returns a pod in a form.
func encodePod(i int, form string) ([]byte, error) {
	p := newPod(i)
	if form == typeJSON {
		return json.Marshal(p)
	}
	raw, err := p.Marshal()
	return object.AppendEnvelope(nil, "v1", "Pod", raw), err
}

// createPods creates n pods, so many at a time, or at a rate per second if that is
// above 0. It returns how long that took.
func createPods(ctx context.Context, e endpoint.Endpoint, form string, first, n, atOnce int, rate float64) (time.Duration, error) {
	c := clock.Start()
	client, err := wire.New(e, wire.Options{Clock: c})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	var next atomic.Int64
	errs := make([]error, atOnce)
	var wait sync.WaitGroup
	for w := range atOnce {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[w] == nil; i = int(next.Add(1)) - 1 {
				if rate > 0 {
					_ = clock.Sleep(ctx, c.Until(clock.Time(float64(i)/rate*float64(time.Second))))
				}
				var body []byte
				if body, errs[w] = encodePod(first+i, form); errs[w] == nil {
					errs[w] = postObject(ctx, client, podsPath, form, body)
				}
			}
		})
	}
	wait.Wait()
	return time.Duration(c.Now()), errors.Join(errs...)
}

// postObject creates one object.
func postObject(ctx context.Context, client *wire.Client, path, form string, body []byte) error {
	r, err := client.Do(ctx, &wire.Request{Method: http.MethodPost, Path: path, ContentType: form, Accept: form, Body: body, Discard: true})
	if err == nil && !r.Success() {
		err = r.Refusal()
	}
	if err != nil {
		return fmt.Errorf("create at %s: %w", path, err)
	}
	return nil
}

// watchers are watches of pods, each on a connection of its own.
type watchers struct {
	clients []*wire.Client
	cancel  context.CancelFunc
	wait    sync.WaitGroup
	events  atomic.Int64
	ended   atomic.Int64
}

// watchPods opens n watches from now on. What is there already is not sent.
func watchPods(ctx context.Context, e endpoint.Endpoint, form string, n int) (*watchers, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watchers{cancel: cancel}
	return w, w.openWatches(ctx, e, podsPath, form, n)
}

// openWatches opens n more.
func (w *watchers) openWatches(ctx context.Context, e endpoint.Endpoint, path, form string, n int) error {
	client, err := wire.New(e, wire.Options{Clock: clock.Start()})
	if err != nil {
		return err
	}
	w.clients = append(w.clients, client)
	r, err := client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path + "?limit=1", Accept: typeJSON})
	if err != nil {
		return err
	}
	m, err := object.ReadMetadata(r.Body)
	if err != nil {
		return err
	}
	path += "?watch=true&resourceVersion=" + m.ResourceVersion
	for range n {
		w.wait.Go(func() {
			defer w.ended.Add(1)
			_ = client.Stream(ctx, &wire.Request{Method: http.MethodGet, Path: path, Accept: form}, w.eventCounter(form))
		})
	}
	return nil
}

// eventCounter returns what counts the events of a watch.
func (w *watchers) eventCounter(form string) func([]byte) error {
	var rest []byte
	return func(b []byte) error {
		if form == typeJSON {
			w.events.Add(int64(bytes.Count(b, []byte("\n"))))
			return nil
		}
		rest = append(rest, b...)
		whole, _, err := object.SplitFrames(rest)
		if err != nil {
			return err
		}
		for b := rest[:whole]; len(b) > 0; {
			_, b = object.NextFrame(b)
			w.events.Add(1)
		}
		rest = append(rest[:0], rest[whole:]...)
		return nil
	}
}

// awaitEvents waits until so many events have come.
func (w *watchers) awaitEvents(n int64) error {
	c := clock.Start()
	for ; w.events.Load() < n; time.Sleep(5 * time.Millisecond) {
		if c.Now() > clock.Time(2*time.Minute) || w.ended.Load() > 0 {
			return fmt.Errorf("%d of %d events came, %d watches ended", w.events.Load(), n, w.ended.Load())
		}
	}
	return nil
}

func (w *watchers) Close() error {
	w.cancel()
	w.wait.Wait()
	var err error
	for _, c := range w.clients {
		err = errors.Join(err, c.Close())
	}
	return err
}

// watchedResources returns the resources that the watches of an idle client are about: those of
// a manager of member clusters.
func watchedResources() []string {
	return []string{"nodes", "pods", "configmaps", "secrets", "services", "persistentvolumes", "persistentvolumeclaims"}
}

// idleClient opens the seven watches of a client on one connection, and returns
// when all have begun.
func idleClient(ctx context.Context, e endpoint.Endpoint) (*wire.Client, error) {
	client, err := wire.New(e, wire.Options{Clock: clock.Start()})
	if err != nil {
		return nil, err
	}
	begun := make(chan error, 2*len(watchedResources()))
	for _, plural := range watchedResources() {
		client.Send(&wire.Request{Method: http.MethodGet, Path: "/api/v1/" + plural + "?watch=true&resourceVersion=0", Accept: typeProto,
			Hold: time.Hour, Opened: func(*wire.Response) { begun <- nil }, Data: func([]byte) {}},
			func(r *wire.Response) { begun <- fmt.Errorf("a watch ended: %d %w", r.Code, r.Err) })
	}
	for range watchedResources() {
		select {
		case err = <-begun:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
	}
	return client, nil
}

package slim_test

import (
	"context"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// listsFirst has an informer list before it watches: its watch brings no objects at first.
type listsFirst struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is how client-go asks.
func (listsFirst) IsWatchListSemanticsUnSupported() bool { return true }

// pod is what the test keeps of a pod.
type pod struct {
	metav1.ObjectMeta

	node string
}

func makePod(name, node, version string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, ResourceVersion: version, Labels: map[string]string{"a": "b"}}}
	p.Spec.NodeName = node
	return p
}

// TestKeep holds that an informer keeps what it was told of its objects, tells handlers
// of these, and follows changes and deletions.
func TestKeep(t *testing.T) {
	events := watch.NewFake()
	informer := cache.NewSharedIndexInformer(listsFirst{&cache.ListWatch{
		ListFunc: func(metav1.ListOptions) (runtime.Object, error) {
			return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{*makePod("a", "", "1"), *makePod("b", "x", "1")}}, nil
		},
		WatchFunc: func(metav1.ListOptions) (watch.Interface, error) { return events, nil },
	}}, &corev1.Pod{}, 0, cache.Indexers{"node": func(o any) ([]string, error) { return []string{o.(*pod).node}, nil }})
	repotest.NoError(t, slim.Keep(informer, slim.Always(func(p *corev1.Pod) *pod { return &pod{slim.Named(p), p.Spec.NodeName} })))
	changed, deleted := make(chan *pod), make(chan *pod)
	repotest.Must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, o any) { changed <- o.(*pod) }, DeleteFunc: func(o any) { deleted <- o.(*pod) },
	}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() { informer.RunWithContext(ctx) })
	defer wait.Wait()
	defer cancel()
	events.Modify(makePod("a", "y", "2"))
	if p := <-changed; p.Name != "a" || p.node != "y" || p.ResourceVersion != "2" || p.Labels != nil {
		t.Errorf("a change brought %+v", p)
	}
	events.Delete(makePod("b", "x", "3"))
	if p := <-deleted; p.Name != "b" {
		t.Errorf("a deletion brought %+v", p)
	}
	if all := slim.All[*pod](informer); len(all) != 1 || slim.Get[*pod](informer, "n/a") != all[0] || !slim.Has(informer, "n/a") || slim.Get[*pod](informer, "n/b") != nil {
		t.Errorf("the informer keeps %+v", all)
	}
	if on := slim.ByIndex[*pod](informer, "node", "y"); len(on) != 1 || len(slim.ByIndex[*pod](informer, "node", "x")) != 0 {
		t.Errorf("on node y there is %+v", on)
	}
}

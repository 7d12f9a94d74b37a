package members

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// hostPod is a pod of the host, memberPod one of a member that is that of the host.
func hostPod(uid string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p" + uid, UID: types.UID(uid), ResourceVersion: "1"}, Status: corev1.PodStatus{Phase: phase}}
}

func memberPod(uid string, phase corev1.PodPhase) *pod {
	p := hostPod("", phase)
	p.Name, p.Annotations = "p"+uid, map[string]string{api.AnnotationHostUID: uid}
	return slimPod(p)
}

// TestInventory holds each way in which a pod of the host and those of members can differ.
func TestInventory(t *testing.T) {
	var v inventory
	v.add("a", []any{memberPod("1", corev1.PodRunning), memberPod("2", corev1.PodPending), memberPod("3", corev1.PodRunning), memberPod("9", corev1.PodRunning)})
	v.add("b", []any{memberPod("3", corev1.PodRunning), memberPod("9", corev1.PodRunning)})
	var got []string
	note := func(d Difference) { got = append(got, fmt.Sprint(d.How, " ", d.Object, " ", d.Members)) }
	for uid, phase := range map[string]corev1.PodPhase{"1": corev1.PodRunning, "2": corev1.PodRunning, "3": corev1.PodRunning, "4": corev1.PodPending, "5": corev1.PodSucceeded} {
		if d, differs := v.compare(slimPod(hostPod(uid, phase))); differs {
			note(d)
		}
	}
	for _, d := range v.rest() {
		note(d)
	}
	slices.Sort(got)
	want := []string{"doubled n/p3 [a b]", "extra n/p9 [a]", "extra n/p9 [b]", "missing n/p4 []", "unequal n/p2 [a]"}
	if !slices.Equal(got, want) || v.count != 6 {
		t.Errorf("%d pods: %q\nwant 6: %q", v.count, got, want)
	}
}

// listsFirst has an informer list before it watches: its watch brings no objects at first.
type listsFirst struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is how client-go asks.
func (listsFirst) IsWatchListSemanticsUnSupported() bool { return true }

// TestPodsAreKeptSlim holds that an informer keeps what slim makes of pods, and follows
// their changes and ends.
func TestPodsAreKeptSlim(t *testing.T) {
	events := apiwatch.NewFake()
	i := cache.NewSharedIndexInformer(listsFirst{&cache.ListWatch{
		ListFunc: func(metav1.ListOptions) (runtime.Object, error) {
			return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{*hostPod("1", corev1.PodPending), *hostPod("2", corev1.PodPending)}}, nil
		},
		WatchFunc: func(metav1.ListOptions) (apiwatch.Interface, error) { return events, nil },
	}}, &corev1.Pod{}, 0, cache.Indexers{})
	if err := i.SetTransform(slim); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() { i.RunWithContext(ctx) })
	defer wait.Wait()
	defer cancel()
	changed := hostPod("1", corev1.PodRunning)
	changed.ResourceVersion = "2"
	events.Modify(changed)
	gone := hostPod("2", corev1.PodPending)
	gone.ResourceVersion = "3"
	events.Delete(gone)
	repotest.Eventually(t, "one pod is left, as it was changed", func() bool {
		all := i.GetIndexer().List()
		if len(all) != 1 {
			return false
		}
		p, ok := all[0].(*pod)
		return ok && p.Name == "p1" && p.UID == "1" && p.ResourceVersion == "2" && p.sum == api.PodSum(&changed.Status)
	})
}

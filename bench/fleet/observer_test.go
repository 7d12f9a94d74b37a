package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func bytesOf(t *testing.T, o interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	return repotest.Must(o.Marshal())(t)
}

func TestPodsAreStampedOnce(t *testing.T) {
	o := newObserver(clock.Start())
	o.expectPods([]string{"a"})
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	see := func(kind watch.Kind, at clock.Time) {
		t.Helper()
		repotest.NoError(t, o.takePod(watch.Event{Kind: kind, Object: bytesOf(t, p), At: at}))
	}
	see(watch.Added, 1)
	p.Spec.NodeName = "n"
	see(watch.Modified, 2)
	p.Status.Phase = corev1.PodRunning
	see(watch.Modified, 3) // Running, but not Ready
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	see(watch.Modified, 4)
	see(watch.Modified, 5)
	see(watch.Deleted, 6)
	if got, want := o.podLives(), (life{created: 1, bound: 2, running: 4, gone: 6}); len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	p.Name = "stranger"
	see(watch.Added, 7)
	if c, _ := o.readCounts(); c.running != 1 || c.gone != 1 || len(o.podLives()) != 1 {
		t.Errorf("a pod that nobody expected was counted: %+v", c)
	}
	if o.takePod(watch.Event{Object: []byte{0xff}}) == nil {
		t.Error("broken bytes are no error")
	}
}

func TestNodesAreReadyBeforeTheyAreSchedulable(t *testing.T) {
	o := newObserver(clock.Start())
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node.kubernetes.io/not-ready"}}}}
	for i, want := range []counts{{}, {ready: 1}, {ready: 1, schedulable: 1}} {
		if i == 1 {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}
		if i == 2 {
			n.Spec.Taints = nil
		}
		repotest.NoError(t, o.takeNode(watch.Event{Kind: watch.Modified, Object: bytesOf(t, n), At: clock.Time(10 + i)}))
		if got, _ := o.readCounts(); got != want {
			t.Errorf("event %d: %+v, want %+v", i, got, want)
		}
	}
	if o.lastReady != 11 {
		t.Errorf("the last became Ready at %d, want 11", o.lastReady)
	}
}

func TestRenewalsAreReadFromRenewTime(t *testing.T) {
	o := newObserver(clock.Start())
	epoch := time.Now().Add(-time.Hour)
	renew := func(name string, after time.Duration) {
		t.Helper()
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: epoch.Add(after)}}}
		repotest.NoError(t, o.takeLease(watch.Event{Kind: watch.Modified, Object: bytesOf(t, l)}))
	}
	renew("a", 0)
	renew("a", 10*time.Second) // before the window
	o.recordRenewals(true)
	renew("b", 11*time.Second) // new: no interval
	renew("a", 20*time.Second)
	renew("a", 20*time.Second) // something else of the lease changed
	renew("a", 33*time.Second)
	intervals, ages := o.recordRenewals(false)
	if len(intervals) != 2 || intervals[0] != 10*time.Second || intervals[1] != 13*time.Second {
		t.Errorf("intervals %v, want 10 s and 13 s", intervals)
	}
	if len(ages) != 2 || min(ages[0], ages[1]) < 59*time.Minute {
		t.Errorf("ages %v, want both leases'", ages)
	}
	renew("a", 50*time.Second)
	if len(o.intervals) != 2 {
		t.Error("a renewal after the window was kept")
	}
}

func TestUntilGivesUpOnlyWhenNothingHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObserver(clock.Start())
		o.expectPods([]string{"a", "b"})
		go func() {
			for _, name := range []string{"a", "b"} {
				time.Sleep(45 * time.Second)
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
				raw, _ := p.Marshal()
				handler{o, o.takePod, new(error)}.Event(watch.Event{Kind: watch.Deleted, Object: raw, At: o.clock.Now()})
			}
		}()
		all := func(c counts) bool { return c.gone == 2 }
		if c, err := o.awaitCounts(t.Context(), time.Minute, all); err != nil || c.gone != 2 {
			t.Errorf("%+v, %v: want it to wait for both", c, err)
		}
		o.expectPods([]string{"c"})
		begin := o.clock.Now()
		if c, err := o.awaitCounts(t.Context(), time.Minute, all); err != nil || c.gone != 0 || o.clock.Now().Sub(begin) > 2*time.Minute {
			t.Errorf("%+v, %v: want it to give up", c, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := o.awaitCounts(ctx, time.Minute, all); err == nil {
			t.Error("an ended context is no error")
		}
	})
}

package loop_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
)

func TestFailuresGoAgainWithGrowingDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var at []time.Duration
		begin := time.Now()
		l := loop.New(loop.Options{Name: "q", Threads: 3, Log: slog.New(slog.DiscardHandler), Reconcile: func(_ context.Context, key string) error {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(begin))
			if len(at) < 5 {
				return errors.New("no")
			}
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		l.Queue.Add("a")
		done := make(chan struct{})
		go func() { defer close(done); l.Run(ctx) }()
		time.Sleep(time.Minute)
		cancel()
		<-done
		if len(at) != 5 || at[4] < 70*time.Millisecond || at[4] > 200*time.Millisecond {
			t.Errorf("worked at %v, want five times within 5+10+20+40 ms", at)
		}
		repotest.Equal(t, l.Queue.NumRequeues("a"), 0, "failures remembered after a success")
	})
}

// TestHandler holds what is said of an object that comes, changes and goes, also where nobody
// saw it go.
func TestHandler(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}}
	later := pod.DeepCopy()
	var said [][2]*corev1.Pod
	h := loop.Handler(func(old, now *corev1.Pod) { said = append(said, [2]*corev1.Pod{old, now}) })
	h.OnAdd(pod, false)
	h.OnUpdate(pod, later)
	h.OnDelete(later)
	h.OnDelete(cache.DeletedFinalStateUnknown{Key: "n/p", Obj: pod})
	h.OnDelete(cache.DeletedFinalStateUnknown{Key: "n/p"}) // nobody knows what it was
	if want := [][2]*corev1.Pod{{nil, pod}, {pod, later}, {later, nil}, {pod, nil}}; !slices.Equal(said, want) {
		t.Errorf("said %v, want %v", said, want)
	}
	repotest.Equal(t, loop.Key(pod), "n/p", "the key")
}

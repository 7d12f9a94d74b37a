package lifecycle

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// BenchmarkPod is what a pod costs that is created, bound and ready: three events.
func BenchmarkPod(b *testing.B) {
	records, err := record.Create(filepath.Join(b.TempDir(), "r.wt"))
	repotest.NoError(b, err)
	defer records.Close()
	p := NewProbe(records, clock.Start())
	for i := range 1000 {
		p.addAnswer(answer{uint64(1000 * i), clock.Time(i), clock.Time(i)})
	}
	o := New(records).WithProbe(p)
	h := handler{o, clock.Start()}
	h.ListBegin(false, "")
	h.ListEnd()
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "uid-000000000000000000000000000000000"}}
	states := make([][]byte, 3)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := 0
	for b.Loop() {
		b.StopTimer()
		pod.UID, pod.Spec.NodeName, pod.Status = types.UID(fmt.Sprintf("uid-%032d", n)), "", corev1.PodStatus{}
		n++
		for i := range states {
			if i > 0 {
				pod.Spec.NodeName = "node"
			}
			if i > 1 {
				pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: "Ready", Status: "True"}}}
			}
			if states[i], err = pod.Marshal(); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		for i, raw := range states {
			h.Event(watch.Event{Kind: watch.Added + watch.Kind(min(i, 1)), Object: raw, At: clock.Time(n), Version: uint64(n)})
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/pod")
	runtime.KeepAlive(o)
}

// BenchmarkDeclared is what an object of a declared lifecycle costs with three
// phases that come about in three events.
func BenchmarkDeclared(b *testing.B) {
	s := newScript(b, scenario.Lifecycle{Name: "m", Of: "machines.example.org", Phases: []scenario.Phase{
		{Name: "scheduled", When: `self.status.phase in ["Scheduled", "Running"]`}, {Name: "running", When: `self.status.phase == "Running"`}, {Condition: "Ready"}}}, nil)
	s.play("0 own LIST; 0 own END")
	n := 0
	for b.Loop() {
		b.StopTimer()
		n++
		var raws [][]byte
		for _, state := range [][]string{{}, {"phase=Scheduled"}, {"phase=Running", "cond=Ready"}} {
			raws = append(raws, jsonObject(b, fmt.Sprintf("m%d", n), state))
		}
		b.StartTimer()
		for i, raw := range raws {
			head := repotest.Must(decodeHead(raw))(b)
			s.tracker.own.takeEvent(watch.Event{Kind: watch.Added + watch.Kind(min(i, 1)), Object: raw, At: clock.Time(n)}, head)
		}
	}
	repotest.NoError(b, s.records.Close())
}

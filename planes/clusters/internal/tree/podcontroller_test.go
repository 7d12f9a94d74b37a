package tree

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
)

// TestWrongPodWritesAreCounted holds what is counted of a write on the hub: whether the
// member's pod, or the one that is gone, was made for the hub's pod or for another.
func TestWrongPodWritesAreCounted(t *testing.T) {
	hub := &hubPod{ObjectMeta: metav1.ObjectMeta{UID: "b"}}
	pair := func(of string) podPair { return podPair{hub: hub, member: &memberPod{own: true, hubUID: of}} }
	gone := func(of string) podPair { return podPair{hub: hub, finished: &of} }
	for _, c := range []struct {
		pair                     podPair
		action                   podAction
		puts, deletes, unchanged float64
	}{
		{pair("b"), podWriteStatus, 0, 0, 0},
		{pair("a"), podWriteStatus, 1, 0, 0},
		{gone("b"), podDeleteOnHub, 0, 0, 0},
		{gone("a"), podDeleteOnHub, 0, 1, 0},
		{gone("a"), podRequeueDown, 0, 0, 0},
		{pair("b"), podKeepStatus, 0, 0, 1},
		{pair("b"), podDelete, 0, 0, 1},
		{pair("b"), podNothing, 0, 0, 0},
	} {
		r := instrument.New("")
		controller := &podController{tree: &tree{metrics: newMetrics(&leaves{}, r)}}
		controller.countUp(c.pair, c.action)
		for metric, want := range map[[2]string]float64{
			{"tree_wrong_pod_writes_total", "verb=PUT"}: c.puts, {"tree_wrong_pod_writes_total", "verb=DELETE"}: c.deletes,
			{"tree_pod_statuses_total", "result=unchanged"}: c.unchanged,
		} {
			if got := instrumenttest.Measured(t, r, metric[0], metric[1]).Value; got != want {
				t.Errorf("%s of %v: %s{%s} is %v, want %v", c.action, c.pair, metric[0], metric[1], got, want)
			}
		}
	}
}

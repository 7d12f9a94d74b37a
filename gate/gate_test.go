package gate_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/gate"
)

func TestFindings(t *testing.T) {
	object := func(name string, finalizers ...string) gate.Object {
		return gate.Object{Resource: "pods", Namespace: "n", Name: name, Finalizers: finalizers}
	}
	for _, tt := range []struct {
		name  string
		facts gate.Facts
		want  []string
	}{
		{"nothing is known, nothing is wrong", gate.Facts{}, nil},
		{"terminating", gate.Facts{Terminating: []gate.Object{object("a"), object("b"), object("c", "x/y"), object("d"), object("e"), {Resource: "namespaces", Name: "n", Finalizers: []string{"kubernetes"}}}}, []string{
			"1 namespaces terminating, held by finalizer kubernetes (n)",
			"4 pods terminating (n/a, n/b, n/d, ...)",
			"1 pods terminating, held by finalizer x/y (n/c)",
		}},
		{"queues", gate.Facts{Queues: map[string]float64{"kcm job": 0, "kcm deployment": 3}}, []string{"3 items wait in queue kcm deployment"}},
		{"CPU that is back", gate.Facts{CPU: map[string]float64{"etcd": 0.14, "kcm": 0.6}, Before: map[string]float64{"etcd": 0.05, "kcm": 0.45}}, nil},
		{"CPU that is not", gate.Facts{CPU: map[string]float64{"etcd": 0.16, "new": 2}, Before: map[string]float64{"etcd": 0.05}},
			[]string{"etcd uses 0.16 cores, before the first step it was 0.05"}},
		{"what could not be read", gate.Facts{Unread: []string{"pods: 403"}}, []string{"pods: 403"}},
	} {
		if got := gate.Findings(tt.facts); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

func TestClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, left := time.Now(), 3
		err := gate.Clean(t.Context(), time.Second, func(context.Context) gate.Facts {
			left--
			return gate.Facts{Queues: map[string]float64{"q": float64(left)}}
		})
		if err != nil || left != 0 || time.Since(begin) != 2*time.Second {
			t.Errorf("%v with %d left after %v", err, left, time.Since(begin))
		}
		late := errors.New("late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, late)
		defer cancel()
		err = gate.Clean(ctx, time.Second, func(context.Context) gate.Facts { return gate.Facts{Queues: map[string]float64{"q": 1}} })
		if !errors.Is(err, late) || !errors.Is(err, gate.ErrNotQuiet) || !strings.Contains(err.Error(), "1 items wait in queue q") {
			t.Error(err)
		}
	})
}

func TestQueueDepths(t *testing.T) {
	got := gate.QueueDepths("# HELP workqueue_depth x\nworkqueue_depth{name=\"job\"} 3\nworkqueue_depth{controller=\"a\",name=\"dep\"} 0\n" +
		"workqueue_depth{name=\"dep\",shard=\"1\"} 1e1\nworkqueue_adds_total{name=\"job\"} 9\nworkqueue_depth{name=\"broken\nworkqueue_depth{name=\"x\"} y\n")
	if want := map[string]float64{"job": 3, "dep": 10}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

func instance(name string, phase api.Phase) *api.Instance {
	vmi := &api.Instance{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", UID: types.UID("uid-" + name)}}
	vmi.Status.Phase = phase
	return vmi
}

func TestWhatAnAgentDoes(t *testing.T) {
	gone := &metav1.Time{Time: time.Unix(1, 0)}
	for _, c := range []struct {
		phase   api.Phase
		state   state
		deleted bool
		ending  bool // its launcher pod
		clean   bool
		waited  time.Duration
		want    api.Phase
		do      action
		address bool
	}{
		{phase: api.Scheduling, want: api.Scheduling, do: nothing},
		{phase: api.Scheduled, want: api.Scheduled, do: start},
		{phase: api.Scheduled, state: starting, want: api.Scheduled, do: nothing},
		{phase: api.Scheduled, state: starting, waited: 241 * time.Second, want: api.Failed, do: forget},
		{phase: api.Scheduled, state: starting, waited: 239 * time.Second, want: api.Scheduled, do: nothing},
		{phase: api.Scheduled, waited: 241 * time.Second, want: api.Failed, do: forget}, // before a worker came to it
		{phase: api.Scheduled, state: running, waited: 241 * time.Second, want: api.Running, do: nothing},
		{phase: api.Scheduled, state: running, want: api.Running, do: nothing},
		{phase: api.Scheduled, state: broken, want: api.Failed, do: forget},
		{phase: api.Running, want: api.Running, do: adopt},
		{phase: api.Running, state: running, want: api.Running, do: nothing},
		{phase: api.Running, state: answering, want: api.Running, do: nothing, address: true},
		{phase: api.Running, state: answering, deleted: true, want: api.Running, do: stop},
		{phase: api.Running, state: stopping, deleted: true, want: api.Running, do: nothing},
		{phase: api.Running, state: stopped, deleted: true, want: api.Running, do: unmount},
		{phase: api.Running, state: stopped, deleted: true, clean: true, want: api.Succeeded, do: nothing},
		{phase: api.Running, deleted: true, want: api.Running, do: adopt},
		{phase: api.Scheduled, state: starting, deleted: true, want: api.Scheduled, do: stop},
		{phase: api.Scheduled, deleted: true, want: api.Scheduled, do: unmount},
		{phase: api.Scheduled, state: stopped, deleted: true, clean: true, want: api.Failed, do: nothing},
		{phase: api.Running, state: answering, ending: true, want: api.Running, do: stop},
		{phase: api.Running, state: running, ending: true, want: api.Running, do: stop},
		{phase: api.Running, state: stopping, ending: true, want: api.Running, do: nothing},
		{phase: api.Running, ending: true, want: api.Running, do: adopt},
		{phase: api.Running, state: stopped, ending: true, want: api.Running, do: unmount},
		{phase: api.Running, state: stopped, ending: true, clean: true, want: api.Succeeded, do: nothing},
		{phase: api.Scheduled, ending: true, want: api.Scheduled, do: unmount},
		{phase: api.Scheduled, state: starting, ending: true, want: api.Scheduled, do: stop},
		{phase: api.Scheduled, state: stopped, ending: true, clean: true, want: api.Failed, do: nothing},
		{phase: api.Succeeded, ending: true, want: api.Succeeded, do: forget},
		{phase: api.Scheduling, ending: true, want: api.Scheduling, do: nothing},
		{phase: api.Failed, state: running, want: api.Failed, do: forget},
		{phase: api.Succeeded, deleted: true, want: api.Succeeded, do: forget},
	} {
		vmi := instance("v", c.phase)
		if c.deleted {
			vmi.DeletionTimestamp = gone
		}
		if c.waited > 0 {
			vmi.Status.PhaseTransitionTimestamps = []api.PhaseTime{{Phase: api.Scheduled, MicroTime: metav1.NewMicroTime(time.Unix(100, 0).Add(-c.waited))}}
		}
		v := view{vmi: vmi, state: c.state, timeout: 240 * time.Second, clean: c.clean, ending: c.ending, address: "10.0.0.1", now: time.Unix(100, 0)}
		got, do := v.nextAction()
		name := fmt.Sprintf("%s, machine %d, deleted %v, pod ends %v", c.phase, c.state, c.deleted, c.ending)
		if got.Status.Phase != c.want || do != c.do {
			t.Errorf("%s: %s and %d, want %s and %d", name, got.Status.Phase, do, c.want, c.do)
		}
		if has := len(got.Status.Interfaces) > 0; has != c.address {
			t.Errorf("%s: addresses %v", name, got.Status.Interfaces)
		}
	}
}

// told collects what domains tell.
type told struct {
	mu   sync.Mutex
	keys []string
}

func (t *told) changed(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keys = append(t.keys, key)
}

func TestStartsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Model{Concurrency: 2, Start: 4 * time.Second, Guest: time.Second, Stop: 2 * time.Second, Bandwidth: 1}
		var heard told
		d := newDomains(modelled{dice{1, m}}, m.Concurrency, heard.changed)
		ctx, cancel := context.WithCancel(t.Context())
		var all []*api.Instance
		for i := range 6 {
			vmi := instance(fmt.Sprint(i), api.Scheduled)
			all = append(all, vmi)
			d.startMachine(ctx, vmi)
			d.startMachine(ctx, vmi) // asked twice, started once
		}
		in := func(want state) (n int) {
			for _, vmi := range all {
				if d.stateOf(vmi.UID) == want {
					n++
				}
			}
			return n
		}
		for step, want := range []int{0, 2, 4, 6} { // two every 4 s
			synctest.Wait()
			if got := 6 - in(starting); got != want {
				t.Errorf("after %d s %d have started, want %d", 4*step, got, want)
			}
			time.Sleep(4 * time.Second)
		}
		repotest.Equal(t, in(answering), 6, "guests answer")
		d.stopMachine(ctx, all[0])
		repotest.Equal(t, d.stateOf(all[0].UID), stopping, "state")
		time.Sleep(3 * time.Second)
		repotest.Equal(t, d.stateOf(all[0].UID), stopped, "state")
		late := instance("late", api.Scheduled)
		d.startMachine(ctx, late)
		time.Sleep(time.Second)
		d.stopMachine(ctx, late) // before it has started
		time.Sleep(10 * time.Second)
		repotest.Equal(t, d.stateOf(late.UID), stopped, "stopped while it started: state")
		cancel()
		d.wait.Wait()
		if want := 6*2 + 1 + 1; len(heard.keys) != want {
			t.Errorf("told %d times, want %d: %v", len(heard.keys), want, heard.keys)
		}
	})
}

// TestAStartHoldsAWorker lets two workers look at six instances that are to start, with slots
// for all: as KubeVirt's, they start two at a time, and nothing of the others happens meanwhile.
func TestAStartHoldsAWorker(t *testing.T) {
	for starts, want := range map[string][]int{StartsWorker: {2, 4, 6}, StartsSlot: {6}} {
		synctest.Test(t, func(t *testing.T) {
			m := Model{Concurrency: 6, Start: 4 * time.Second, Guest: time.Second, Bandwidth: 1}
			n := &node{Agents: &Agents{o: Options{Starts: starts, Model: m, QEMUTimeout: time.Minute}}, events: record.NewFakeRecorder(6)}
			n.domains = newDomains(modelled{dice{1, m}}, m.Concurrency, func(string) {})
			ctx, cancel := context.WithCancel(t.Context())
			n.loop = loop.New(loop.Options{Name: "vm", Threads: 2, Log: slog.New(slog.DiscardHandler), Reconcile: func(ctx context.Context, key string) error {
				return n.doAction(ctx, key, instance(key, api.Scheduled), start)
			}})
			for i := range 6 {
				n.loop.Queue.Add(fmt.Sprint(i))
			}
			done := make(chan struct{})
			go func() { defer close(done); n.loop.Run(ctx) }()
			for step, known := range want { // one step is a start
				synctest.Wait()
				n.domains.mu.Lock()
				if got := len(n.domains.byUID); got != known {
					t.Errorf("%s: after %d s %d have begun to start, want %d", starts, 4*step, got, known)
				}
				n.domains.mu.Unlock()
				time.Sleep(4 * time.Second)
			}
			cancel()
			<-done
			n.domains.wait.Wait()
		})
	}
}

// TestAStartEndsForItsWorker holds that a worker does not wait for a machine that is stopped
// while it starts, nor for longer than its launcher.
func TestAStartEndsForItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Model{Concurrency: 1, Start: time.Hour, Bandwidth: 1}
		d := newDomains(modelled{dice{1, m}}, m.Concurrency, func(string) {})
		ctx, cancel := context.WithCancel(t.Context())
		stopped, kept := instance("stopped", api.Scheduled), instance("kept", api.Scheduled)
		over := d.startMachine(ctx, stopped)
		d.stopMachine(ctx, stopped)
		begin := time.Now()
		awaitStart(ctx, over, 0)
		awaitStart(ctx, d.startMachine(ctx, kept), time.Minute)
		awaitStart(ctx, d.startMachine(ctx, kept), 0) // it starts already
		repotest.Equal(t, time.Since(begin), time.Minute, "workers waited for")
		cancel()
		d.wait.Wait()
	})
}

func TestModelDrawsAlikeForOneSeed(t *testing.T) {
	m := DefaultModel()
	vmi := instance("v", api.Scheduled)
	a, b := dice{1, m}, dice{2, m}
	if a.drawDuration(vmi, "start", m.Start) != a.drawDuration(vmi, "start", m.Start) || a.drawDuration(vmi, "start", m.Start) == b.drawDuration(vmi, "start", m.Start) { //nolint:staticcheck // twice is the question
		t.Error("draws do not follow from the seed")
	}
	var sum time.Duration
	hits := 0
	const n = 2000
	for i := range n {
		x := instance(fmt.Sprint(i), api.Scheduled)
		sum += a.drawDuration(x, "start", m.Start)
		if a.isHit(x, "unmount", 0.2) {
			hits++
		}
	}
	// The mean of this distribution is exp(0.25²/2) = 1.032 times its median.
	if mean := (sum / n).Seconds(); mean < 4.06 || mean > 4.2 {
		t.Errorf("mean %.3f s", mean)
	}
	if hits < n/5-80 || hits > n/5+80 {
		t.Errorf("%d of %d are hit, want a fifth", hits, n)
	}
}

// A program that does nothing stands for QEMU, which few machines have: what is
// tested is that processes begin, and end with their machine and their agent.
func TestProcessesEndWithTheirMachines(t *testing.T) {
	folder := t.TempDir()
	script := "#!/bin/sh\necho $$ >> " + filepath.Join(folder, "pids") + "\nexec sleep 60\n"
	repotest.NoError(t, os.WriteFile(filepath.Join(folder, qemuBinary), []byte(script), 0o700))
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	q := repotest.Must(newQEMU(dice{1, DefaultModel()}))(t)
	a, b := instance("a", api.Scheduled), instance("b", api.Scheduled)
	ctx, cancel := context.WithCancel(t.Context())
	repotest.NoError(t, errors.Join(q.Start(ctx, a), q.Guest(ctx, a), q.Guest(ctx, b)))
	if len(q.live) != 2 {
		t.Fatalf("%d processes", len(q.live))
	}
	first, second := q.live[a.UID], q.live[b.UID]
	repotest.NoError(t, q.Stop(ctx, a))
	<-first.done
	cancel()
	<-second.done
	q.Close()
	t.Setenv("PATH", t.TempDir())
	if _, err := newQEMU(dice{}); !errors.Is(err, ErrNoQEMU) {
		t.Errorf("without QEMU: %v", err)
	}
}

// TestAPodWaitsForItsAgent holds that a pod that is to end is looked at again, and not
// ended, until its node's agent has heard of all instances: one of them may be in it. Of
// another's node nothing is waited for.
func TestAPodWaitsForItsAgent(t *testing.T) {
	store := func() cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{})
	}
	for name, c := range map[string]struct {
		known bool
		agent *node
		waits bool
	}{
		"no agent yet":            {known: true, waits: true},
		"an agent that must hear": {known: true, agent: &node{}, waits: true},
		"another's node":          {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &Agents{nodeInformer: store(), pods: store(), byNode: map[string]*node{}} // without a client: to end a pod is to fail
				a.podLoop = loop.New(loop.Options{Name: "pods", Reconcile: a.endPod, Log: slog.New(slog.DiscardHandler)})
				defer a.podLoop.Queue.ShutDown()
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}}
				pod.Spec.NodeName = "one"
				errs := []error{a.pods.GetIndexer().Add(pod)}
				if c.known {
					errs = append(errs, a.nodeInformer.GetIndexer().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}))
				}
				if c.agent != nil {
					a.byNode["one"] = c.agent
				}
				repotest.NoError(t, errors.Join(append(errs, a.endPod(t.Context(), "n/p"))...))
				time.Sleep(time.Minute)
				if n := a.podLoop.Queue.Len(); (n == 1) != c.waits || n > 1 {
					t.Errorf("%d keys wait, want one: %v", n, c.waits)
				}
			})
		})
	}
}

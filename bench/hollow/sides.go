package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/scenario"
)

// measureHollow measures hollow clusters.
func measureHollow(ctx context.Context, w work) (f Figures, err error) {
	if err := inOwnProcess("start-hollow", &f); err != nil {
		return f, err
	}
	if err := w.measureIdle(ctx, &f); err != nil {
		return f, fmt.Errorf("idle clusters: %w", err)
	}
	if err := w.measureMany(ctx, &f); err != nil {
		return f, fmt.Errorf("%d clusters: %w", w.many, err)
	}
	s, err := startServer(1)
	if err != nil {
		return f, err
	}
	defer s.Close()
	return f, w.measureLoaded(ctx, target{endpoint: s.endpointOf(0), cost: s.askCost}, &f)
}

// measureLoaded measures a server with objects and watchers.
func (w work) measureLoaded(ctx context.Context, t target, f *Figures) error {
	if err := w.measureCreates(ctx, t, f); err != nil {
		return err
	}
	return w.measureWatches(ctx, t, f)
}

// measurePair measures a kube-apiserver with its etcd: those of kube-plane, whose
// scheduler and controller manager are ended, stand for what other test frameworks
// start for each suite.
func measurePair(ctx context.Context, w work, binary string) (f Figures, err error) {
	logs, err := os.MkdirTemp("", "windtunnel-bench-")
	if err != nil {
		return f, fmt.Errorf("make a folder for logs: %w", err)
	}
	defer os.RemoveAll(logs)
	c := clock.Start()
	p, err := plane.Start(ctx, scenario.Plane{}, plane.Options{LogDir: logs, Executable: binary, Clock: c})
	if err != nil {
		return f, err
	}
	defer p.Close()
	f.Start = c.Now().Seconds()
	f.StartWorst = f.Start
	var pids []int
	for _, part := range p.Components() {
		if part.Name == "etcd" || part.Name == "kube-apiserver" {
			pids = append(pids, part.PID)
		} else if err := part.Kill(); err != nil {
			return f, err
		}
	}
	t := target{endpoint: p.Endpoint(plane.Admin), cost: func() (Cost, error) { return costOf(pids) }}
	idle, err := idleClient(ctx, t.endpoint)
	if err != nil {
		return f, err
	}
	cost, err := t.cost()
	if err := errors.Join(err, idle.Close()); err != nil {
		return f, err
	}
	f.Idle1 = float64(cost.Resident)
	return f, w.measureLoaded(ctx, t, &f)
}

// costOf returns what processes have used together.
func costOf(pids []int) (c Cost, err error) {
	for _, pid := range pids {
		u, err := usage.Of(pid)
		if err != nil {
			return c, err
		}
		c.CPU += u.CPUSeconds
		c.Resident += int64(u.Resident)
	}
	return c, nil
}

// peakMemory returns the most memory that a process has had resident.
func peakMemory(pid int) (float64, error) {
	u, err := usage.Of(pid)
	return float64(u.Peak), err
}

// inOwnProcess lets a process of its own fill in figures.
func inOwnProcess(side string, f *Figures, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("own executable: %w", err)
	}
	cmd := exec.Command(self, append([]string{"-side", side}, args...)...)
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", side, err)
	}
	if err := json.Unmarshal(raw, f); err != nil {
		return fmt.Errorf("%s: %w", side, err)
	}
	return nil
}

// starts is how often a start is measured.
const starts = 100

// measureStart measures how long it takes from nothing to the first answer.
func measureStart(ctx context.Context, start func() (kubernetes.Interface, func() error, error)) (f Figures, err error) {
	var took []time.Duration
	for range starts {
		c := clock.Start()
		client, end, err := start()
		if err != nil {
			return f, err
		}
		_, err = client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		took = append(took, time.Duration(c.Now()))
		if err := errors.Join(err, end()); err != nil {
			return f, err
		}
	}
	f.Start, f.StartWorst = medianSeconds(took), took[0].Seconds()
	return f, nil
}

// startHollow starts a cluster as a Go test does.
func startHollow() (kubernetes.Interface, func() error, error) {
	s, err := hollow.New(hollow.Options{})
	if err != nil {
		return nil, nil, err
	}
	c, err := s.Cluster("one")
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	client, err := kubernetes.NewForConfig(c.Endpoint().Config("bench"))
	return client, s.Close, err
}

func startFake() (kubernetes.Interface, func() error, error) {
	return fake.NewClientset(), func() error { return nil }, nil
}

// inProcess measures client-go's fake, in this process: the client's share of a
// call is in its figures, but there is hardly one.
func inProcess(ctx context.Context, w work) (f Figures, err error) {
	if f, err = measureStart(ctx, startFake); err != nil {
		return f, err
	}
	client := fake.NewClientset()
	pods := client.CoreV1().Pods("default")
	fill := func(n int) error {
		for i := range n {
			if _, err := pods.Create(ctx, newPod(i), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create in the fake: %w", err)
			}
		}
		return nil
	}
	before, err := ownCost()
	if err != nil {
		return f, err
	}
	begin := process.OwnCPU().Seconds()
	if err := fill(w.objects); err != nil {
		return f, err
	}
	f.CreateProto = (process.OwnCPU().Seconds() - begin) * 1e6 / float64(w.objects)
	after, err := ownCost()
	if err != nil {
		return f, err
	}
	runtime.KeepAlive(client)
	raw, err := newPod(0).Marshal()
	if err != nil {
		return f, err
	}
	f.Encoded = float64(len(raw))
	f.Overhead = float64(after.InUse-before.InUse)/float64(w.objects) - f.Encoded
	f.WatchProto, err = watchFake(ctx, w)
	return f, err
}

// watchFake measures an event of the fake for each watcher. A watcher of the fake
// holds a hundred events, and those that are there at its begin count.
func watchFake(ctx context.Context, w work) (float64, error) {
	n := min(w.events, int(watch.DefaultChanSize/2))
	fill := func(client kubernetes.Interface) error {
		for i := range n {
			if _, err := client.CoreV1().Pods("default").Create(ctx, newPod(i), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create in the fake: %w", err)
			}
		}
		return nil
	}
	if err := fill(fake.NewClientset()); err != nil { // warm
		return 0, err
	}
	begin := process.OwnCPU().Seconds()
	if err := fill(fake.NewClientset()); err != nil {
		return 0, err
	}
	without := process.OwnCPU().Seconds() - begin
	client := fake.NewClientset()
	var seen atomic.Int64
	var wait sync.WaitGroup
	var open []watch.Interface
	for range w.watchers {
		one, err := client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, fmt.Errorf("watch the fake: %w", err)
		}
		open = append(open, one)
		wait.Go(func() {
			for e := range one.ResultChan() {
				if _, ok := e.Object.(*corev1.Pod); ok {
					seen.Add(1)
				}
			}
		})
	}
	begin = process.OwnCPU().Seconds()
	if err := fill(client); err != nil {
		return 0, err
	}
	for seen.Load() < int64(n*w.watchers) {
		time.Sleep(time.Millisecond)
	}
	with := process.OwnCPU().Seconds() - begin
	for _, one := range open {
		one.Stop()
	}
	wait.Wait()
	return (with - without) * 1e6 / float64(n*w.watchers), nil
}

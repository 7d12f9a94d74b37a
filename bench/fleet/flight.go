package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/scenario"
)

// flight is one side on one fresh plane.
type flight struct {
	options  options
	clock    clock.Clock
	side     *running
	plane    *plane.Plane
	requests *requests
	seen     *observer
	idle     float64 // CPU seconds a second of the side while only leases are renewed
	fewer    memory  // of the side, with the pods that were asked for at a rate
	out      measures
}

// planeSpec is what both sides fly on: stock, but for its clients' own limits, which
// would otherwise be what is measured.
func (o options) planeSpec() scenario.Plane {
	calls := strconv.Itoa(o.calls)
	own := scenario.Component{Flags: map[string]string{"kube-api-qps": calls, "kube-api-burst": calls}}
	return scenario.Plane{
		Durability: "memory",
		Components: map[string]scenario.Component{component.Scheduler: own, component.ControllerManager: own},
	}
}

// flySide boots a plane, starts the side and takes it through the phases. Whatever
// ends it, plane, side and files are gone afterwards.
func flySide(ctx context.Context, s side, o options) (out measures, err error) {
	reaper, err := process.StartReaper(o.bin, os.TempDir())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reaper.Close()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := clock.Start()
	p, err := plane.Start(ctx, o.planeSpec(), plane.Options{LogDir: filepath.Join(reaper.Dir(), "logs"), Executable: o.bin, Clock: c})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	f := &flight{options: o, clock: c, plane: p, seen: newObserver(c), out: measures{}}
	if f.requests, err = newRequests(p.Endpoint(plane.Load), c); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.requests.Close()) }()
	if err := f.requests.makeNamespace(ctx); err != nil {
		return nil, err
	}
	watches, err := wire.New(p.Endpoint(plane.Observe), wire.Options{UserAgent: "bench-fleet", Clock: c})
	if err != nil {
		return nil, err
	}
	defer watches.Close()
	kubeconfig := filepath.Join(reaper.Dir(), "kubeconfig")
	if err := p.Endpoint(plane.Admin).WriteKubeconfig(kubeconfig); err != nil {
		return nil, err
	}
	if f.side, err = s.startSide(kubeconfig, reaper); err != nil {
		return nil, err
	}
	defer f.side.Stop(5 * time.Second)
	end := f.watchComponents(ctx, cancel, watches)
	err = f.runPhases(ctx)
	cancel(err)
	return f.out, errors.Join(err, end())
}

// watchComponents follows the plane and the side and ends the flight when one of them
// ends. The function that it returns waits for the followers.
func (f *flight) watchComponents(ctx context.Context, cancel context.CancelCauseFunc, watches *wire.Client) (end func() error) {
	dead, watched := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(dead)
		select {
		case <-f.side.Done():
			cancel(fmt.Errorf("the side's process ended: %w", f.side.Err()))
		case d := <-f.plane.Died():
			cancel(fmt.Errorf("the plane's %s ended: %w", d.Component, d.Err))
		case <-ctx.Done():
		}
	}()
	go func() {
		err := f.seen.followObjects(ctx, watches)
		if err != nil {
			cancel(err)
		}
		watched <- err
	}()
	return func() error {
		<-dead
		return <-watched
	}
}

// meter is what the side and the API server had used at a moment, or between
// two: at is then how long.
type meter struct {
	at        clock.Time
	side, api float64 // CPU seconds
}

func (f *flight) readMeter() (m meter, err error) {
	side, err := usage.Of(f.side.PID())
	if err != nil {
		return m, err
	}
	server, _ := f.plane.Component(component.APIServer)
	api, err := usage.Of(server.PID)
	return meter{f.clock.Now(), side.CPUSeconds, api.CPUSeconds}, err
}

// othersCPU returns the CPU seconds that the machine has worked for nobody of this
// flight: what disturbs it.
func (f *flight) othersCPU() (float64, error) {
	rest := usage.Busy()
	pids := []int{os.Getpid(), f.side.PID()}
	for _, c := range f.plane.Components() {
		pids = append(pids, c.PID)
	}
	for _, pid := range pids {
		u, err := usage.Of(pid)
		if err != nil {
			return 0, err
		}
		rest -= u.CPUSeconds
	}
	return rest, nil
}

// usedSince returns what was used from m until now.
func (f *flight) usedSince(m meter) (used meter, err error) {
	now, err := f.readMeter()
	return meter{clock.Time(now.at.Sub(m.at)), now.side - m.side, now.api - m.api}, err
}

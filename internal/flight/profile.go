package flight

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/windtunnel/windtunnel/internal/observe/profile"
	"github.com/windtunnel/windtunnel/internal/observe/usage"
)

// profile keeps profiles of the plane's busy components from now until stop is
// called: of those that windtunnel started, since of others it is not known how
// busy they are, and they may be somebody's.
func (r *run) profile(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		profile.Run(ctx, r.profiled(), profile.Options{
			Folder: r.dir.File(profile.Folder), Log: r.log,
			Taken: r.journal().Profiled,
		})
	})
	return func() { cancel(); wait.Wait() }
}

func (r *run) profiled() (out []profile.Target) {
	for _, c := range r.plane.Components() {
		if c.PID == 0 || c.MetricsURL == "" {
			continue
		}
		client, _, err := c.Scrape.Client()
		if err != nil {
			continue // said when its metrics could not be read
		}
		t := profile.Target{Name: c.Name, URL: strings.TrimSuffix(c.MetricsURL, "/metrics"), Client: client, CPU: func() (float64, error) { return r.cpuOf(c.Name) }}
		if c.Limited {
			t.Limit = c.CPULimit
		}
		out = append(out, t)
	}
	return out
}

// cpuOf returns the CPU seconds of a component's process, which a fault may have
// replaced.
func (r *run) cpuOf(name string) (float64, error) {
	c, ok := r.plane.Component(name)
	if !ok {
		return 0, fmt.Errorf("%s: %w", name, usage.ErrGone)
	}
	u, err := usage.Of(c.PID)
	return u.CPUSeconds, err
}

package flight

import (
	"context"
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/internal/fly/observe/profile"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
)

// startProfiles keeps profiles of the plane's busy components from now until stop is
// called: of those that windtunnel started, since of others it is not known how
// busy they are, and they may be somebody's.
func startProfiles(ctx context.Context, p *plane.Plane, dir *directory) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wait guard.Group
	wait.Go(func() {
		profile.Run(ctx, profileTargets(p), profile.Options{
			Folder: dir.File(profile.Folder), Log: dir.log,
			Taken: dir.newJournal().Profiled,
		})
	})
	return func() { cancel(); wait.Wait() }
}

func profileTargets(p *plane.Plane) (out []profile.Target) {
	for _, c := range p.Components() {
		if c.PID == 0 || c.MetricsURL == "" {
			continue
		}
		client, _, err := c.Scrape.Client()
		if err != nil {
			continue // said when its metrics could not be read
		}
		t := profile.Target{Name: c.Name, URL: strings.TrimSuffix(c.MetricsURL, "/metrics"), Client: client, CPU: func() (float64, error) { return cpuSeconds(p, c.Name) }}
		if c.Limited {
			t.Limit = c.CPULimit
		}
		out = append(out, t)
	}
	return out
}

// cpuSeconds returns the CPU seconds of a component's process, which a fault may have
// replaced.
func cpuSeconds(p *plane.Plane, name string) (float64, error) {
	c, ok := p.Component(name)
	if !ok {
		return 0, fmt.Errorf("%s: %w", name, usage.ErrGone)
	}
	u, err := usage.Of(c.PID)
	return u.CPUSeconds, err
}

package flight

import (
	"context"
	"sync"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/observe/lifecycle"
	"github.com/windtunnel/windtunnel/internal/plane"
)

// observeLives starts to observe the lives that the scenario declares, and the
// pulse by which they and the pods' tell what a watch showed late. The pulse
// does not go the way of the watches: what holds these up is not to hold it up.
func (r *run) observeLives(watching context.Context, instruments *sync.WaitGroup) error {
	aside, err := wire.New(r.plane.Endpoint(plane.Admin), wire.Options{UserAgent: "windtunnel-observe", Clock: r.clock})
	if err != nil {
		return err
	}
	pulse := lifecycle.NewPulse(r.records, r.clock)
	declared, err := lifecycle.Declare(r.records, r.clock, pulse, r.scenario.Observed())
	if err != nil {
		_ = aside.Close()
		return err
	}
	r.life.WithPulse(pulse)
	r.lives = declared
	instruments.Go(func() {
		pulse.Run(watching, aside)
		_ = aside.Close()
	})
	instruments.Go(func() { declared.Run(watching, r.watcher, discovery.New(r.watcher)) })
	return nil
}

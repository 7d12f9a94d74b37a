package plane

import (
	"context"
	"fmt"
)

// Ready waits until every component that windtunnel started says that it is
// ready: after a fault. A component that is down is ErrEnded at once.
func (p *Plane) Ready(ctx context.Context) error {
	for _, s := range p.supervisors() {
		if err := s.awaitReady(ctx, s.currentProcess()); err != nil {
			return fmt.Errorf("wait for %s: %w", s.spec.Name, err)
		}
	}
	return nil
}

package tree

import (
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestRetry holds when what failed goes again: always after ten seconds, or sooner the
// seldomer it has failed.
func TestRetry(t *testing.T) {
	const ms = time.Millisecond
	for how, want := range map[string][]time.Duration{
		RetryFixed: {10 * time.Second, 10 * time.Second, 10 * time.Second},
		RetryGrows: {100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 10 * time.Second, 10 * time.Second},
	} {
		o := Default()
		o.Retry = how
		r := o.retryLimiter()
		for i, d := range want {
			repotest.Equal(t, r.When("key"), d, "%s: failure %d goes again after", how, i+1)
		}
		r.Forget("key")
		repotest.Equal(t, r.When("key"), want[0], "%s: after a success it goes again after", how)
	}
}

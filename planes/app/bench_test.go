package app_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
)

// BenchmarkStablePass is a pass over a light application that nobody changes, with a
// hub in memory whose own work is in it: look at it with -cpuprofile and
// go tool pprof -focus reconcile.
func BenchmarkStablePass(b *testing.B) {
	r, _ := hollowRig(b)
	c := r.run(func(o *controller.Options) {
		o.Resync, o.Workers = time.Millisecond, 1
		o.Limiter = limiter.Rate{QPS: 1e6, Burst: 1e6}
	})
	r.create("light", "light")
	repotest.Eventually(b, "it is running", func() bool { return r.get("light").Status.Phase == api.Running })
	before, spent := c.passes(), cpuTime(b)
	b.ResetTimer()
	for c.passes() < before+b.N { // each look costs as much as a pass
		time.Sleep(50 * time.Millisecond)
	}
	b.ReportMetric(float64((cpuTime(b)-spent).Microseconds())/1000/float64(c.passes()-before), "cpu-ms/pass")
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	repotest.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

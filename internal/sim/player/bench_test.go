package player

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

const idleStage = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: idle}
spec:
  resourceRef: {apiGroup: example.org/v1, kind: Widget}
  selector: {matchExpressions: [{key: .spec, operator: Exists}]}
`

// BenchmarkObjects measures the way of an object through the player, without calls to
// a server: its event, its stage, a worker's play, the result.
func BenchmarkObjects(b *testing.B) {
	f := repotest.Must(kwok.Load("stages.yaml", []byte(idleStage)))(b)
	m := repotest.Must(machine.Compile(f.Stages))(b)
	r := machine.Resource{APIVersion: "example.org/v1", Kind: "Widget"}
	p := benchPlayer(b, Options{Clock: clock.Start(), Log: slog.New(slog.DiscardHandler), Resource: r, Stages: m.Stages(r), Workers: 4})
	const count = 1000
	events := make([]watch.Event, count)
	for i := range events {
		raw := fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":"w-%d","uid":"uid-%d","resourceVersion":"%d"},"spec":{}}`, i, i, i+1)
		events[i] = watch.Event{Kind: watch.Added, Object: raw}
	}
	in := &reader{player: p, ctx: b.Context().Done(), rng: rand.New(rand.NewPCG(1, 2))}
	b.ReportAllocs()
	begin, rounds := cpuTime(), 0
	for b.Loop() {
		rounds++
		for _, e := range events {
			in.Event(e)
		}
		for p.Stats().Played < rounds*count {
			time.Sleep(100 * time.Microsecond)
		}
	}
	b.ReportMetric(float64(cpuTime()-begin)/float64(rounds*count), "cpu-ns/object")
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchPlayer(b *testing.B, o Options) *Player {
	p := newPlayer(o, discovery.Resource{})
	p.cancel = func() {}
	p.startWorkers(b.Context())
	b.Cleanup(p.wait.Wait)
	return p
}

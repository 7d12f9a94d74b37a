package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// breath is the pause between phases, for what a phase leaves over.
const breath = 2 * time.Second

// disturbed is how many cores others may keep busy before a flight is called
// disturbed.
const disturbed = 0.2

// runPhases takes the side through all phases.
func (f *flight) runPhases(ctx context.Context) error {
	start := f.clock.Now()
	before, err := f.othersCPU()
	if err != nil {
		return err
	}
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"nodes", f.bringUpNodes}, {"renewals", f.measureRenewals}, {"pods bound by the bench", f.runBoundPods},
		{"pods bound by the scheduler", f.runScheduledPods}, {"pods as fast as it goes", f.runManyPods},
	} {
		begin := f.clock.Now()
		if err := phase.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", phase.name, err)
		}
		printProgress("  %s: %.0f s", phase.name, f.clock.Now().Sub(begin).Seconds())
	}
	after, err := f.othersCPU()
	if err != nil {
		return err
	}
	cores := (after - before) / f.clock.Now().Sub(start).Seconds()
	if f.out["others_cores"] = cores; cores > disturbed {
		printProgress("  others kept %.1f cores busy meanwhile: do not trust these figures", cores)
	}
	u, err := usage.Of(f.side.PID())
	f.out["peak_rss_bytes"] = float64(u.Peak)
	_, gaps := f.seen.readMarks()
	f.out["watch_gaps"] = float64(gaps)
	return err
}

// bringUpNodes brings the nodes up in two halves, as fast as it goes. The first node
// only shows that the side is there.
func (f *flight) bringUpNodes(ctx context.Context) error {
	if err := f.bringUp(ctx, 0, 1); err != nil {
		return err
	}
	half := f.options.nodes / 2
	var made, seconds float64
	var used meter
	var rests [2]memory
	for i, span := range [][2]int{{1, half}, {half, f.options.nodes}} {
		if err := clock.Sleep(ctx, breath); err != nil {
			return err
		}
		begin, err := f.readMeter()
		if err != nil {
			return err
		}
		if err := f.bringUp(ctx, span[0], span[1]); err != nil {
			return err
		}
		u, err := f.usedSince(begin)
		if err != nil {
			return err
		}
		made += float64(span[1] - span[0])
		last, _ := f.seen.readMarks()
		seconds += last.Sub(begin.at).Seconds()
		used.side, used.api = used.side+u.side, used.api+u.api
		if rests[i], err = f.side.awaitSteadyMemory(ctx); err != nil {
			return err
		}
	}
	f.out["nodes_ready_per_second"] = made / seconds
	f.out["cpu_ms_per_node"] = 1000 * used.side / made
	f.out["apiserver_cpu_ms_per_node"] = 1000 * used.api / made
	f.putMargin("node", rests[0], rests[1], float64(f.options.nodes-half))
	return f.awaitSchedulable(ctx)
}

// bringUp creates the nodes from first on until before end, and waits until they
// are Ready and hold a lease.
func (f *flight) bringUp(ctx context.Context, first, end int) error {
	if err := f.requests.createNodes(ctx, first, end-first); err != nil {
		return err
	}
	c, err := f.seen.awaitCounts(ctx, f.options.patience, func(c counts) bool { return c.ready >= end && c.leases >= end })
	if err == nil && (c.ready < end || c.leases < end) {
		err = fmt.Errorf("of %d nodes %d are Ready and %d have a lease, and nothing happens any more; its last words: %s", end, c.ready, c.leases, strings.Join(f.side.LastWords(), "\n"))
	}
	return err
}

// awaitSchedulable waits until the plane has taken its taints off the nodes.
func (f *flight) awaitSchedulable(ctx context.Context) error {
	n := f.options.nodes
	c, err := f.seen.awaitCounts(ctx, f.options.patience, func(c counts) bool { return c.schedulable >= n })
	if err == nil && c.schedulable < n {
		err = fmt.Errorf("%d of %d nodes are schedulable, and nothing happens any more", c.schedulable, n)
	}
	return err
}

// putMargin keeps what one more node or pod takes, from the memory at two sizes.
func (f *flight) putMargin(what string, before, after memory, more float64) {
	f.out["rss_bytes_per_"+what] = (after.resident - before.resident) / more
	if before.live > 0 && after.live > 0 {
		f.out["live_bytes_per_"+what] = (after.live - before.live) / more
	}
}

// measureRenewals watches the side while it does nothing but renew leases.
func (f *flight) measureRenewals(ctx context.Context) error {
	every := f.options.lease / 4
	if err := clock.Sleep(ctx, every); err != nil {
		return err
	}
	begin, err := f.readMeter()
	if err != nil {
		return err
	}
	f.seen.recordRenewals(true)
	if err := clock.Sleep(ctx, f.options.window); err != nil {
		return err
	}
	intervals, ages := f.seen.recordRenewals(false)
	used, err := f.usedSince(begin)
	if err != nil {
		return err
	}
	n := float64(len(intervals))
	if n == 0 {
		return fmt.Errorf("no lease was renewed in %v", f.options.window)
	}
	f.idle = used.side / used.at.Seconds()
	f.out["cpu_ms_per_renewal"] = 1000 * used.side / n
	f.out["apiserver_cpu_ms_per_renewal"] = 1000 * used.api / n
	f.out["renewals_per_second"] = n / used.at.Seconds()
	late, expired := renewalLateness(intervals, ages, every, f.options.lease)
	f.out["renewal_lateness_p50_seconds"] = quantileOf(late, 0.5)
	f.out["renewal_lateness_p99_seconds"] = quantileOf(late, 0.99)
	f.out["renewal_lateness_max_seconds"] = quantileOf(late, 1)
	f.out["leases_expired"] = float64(expired)
	return nil
}

// renewalLateness is how much longer than a quarter of the lease it took from one
// renewal to the next; a kubelet's own jitter of 4 % is in it. Of intervals that
// have not ended (ages) it counts those that are already late. Expired are those
// longer than the lease.
func renewalLateness(intervals, ages []time.Duration, every, lease time.Duration) (late []float64, expired int) {
	for _, d := range intervals {
		late = append(late, (d - every).Seconds())
	}
	for _, d := range ages {
		if d > every {
			late = append(late, (d - every).Seconds())
		}
	}
	for _, d := range slices.Concat(intervals, ages) {
		if d > lease {
			expired++
		}
	}
	return late, expired
}

// quantileOf sorts its values and returns their q-quantile; 0 when there are none.
func quantileOf(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[stats.Rank(len(values), q)-1]
}

// flock is what became of many pods that were asked for.
type flock struct {
	names []string
	begin meter
	used  meter // from begin until all ran, or nothing happened any more
	lives []life
	lost  int // never ran
}

// runPods asks for pods and waits until they run.
func (f *flight) runPods(ctx context.Context, prefix string, n int, ask func(names []string) error) (k flock, err error) {
	for i := range n {
		k.names = append(k.names, fmt.Sprintf("%s-%06d", prefix, i))
	}
	if err := clock.Sleep(ctx, breath); err != nil {
		return k, err
	}
	f.seen.expectPods(k.names)
	if k.begin, err = f.readMeter(); err != nil {
		return k, err
	}
	if err := ask(k.names); err != nil {
		return k, err
	}
	c, err := f.seen.awaitCounts(ctx, f.options.patience, func(c counts) bool { return c.running == n })
	if err != nil {
		return k, err
	}
	k.used, err = f.usedSince(k.begin)
	k.lives, k.lost = f.seen.podLives(), n-c.running
	f.out["pods_that_never_ran"] += float64(k.lost)
	return k, err
}

// deletePods deletes the pods, waits until they are gone and returns the side's CPU
// seconds from their creation on, without the rest between.
func (f *flight) deletePods(ctx context.Context, k flock) (cpu float64, err error) {
	begin, err := f.readMeter()
	if err != nil {
		return 0, err
	}
	if err := f.requests.deletePods(ctx, k.names); err != nil {
		return 0, err
	}
	c, err := f.seen.awaitCounts(ctx, f.options.patience, func(c counts) bool { return c.gone == len(k.names) })
	if err != nil {
		return 0, err
	}
	f.out["pods_never_gone"] += float64(len(k.names) - c.gone)
	used, err := f.usedSince(begin)
	return k.used.side + used.side, err
}

// phaseLatencies returns how long the pods took from one phase to another, in
// seconds. Those that never came so far count up to the end.
func phaseLatencies(lives []life, end clock.Time, from, to func(life) clock.Time) (out []float64) {
	for _, l := range lives {
		a, b := from(l), to(l)
		if a == 0 {
			continue
		}
		if b == 0 {
			b = end
		}
		out = append(out, b.Sub(a).Seconds())
	}
	return out
}

func createdAt(l life) clock.Time { return l.created }
func boundAt(l life) clock.Time   { return l.bound }
func runningAt(l life) clock.Time { return l.running }

// putLatencies keeps the measures of pods that were asked for at a rate, under a prefix.
func (f *flight) putLatencies(prefix string, k flock) {
	end := k.begin.at.Add(time.Duration(k.used.at))
	b, c := phaseLatencies(k.lives, end, boundAt, runningAt), phaseLatencies(k.lives, end, createdAt, runningAt)
	f.out[prefix+"bound_to_running_p50_seconds"] = quantileOf(b, 0.5)
	f.out[prefix+"bound_to_running_p99_seconds"] = quantileOf(b, 0.99)
	f.out[prefix+"created_to_running_p99_seconds"] = quantileOf(c, 0.99)
}

// runBoundPods runs pods that the bench has bound itself.
func (f *flight) runBoundPods(ctx context.Context) error {
	n := f.options.pods
	k, err := f.runPods(ctx, "direct", n, func(names []string) error {
		return f.requests.createPods(ctx, names, f.options.rate, f.options.nodes)
	})
	if err != nil {
		return err
	}
	f.putLatencies("direct_", k)
	f.out["direct_cpu_ms_per_pod"] = 1000 * k.used.side / float64(n)
	life, err := f.deletePods(ctx, k)
	f.out["direct_cpu_ms_per_pod_life"] = 1000 * life / float64(n)
	return err
}

// runScheduledPods runs pods that the scheduler binds.
func (f *flight) runScheduledPods(ctx context.Context) error {
	n := f.options.pods
	k, err := f.runPods(ctx, "asked", n, func(names []string) error {
		return f.requests.createPods(ctx, names, f.options.rate, 0)
	})
	if err != nil {
		return err
	}
	f.putLatencies("", k)
	f.out["scheduled_cpu_ms_per_pod"] = 1000 * k.used.side / float64(n)
	if f.fewer, err = f.side.awaitSteadyMemory(ctx); err != nil {
		return err
	}
	life, err := f.deletePods(ctx, k)
	f.out["cpu_ms_per_pod_life"] = 1000 * life / float64(n)
	return err
}

// runManyPods runs many pods as fast as the plane and the side can.
func (f *flight) runManyPods(ctx context.Context) error {
	n := f.options.many
	k, err := f.runPods(ctx, "many", n, func(names []string) error {
		return f.requests.createPods(ctx, names, 0, 0)
	})
	if err != nil {
		return err
	}
	last := k.begin.at
	for _, l := range k.lives {
		last = max(last, l.running)
	}
	pods := float64(n)
	f.out["pods_running_per_second"] = (pods - float64(k.lost)) / last.Sub(k.begin.at).Seconds()
	f.out["cpu_ms_per_pod"] = 1000 * k.used.side / pods
	f.out["cpu_ms_per_pod_without_renewals"] = 1000 * (k.used.side - f.idle*k.used.at.Seconds()) / pods
	f.out["apiserver_cpu_ms_per_pod"] = 1000 * k.used.api / pods
	m, err := f.side.awaitSteadyMemory(ctx)
	if err != nil {
		return err
	}
	f.out["rss_bytes"] = m.resident
	if m.live > 0 {
		f.out["live_bytes"] = m.live
	}
	if more := n - f.options.pods; more > 0 {
		f.putMargin("pod", f.fewer, m, float64(more))
	}
	return nil
}

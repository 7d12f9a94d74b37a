package diagnose

import (
	"slices"

	"github.com/windtunnel/windtunnel/internal/record"
)

// delays say, for each slice, how far the deepest causes hold up what stands on them.
type delays struct {
	crowded track // share of the time it takes to compute something that is waiting for a core of a full machine
	active  track // share of the slice in which the API server has requests in progress

	// What share of the time of the API server's requests is not its own.
	apf, webhook, watchCache track
	etcd, etcdDisk           track // in etcd: not for its disk's sake, and for it

	server track // what holds up a caller of the API server
}

// Components that are known by name: whom the others call, what that calls, and
// windtunnel itself.
const apiServer, etcdName, self = "kube-apiserver", "etcd", "windtunnel"

func newDelays(f *Facts) delays {
	d := delays{crowded: make(track, f.Window.Slices)}
	if !f.Remote {
		d.crowded = waitingForCore(f, f.componentNames(waiting)...)
	}
	in := f.sumSeries(requests)
	d.active = f.perSlice(func(i int) float64 { return clampShare(in.at(i)) })
	waits, hooks, reads, lag := f.sumSeries(apfWait), f.sumSeries(webhooks), f.sumSeries(cacheWait), f.sumSeries(cacheMean)
	d.apf = f.perSlice(func(i int) float64 { return shareOf(waits.at(i), in.at(i)) })
	d.webhook = f.perSlice(func(i int) float64 { return shareOf(hooks.at(i), in.at(i)) })
	d.watchCache = f.perSlice(func(i int) float64 { return shareOf(reads.at(i), in.at(i)) * shareBeyond(lag.at(i), cacheBound) })
	d.etcd, d.etcdDisk = waitingForEtcd(f)
	api := heldBack(f, apiServer)
	d.server = f.perSlice(func(i int) float64 { return 1 - leftAfter(api.at(i), d.apf[i], d.webhook[i], d.etcd[i]+d.etcdDisk[i]) })
	return d
}

// waitingForEtcd returns the share of the time of the API server's requests that they wait
// for etcd longer than usual, and how much of that is for its disk. It looks at the
// quickest tenth of the writes: a full machine makes many calls slow, but not all of them.
func waitingForEtcd(f *Facts) (otherwise, disk track) {
	in, calls, floor, all, sync := f.sumSeries(requests), f.sumSeries(etcdCalls), f.sumSeries(etcdFloor), f.sumSeries(etcdMean), f.sumSeries(fsyncMean)
	share := func(i int) float64 {
		return shareOf(calls.at(i), in.at(i)) * shareOf(floor.at(i)*shareBeyond(floor.at(i), etcdBound), all.at(i))
	}
	otherwise = f.perSlice(func(i int) float64 { return share(i) * leftAfter(shareOf(sync.at(i), floor.at(i))) })
	disk = f.perSlice(func(i int) float64 { return share(i) * shareOf(sync.at(i), floor.at(i)) })
	return otherwise, disk
}

// heldBack is how far limits held a component back: its own, and those that it shares.
func heldBack(f *Facts, component string) track {
	limit, memory, shared := ownThrottledShare(f, component), shortOfMemory(f, component), heldBackByPlane(f, component)
	return f.perSlice(func(i int) float64 { return 1 - leftAfter(limit.at(i), memory.at(i), shared.at(i)) })
}

// heldBackByPlane is how far the limits of the plane as a whole held back one of its
// components; nothing for anybody else.
func heldBackByPlane(f *Facts, component string) track {
	if !slices.Contains(f.Sharing, component) {
		return nil
	}
	limit, memory := ownThrottledShare(f, record.WholePlane), shortOfMemory(f, record.WholePlane)
	return f.perSlice(func(i int) float64 { return 1 - leftAfter(limit.at(i), memory.at(i)) })
}

// waitingForCore tells how much longer it took these components to compute anything than
// with cores for everybody: of the time for which their threads ran or were ready
// to run, the part in which they had no core, while the machine was full; but for
// no more than the time in which any of them had none, since who hardly computes
// cannot be slowed down by that. What a component's own limit kept from running is
// not counted. Where the kernel does not count, a full machine is taken for the
// whole reason.
func waitingForCore(f *Facts, components ...string) track {
	use := f.sumSeries(busy)
	ran, waited := make(track, f.Window.Slices), make(track, f.Window.Slices)
	for _, name := range components {
		if f.Remote && name != self {
			continue // the full machine is not its
		}
		limit, r, w := throttledShare(f, name), f.sumSeries(cpu, instance, name), f.sumSeries(waiting, instance, name)
		for i := range ran {
			ran[i], waited[i] = ran[i]+r[i]*leftAfter(limit[i]), waited[i]+w[i]*leftAfter(limit[i])
		}
	}
	_, counted := f.Answers[waiting]
	return f.perSlice(func(i int) float64 {
		if !counted && !f.Remote {
			return shareFull(use.at(i))
		}
		return shareFull(use.at(i)) * min(shareOf(waited[i], ran[i]+waited[i]), clampShare(waited[i]))
	})
}

// throttledShare is the share of the time in which a component had used up its CPU
// limit, or all components that of the plane.
func throttledShare(f *Facts, component string) track {
	own := ownThrottledShare(f, component)
	if !slices.Contains(f.Sharing, component) {
		return own
	}
	shared := ownThrottledShare(f, record.WholePlane)
	return f.perSlice(func(i int) float64 { return 1 - leftAfter(own.at(i), shared.at(i)) })
}

// ownThrottledShare is the share of the time in which a component had used up its own CPU
// limit: of the periods in which it wanted to run, those in which it was held
// back, but no more of the slice than they take. Most of the time a component
// that hardly computes wants nothing.
func ownThrottledShare(f *Facts, component string) track {
	share, periods := f.sumSeries(held, instance, component), f.sumSeries(throttles, instance, component)
	return f.perSlice(func(i int) float64 { return min(share.at(i), clampShare(periods.at(i)*cpuPeriod)) })
}

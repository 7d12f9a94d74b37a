package diagnose

import (
	"cmp"
	"math"
	"slices"

	"github.com/windtunnel/windtunnel/internal/record"
)

// Findings ranks what limited the plane. It is pure.
//
// # How a score is made
//
// A cause's score is the share of the load's window that it explains: the mean,
// over the window's slices, of
//
//	the share of the slice in which work waited there
//	x the share of that waiting that is this cause's own
//	x what no deeper cause explains
//
// How much waited there is Little's law: seconds of waiting per second are the
// number that wait at a time, and one that waits all the time is a whole slice.
// A bound, where there is one, takes away what is no more than usual.
//
// What was not used up explains nothing, however long something waited near it: a
// slice counts for a cause only where the resource that it names was full. Items
// wait a moment for workers who are idle, too, and all the longer on a busy machine.
//
// The last factor follows the work down to where it is held up. Workers of a
// queue that wait for their client's rate limiter are the limiter's, not the
// queue's; calls that wait in the API server for its CPU, for priority and
// fairness, for webhooks or for etcd are those things'; what a component's own
// CPU or memory limit holds back is the limit's. At the bottom is the machine:
// where all cores were busy, whatever computes took longer by the time that
// threads waited for a core, so that causes made of computing count only for the
// rest; waits that no further core would have shortened (a rate limiter, a
// webhook, a distant or slow etcd) come before it, and leave to it what they do
// not explain.
//
// A component that was killed at its memory limit ended the run: it comes first.
// Where nothing was at its limit the one finding says so, and what came nearest.
func Findings(f *Facts) []Finding {
	var all []candidate
	var b *blame
	if f.Window.To > f.Window.From {
		b = newBlame(f)
		all = slices.Concat(b.limits(), b.memory(), b.clients(), b.ceilings(), b.path(), b.disk(), b.quota(), b.queues(), b.stages(), b.distances(), b.imbalances(), b.proxying(), b.scans(), b.scheduler(), b.instrument(), b.locks())
		all = append(all, b.machine(all)...)
	}
	all = append(killed(f, b), all...)
	slices.SortStableFunc(all, func(x, y candidate) int {
		return cmp.Or(-cmp.Compare(x.Score, y.Score), cmp.Compare(rank(x), rank(y)))
	})
	out := []Finding{} // never null in JSON
	for _, c := range all {
		if c.Score < least || all[0].Score < byItself {
			break
		}
		c.Rank = len(out) + 1
		out = append(out, c.Finding)
	}
	if len(out) == 0 && b != nil {
		out = append(out, b.nothing()...)
	}
	return out
}

// candidate is a cause with its share of each slice.
type candidate struct {
	Finding
	share    track
	computes bool // it is made of computing, which a full machine slows down
}

// rank puts a full machine before what it explains as much of as the machine does.
func rank(c candidate) int {
	if c.Cause == Machine {
		return 0
	}
	return 1
}

// track is a value for each slice of the window.
type track []float64

func (b *blame) track(of func(i int) float64) track {
	out := make(track, b.f.Window.Slices)
	for i := range out {
		out[i] = of(i)
	}
	return out
}

// mean is what a score is.
func (t track) mean() float64 {
	sum := 0.0
	for _, v := range t {
		sum += v
	}
	return sum / float64(max(1, len(t)))
}

// at returns a slice's value; 0 of an empty track.
func (t track) at(i int) float64 {
	if i < len(t) {
		return t[i]
	}
	return 0
}

// portion keeps a share between 0 and 1.
func portion(v float64) float64 { return max(0, min(1, v)) }

// of is the share that one number is of another, at most all; 0 of nothing.
func of(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return portion(part / whole)
}

// beyond is the share of a value that is more than a bound.
func beyond(v, bound float64) float64 {
	if v <= bound {
		return 0
	}
	return (v - bound) / v
}

// rest is what several shares leave of a whole, each of what those before it left.
func rest(shares ...float64) float64 {
	left := 1.0
	for _, s := range shares {
		left *= 1 - portion(s)
	}
	return left
}

// fullFrom is the use of something from which on it counts as full: with arrivals
// at random, an item waits there four times as long as it is served (M/M/1:
// u / (1 - u)). Between it and 1 a part counts.
const fullFrom = 0.8

func full(use float64) float64 { return portion((use - fullFrom) / (1 - fullFrom)) }

// where is 1 where something holds, and 0 elsewhere.
func where(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// blame is what a diagnosis works with: for each slice, how far the deepest
// causes hold up what stands on them.
type blame struct {
	f       *Facts
	crowded track // share of the time it takes to compute something that is waiting for a core of a full machine
	// Of the API server's requests: how many are in progress, and what share of
	// their time is not its own.
	active        track // share of the slice in which there are any
	apf, hook, wc track
	far, slow     track // in etcd: not for its disk's sake, and for it
	server        track // what holds up who calls it
}

// Components that are known by name: whom the others call, what that calls, and
// windtunnel itself.
const apiServer, etcdName, self = "kube-apiserver", "etcd", "windtunnel"

func newBlame(f *Facts) *blame {
	b := &blame{f: f}
	if !f.Remote {
		b.crowded = b.crowd(f.names(waiting)...)
	} else {
		b.crowded = make(track, f.Window.Slices)
	}
	in := b.sum(requests)
	b.active = b.track(func(i int) float64 { return portion(in.at(i)) })
	waits, hooks, reads := b.sum(apfWait), b.sum(webhooks), b.sum(cacheWait)
	b.apf = b.track(func(i int) float64 { return of(waits.at(i), in.at(i)) })
	b.hook = b.track(func(i int) float64 { return of(hooks.at(i), in.at(i)) })
	lag := b.sum(cacheMean)
	b.wc = b.track(func(i int) float64 { return of(reads.at(i), in.at(i)) * beyond(lag.at(i), cacheBound) })
	b.etcd(in)
	api := b.held(apiServer)
	b.server = b.track(func(i int) float64 { return 1 - rest(api.at(i), b.apf[i], b.hook[i], b.far[i]+b.slow[i]) })
	return b
}

// sum adds up the series of an answer that have these labels, given in pairs.
func (b *blame) sum(question string, labels ...string) track {
	out := make(track, b.f.Window.Slices)
next:
	for _, s := range b.f.Answers[question].Series {
		for i := 0; i+1 < len(labels); i += 2 {
			if s.Labels[labels[i]] != labels[i+1] {
				continue next
			}
		}
		for i := range out {
			out[i] += track(s.Slices).at(i)
		}
	}
	return out
}

// held is how far limits held a component back: its own, and those that it shares.
func (b *blame) held(component string) track {
	limit, memory, shared := b.ownThrottling(component), b.starving(component), b.sharedHold(component)
	return b.track(func(i int) float64 { return 1 - rest(limit.at(i), memory.at(i), shared.at(i)) })
}

// sharedHold is how far the limits of the plane as a whole held back one of its
// components; nothing for anybody else.
func (b *blame) sharedHold(component string) track {
	if !slices.Contains(b.f.Sharing, component) {
		return nil
	}
	limit, memory := b.ownThrottling(record.WholePlane), b.starving(record.WholePlane)
	return b.track(func(i int) float64 { return 1 - rest(limit.at(i), memory.at(i)) })
}

// crowd tells how much longer it took these components to compute anything than
// with cores for everybody: of the time for which their threads ran or were ready
// to run, the part in which they had no core, while the machine was full; but for
// no more than the time in which any of them had none, since who hardly computes
// cannot be slowed down by that. What a component's own limit kept from running is
// not counted. Where the kernel does not count, a full machine is taken for the
// whole reason.
func (b *blame) crowd(components ...string) track {
	use := b.sum(busy)
	ran, waited := make(track, b.f.Window.Slices), make(track, b.f.Window.Slices)
	for _, name := range components {
		if b.f.Remote && name != self {
			continue // the full machine is not its
		}
		limit, r, w := b.throttling(name), b.sum(cpu, instance, name), b.sum(waiting, instance, name)
		for i := range ran {
			ran[i], waited[i] = ran[i]+r[i]*rest(limit[i]), waited[i]+w[i]*rest(limit[i])
		}
	}
	_, counted := b.f.Answers[waiting]
	return b.track(func(i int) float64 {
		if !counted && !b.f.Remote {
			return full(use.at(i))
		}
		return full(use.at(i)) * min(of(waited[i], ran[i]+waited[i]), portion(waited[i]))
	})
}

// throttling is the share of the time in which a component had used up its CPU
// limit, or all components that of the plane.
func (b *blame) throttling(component string) track {
	own := b.ownThrottling(component)
	if !slices.Contains(b.f.Sharing, component) {
		return own
	}
	shared := b.ownThrottling(record.WholePlane)
	return b.track(func(i int) float64 { return 1 - rest(own.at(i), shared.at(i)) })
}

// ownThrottling is the share of the time in which a component had used up its own CPU
// limit: of the periods in which it wanted to run, those in which it was held
// back, but no more of the slice than they take. Most of the time a component
// that hardly computes wants nothing.
func (b *blame) ownThrottling(component string) track {
	share, periods := b.sum(held, instance, component), b.sum(throttles, instance, component)
	return b.track(func(i int) float64 { return min(share.at(i), portion(periods.at(i)*cpuPeriod)) })
}

// answered leaves out evidence of what was not answered: it is none.
func answered(all []Evidence) []Evidence {
	return slices.DeleteFunc(all, func(e Evidence) bool { return e.At != nil && e.Expr == "" })
}

// candidate makes a candidate of a share; its score is rounded to what it is
// worth.
func (b *blame) candidate(f Finding, share track) candidate {
	f.Evidence = answered(f.Evidence)
	f.Score = math.Round(share.mean()*1000) / 1000
	return candidate{Finding: f, share: share}
}

// computing makes a candidate of a cause that is made of computing.
func (b *blame) computing(f Finding, share track) candidate {
	c := b.candidate(f, share)
	c.computes = true
	return c
}

// figure is evidence that has no value yet.
func figure(unit string, bound *float64, sentence string) Evidence {
	return Evidence{Unit: unit, Bound: bound, Sentence: sentence}
}

// evidence gives a figure the value of an expression's answer: of the first of its
// series with these labels.
func (b *blame) evidence(question string, e Evidence, labels ...string) Evidence {
	e.Expr = b.f.Answers[question].Expr
	at := b.f.Epoch.Add(b.f.Window.To.Sub(0)).UTC()
	e.At = &at
	if s, ok := b.f.find(question, labels...); ok {
		e.Value, e.Labels = short(s.Whole), s.Labels
		for _, v := range s.Slices {
			e.Values = append(e.Values, short(v))
		}
	}
	return e
}

// short keeps the digits that a figure is worth.
func short(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	scale := math.Pow(10, 4-math.Ceil(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

func bound(v float64) *float64 { return &v }

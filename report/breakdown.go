package report

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// shownGroups is how many groups have their startup taken apart.
const shownGroups = 4

// Breakdown says where the time of a group's pods went, from created to ready:
// how long each part took on average, for the fast pods and for the slow ones.
// It counts the pods that were seen in every phase.
type Breakdown struct {
	Group string
	Pods  int
	Bands []Band
}

// Band is a share of a group's pods, by how long they took to run.
type Band struct {
	Name  string
	Pods  int
	Parts []float64 // mean seconds of each of the parts
	Total float64   // their sum
}

// parts are what startup is made of.
func parts() []stretch {
	return []stretch{
		{"created to bound", created, bound},
		{"bound to running", bound, podRunning},
		{"running to ready", podRunning, ready},
	}
}

// tookApart are the durations of one life's parts.
type tookApart [3]time.Duration

func (a tookApart) running() time.Duration { return a[0] + a[1] }

// breakdowns takes the startup of the largest groups apart. The last part is
// left out where pods are ready as soon as they run.
func (t *tally) breakdowns() []Breakdown {
	byGroup := make([][]tookApart, len(t.lives.names))
	for i, v := range t.lives.all {
		if a, ok := t.apart(i); ok {
			byGroup[v.group] = append(byGroup[v.group], a)
		}
	}
	var out []Breakdown
	for g, lives := range byGroup {
		if len(lives) > 0 {
			out = append(out, newBreakdown(t.lives.names[g], lives))
		}
	}
	slices.SortStableFunc(out, func(a, b Breakdown) int { return cmp.Compare(b.Pods, a.Pods) })
	return out[:min(len(out), shownGroups)]
}

// apart returns how long each part of a life took, of one that was created in
// the run and seen in all phases when it reached them.
func (t *tally) apart(life int) (out tookApart, ok bool) {
	v := t.lives.all[life]
	if torn := v.at[unknown]; v.at[created] < t.begin || torn != never && torn <= v.at[ready] {
		return out, false
	}
	for i, p := range parts() {
		from, to := v.at[p.from], v.at[p.to]
		if from == never || to == never || to > t.end || t.lives.unsure(int32(life), p) {
			return out, false
		}
		out[i] = max(to.Sub(from), 0)
	}
	return out, true
}

func newBreakdown(group string, lives []tookApart) Breakdown {
	slices.SortFunc(lives, func(a, b tookApart) int { return cmp.Compare(a.running(), b.running()) })
	out := Breakdown{Group: group, Pods: len(lives)}
	from := 0
	for _, b := range []struct {
		name string
		to   float64
	}{{"fastest half", 0.5}, {"up to p90", 0.9}, {"p90 to p99", 0.99}, {"slowest 1 %", 1}} {
		to := int(math.Ceil(b.to*float64(len(lives)) - 1e-9))
		if to > from {
			out.Bands = append(out.Bands, newBand(b.name, lives[from:to]))
		}
		from = max(from, to)
	}
	return out
}

func newBand(name string, lives []tookApart) Band {
	b := Band{Name: name, Pods: len(lives), Parts: make([]float64, len(parts()))}
	for _, a := range lives {
		for i, d := range a {
			b.Parts[i] += d.Seconds() / float64(len(lives))
		}
	}
	for _, p := range b.Parts {
		b.Total += p
	}
	return b
}

// startupChart draws how long pods took by when they were created: means to
// each phase on top of each other, and the slowest pod.
func (t *tally) startupChart() []TimeChart {
	g := newGrid(t.span, chartBins, time.Second)
	var n, toBound, toRunning, slowest = make([]float64, g.n), make([]float64, g.n), make([]float64, g.n), make([]float64, g.n)
	pods := 0
	for k, v := range t.lives.all {
		if a, ok := t.apart(k); ok {
			i := g.bin(v.at[created])
			n[i]++
			pods++
			toBound[i] += a[0].Seconds()
			toRunning[i] += a.running().Seconds()
			slowest[i] = max(slowest[i], a.running().Seconds())
		}
	}
	if pods == 0 {
		return nil
	}
	for i := range n {
		toBound[i], toRunning[i] = toBound[i]/n[i], toRunning[i]/n[i] // NaN where there is none: a gap
		if n[i] == 0 {
			slowest[i] = math.NaN()
		}
	}
	c := newTimeChart(g, "startup-time", "Startup of pods, by when they were created", "seconds")
	c.Shape = shapeStack
	return []TimeChart{drawn(g, c, []namedValues{{"slowest, running", slowest}, {"mean, running", toRunning}, {"mean, bound", toBound}})}
}

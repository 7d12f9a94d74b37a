package slo

import (
	"fmt"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// lateEcho is how late echoes may be sent before it is said: of the order of the
// distance between two, so that they no longer come evenly.
const lateEcho = time.Millisecond

// networks judges what steps network have measured.
type networks struct{ records }

// judgeNetwork judges one objective.
func (n networks) judgeNetwork(r *Result, o *scenario.Objective) {
	x, _ := sli.Find(o.SLI)
	r.Unit = x.UnitOf(o.Statistic)
	switch o.SLI {
	case "network-round-trip":
		trips := n.roundTrips(o.Labels["step"])
		n.holdDurations(r, trips.took)
		if late := trips.late.Quantile(0.99); late.Samples > 0 && late.Value > lateEcho.Seconds() {
			r.Warnings = append(r.Warnings, fmt.Sprintf("1 %% of the echoes were sent more than %s after they were due: they came in bursts", unit.Seconds(late.Value)))
		}
		if trips.lost > 0 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d echoes had no answer; they count as lasting longer than was waited", trips.lost, trips.sent))
		}
	case "network-loss":
		trips := n.roundTrips(o.Labels["step"])
		holdAgainstThreshold(r, stats.Share(trips.lost, trips.sent), false)
	case "network-throughput":
		n.judgeThroughput(r, o)
	case "network-cpu":
		perByte, ok := n.cpuPerCount(o.Labels["step"], sli.NetworkReceived, o.Labels["end"])
		holdCPU(r, 1e9*perByte, ok, o.Labels["end"])
	case "network-packet-cpu":
		perSegment, ok := n.cpuPerCount(o.Labels["step"], segmentsAt(o.Labels["end"]), o.Labels["end"])
		holdCPU(r, perSegment, ok, o.Labels["end"])
	}
}

// farEnd is the value of the label end for a receiving end that is a worker's.
const farEnd = "to"

// segmentsAt is the counter of segments at an end of a path.
func segmentsAt(end string) string {
	if end == farEnd {
		return sli.NetworkArrived
	}
	return sli.NetworkSegments
}

// holdCPU holds what streams cost at an end against an objective's bound.
func holdCPU(r *Result, cost float64, ok bool, end string) {
	if ok {
		holdAgainstThreshold(r, exactEstimate(cost, 1), false)
		return
	}
	why := "no stream was measured, or not for long enough for two readings of the machine's CPU"
	if end == farEnd {
		why += ", or the receiving end is none of a worker"
	}
	setUnmeasured(r, why)
}

// trips are the echoes of a step, or of all.
type trips struct {
	took, late *stats.Durations
	sent, lost int
}

func (n networks) roundTrips(step string) (t trips) {
	var parts, late []*stats.Durations
	for _, c := range n.f.Calls {
		if c.Source == sli.Network && (step == "" || c.Step == step) {
			parts, late = append(parts, &c.Service), append(late, &c.Lateness)
			t.sent += c.Count()
			t.lost += c.Lost
		}
	}
	t.took, t.late = stats.Merged(parts), stats.Merged(late)
	return t
}

// receivedSeries returns the series of what streams received, of a step or of all.
func (n networks) receivedSeries(step string) []*series.Series {
	return n.counterSeries(sli.NetworkReceived, step)
}

// counterSeries returns the series of a counter of streams, of a step or of all.
func (n networks) counterSeries(name, step string) []*series.Series {
	var where map[string]string
	if step != "" {
		where = map[string]string{"step": step}
	}
	return n.f.Series.Select(sli.Network, name, where)
}

// judgeThroughput judges how much came through: its mean with the interval of the means of
// its stretches, or a statistic of these.
func (n networks) judgeThroughput(r *Result, o *scenario.Objective) {
	all := n.receivedSeries(o.Labels["step"])
	if len(all) != 1 {
		why := "no stream was measured"
		if len(all) > 1 {
			why = "several steps had streams: the label step says which is meant"
		}
		setUnmeasured(r, why)
		return
	}
	rates := streamRates(all[0])
	if len(rates) == 0 {
		setUnmeasured(r, "nothing was received")
		return
	}
	switch o.Statistic {
	case "mean":
		e := stats.Mean(rates)
		e.Value = meanRate(all[0])
		holdAgainstThreshold(r, e, false)
	case "min":
		holdAgainstThreshold(r, exactEstimate(slices.Min(rates), float64(len(rates))), false)
	case "max":
		holdAgainstThreshold(r, exactEstimate(slices.Max(rates), float64(len(rates))), false)
	default:
		q, _ := stats.Parse(o.Statistic)
		slices.Sort(rates)
		holdAgainstThreshold(r, exactEstimate(rates[stats.Rank(len(rates), q)-1], float64(len(rates))), false)
	}
}

// streamRates returns the rate between each reading of a stream and the next one, in
// bits per second. The last one is left out where it is short: it ends with the step.
func streamRates(s *series.Series) (out []float64) {
	for i := 1; i < s.Len(); i++ {
		from, a := s.Sample(i - 1)
		to, b := s.Sample(i)
		if seconds := to.Sub(from).Seconds(); seconds > 0 && (i < s.Len()-1 || seconds > 0.05) {
			out = append(out, 8*(b-a)/seconds)
		}
	}
	return out
}

// meanRate is that of all of a stream's time, in bits per second.
func meanRate(s *series.Series) float64 {
	first, a := s.Sample(0)
	last, b := s.Sample(s.Len() - 1)
	return 8 * (b - a) / last.Sub(first).Seconds()
}

// cpuPerCount returns the CPU seconds of the whole machine of an end for each one that a counter
// of a step's streams counted: of the time between the machine's first and last reading
// within the stream's.
func (n networks) cpuPerCount(step, counter, end string) (float64, bool) {
	all := n.counterSeries(counter, step)
	if len(all) != 1 || all[0].Len() < 2 {
		return 0, false
	}
	s := all[0]
	from, _ := s.Sample(0)
	to, _ := s.Sample(s.Len() - 1)
	machine := n.busySeries(step, end)
	first, last := to, from
	for _, mode := range machine {
		if begin, end, _ := riseWithin(mode, from, to); end > 0 {
			first, last = min(first, begin), max(last, end)
		}
	}
	var busy float64
	for _, mode := range machine { // of what has not changed meanwhile there are no samples
		before, _ := mode.At(first)
		after, _ := mode.At(last)
		busy += after - before
	}
	a, _ := s.At(first)
	b, _ := s.At(last)
	if last <= first || b <= a {
		return 0, false
	}
	return busy / (b - a), true
}

// busySeries returns the series of the seconds for which the machine of an end was busy.
func (n networks) busySeries(step, end string) []*series.Series {
	if end == farEnd {
		return n.counterSeries(sli.NetworkFarCPU, step)
	}
	return slices.DeleteFunc(n.f.Series.Select("", hostSeconds, nil), func(s *series.Series) bool {
		return slices.Contains([]string{"idle", "iowait", "steal"}, s.Label("mode"))
	})
}

// riseWithin returns the first and the last sample between two moments, and by how
// much a counter rose from one to the other.
func riseWithin(s *series.Series, from, to clock.Time) (begin, end clock.Time, rise float64) {
	var a, b float64
	for i := range s.Len() {
		at, v := s.Sample(i)
		if at < from || at > to {
			continue
		}
		if begin == 0 {
			begin, a = at, v
		}
		end, b = at, v
	}
	return begin, end, b - a
}

// setMeasures sets what was measured, by step, and by path where it was measured in turns.
func (n networks) setMeasures(m Measures) {
	n.turnMeasures(m)
	for _, c := range n.f.Calls {
		if c.Source != sli.Network || c.Count() == 0 || n.inTurns(c.Step) {
			continue
		}
		setQuantiles(m, "network_round_trip", &c.Service, c.Step)
		m.set(joinKey("network_loss", c.Step), float64(c.Lost)/float64(c.Count()), "ratio")
	}
	for _, s := range n.receivedSeries("") {
		step := s.Label("step")
		if s.Len() < 2 || n.inTurns(step) {
			continue
		}
		m.set(joinKey("network_throughput", step), meanRate(s), "bit/s")
		n.setCosts(m, step)
		if dropped, ok := n.countDrops(step); ok {
			m.set(joinKey("network_drops", step), dropped, "packets")
		}
	}
}

// setCosts sets what a step's streams took of the machines of both ends, and what was sent
// again.
func (n networks) setCosts(m Measures, step string) {
	for end, suffix := range map[string]string{"from": "", farEnd: "_to"} {
		if perByte, ok := n.cpuPerCount(step, sli.NetworkReceived, end); ok {
			m.set(joinKey("network_cpu"+suffix, step), 1e9*perByte, "seconds/GB")
		}
		if perSegment, ok := n.cpuPerCount(step, segmentsAt(end), end); ok {
			m.set(joinKey("network_packet_cpu_seconds"+suffix, step), perSegment, "seconds")
		}
	}
	for name, counter := range map[string]string{"network_segments": sli.NetworkSegments, "network_retransmits": sli.NetworkRetransmits} {
		if all := n.counterSeries(counter, step); len(all) == 1 && all[0].Len() > 1 {
			m.set(joinKey(name, step), riseOf(all[0]), "segments")
		}
	}
}

// riseOf is by how much a counter rose from its first sample to its last.
func riseOf(s *series.Series) float64 {
	_, first := s.Sample(0)
	_, last := s.Sample(s.Len() - 1)
	return last - first
}

// countDrops is how many packets the devices of both ends of a path dropped while a step
// measured it. Where other steps do so at the same time, theirs are in it.
func (n networks) countDrops(step string) (sum float64, found bool) {
	for _, s := range n.f.Steps {
		if s.Name != step {
			continue
		}
		for _, counter := range []string{sli.NetworkDropsSent, sli.NetworkDropsReceived} {
			for _, one := range n.f.Series.Select(sli.Network, counter, nil) {
				if begin, end, rise := riseWithin(one, s.From, s.To); end > begin {
					sum, found = sum+rise, true
				}
			}
		}
	}
	return sum, found
}

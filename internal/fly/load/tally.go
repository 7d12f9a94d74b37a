package load

import "math"

// Tally is where a generator stands, for who adds up those of several processes. It can
// be JSON.
type Tally struct {
	Progress
	Latencies map[int]int64 `json:",omitempty"` // by bucket, what P99 is of
}

// Tally returns where the generator stands.
func (g *Generator) Tally() Tally {
	t := Tally{Progress: g.Progress(), Latencies: map[int]int64{}}
	t.Requested = min(t.Requested, math.MaxFloat64) // JSON has no infinity
	for i := range g.stats.latencies {
		if n := g.stats.latencies[i].Load(); n > 0 {
			t.Latencies[i] = n
		}
	}
	return t
}

// Sum is where several generators stand that share plans: P99 is that of all calls.
func Sum(all []Tally) (out Progress) {
	latencies := map[int]int64{}
	for _, t := range all {
		p := t.Progress
		out.Count, out.Sent, out.Ended = out.Count+p.Count, out.Sent+p.Sent, out.Ended+p.Ended
		out.OK, out.Failed, out.Lost = out.OK+p.OK, out.Failed+p.Failed, out.Lost+p.Lost
		out.Late, out.Retries, out.Requested = out.Late+p.Late, out.Retries+p.Retries, out.Requested+p.Requested
		for i, n := range t.Latencies {
			latencies[i] += n
		}
	}
	if out.Requested >= math.MaxFloat64 {
		out.Requested = math.Inf(1)
	}
	out.P99 = p99(func(i int) int64 { return latencies[i] })
	return out
}

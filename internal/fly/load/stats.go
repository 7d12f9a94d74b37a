package load

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
)

// Progress is where a generator stands, for a person who watches. The true
// figures are computed from the records.
type Progress struct {
	Count            int           // calls asked for by the plans so far
	Sent, Ended      int           // calls that left; that ended
	OK, Failed, Lost int           // of those that ended; Lost are the unknown ones
	Late             int           // left more than Late after they were due
	Retries          int           // of those that were sent, sent again
	Requested        float64       // calls per second asked for by the plans under way; +Inf: all at once
	P99              time.Duration // since the latest plan began, from due to done, within 6 %
}

// stats counts without locks on the path of a call.
type stats struct {
	sent      atomic.Int64
	outcomes  [3]atomic.Int64
	late      atomic.Int64
	retries   atomic.Int64
	latencies [buckets]atomic.Int64
	mu        sync.Mutex
	count     int
	rates     []float64 // of the plans under way
}

// buckets of latency: 16 in each power of two of microseconds.
const (
	subBits = 4
	buckets = 40 << subBits
)

func (s *stats) beginPlan(count int, rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count += count
	s.rates = append(s.rates, rate)
	for i := range s.latencies {
		s.latencies[i].Store(0)
	}
}

// endPlan takes back the rate of a plan that is over.
func (s *stats) endPlan(rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.rates, rate)
	s.rates = slices.Delete(s.rates, i, i+1)
}

func (s *stats) countEnded(c record.Call) {
	s.outcomes[c.Outcome].Add(1)
	if c.Lateness() > record.Late {
		s.late.Add(1)
	}
	s.latencies[bucketOf(c.Latency())].Add(1)
}

// bucketOf maps a latency to its place: exact below 16 µs, then 16 places in
// each doubling.
func bucketOf(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	if us < 1<<subBits {
		return int(us)
	}
	shift := bits.Len64(us) - subBits - 1
	return min((shift+1)<<subBits|int(us>>shift&(1<<subBits-1)), buckets-1)
}

// bucketEnd is the largest latency that bucket maps to i.
func bucketEnd(i int) time.Duration {
	if i < 1<<subBits {
		return time.Duration(i) * time.Microsecond
	}
	shift := i>>subBits - 1
	return time.Duration((1<<subBits|i&(1<<subBits-1))+1) << shift * time.Microsecond
}

// Progress returns where the generator stands.
func (g *Generator) Progress() Progress {
	s := &g.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	p := Progress{
		Count: s.count, Sent: int(s.sent.Load()),
		OK: int(s.outcomes[record.OK].Load()), Failed: int(s.outcomes[record.Failed].Load()),
		Lost: int(s.outcomes[record.Unknown].Load()), Late: int(s.late.Load()), Retries: int(s.retries.Load()),
	}
	p.Ended = p.OK + p.Failed + p.Lost
	for _, rate := range s.rates {
		p.Requested += rate
	}
	p.P99 = s.p99()
	return p
}

func (s *stats) p99() time.Duration { return p99(func(i int) int64 { return s.latencies[i].Load() }) }

// p99 of latencies, of which there are so many in each bucket.
func p99(in func(bucket int) int64) time.Duration {
	var total int64
	for i := range buckets {
		total += in(i)
	}
	rest := total / 100
	for i := buckets - 1; i >= 0; i-- {
		n := in(i)
		if n > rest {
			return bucketEnd(i)
		}
		rest -= n
	}
	return 0
}

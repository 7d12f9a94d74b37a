package load

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Progress is where a generator stands, for a person who watches. The true
// figures are computed from the records.
type Progress struct {
	Count             int           // calls asked for by the plans so far
	Sent, Ended       int           // calls that left; that ended
	OK, Failed, Lost  int           // of those that ended; Lost are the unknown ones
	Late              int           // left more than Late after they were due
	Retries           int           // of those that were sent, sent again
	Requested         float64       // calls per second asked for by the latest plan
	Begin             clock.Time    // of the latest plan
	P99               time.Duration // of the latest plan, from due to done, within 6 %
	CountNow, SentNow int           // of the latest plan
}

// stats counts without locks on the path of a call.
type stats struct {
	sent            atomic.Int64
	outcomes        [3]atomic.Int64
	late            atomic.Int64
	retries         atomic.Int64
	latencies       [buckets]atomic.Int64
	mu              sync.Mutex
	count, countNow int
	sentBefore      int64
	rate            float64
	begun           clock.Time
}

// buckets of latency: 16 in each power of two of microseconds.
const (
	subBits = 4
	buckets = 40 << subBits
)

func (s *stats) begin(count int, rate float64, at clock.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count += count
	s.countNow, s.sentBefore, s.rate, s.begun = count, s.sent.Load(), rate, at
	for i := range s.latencies {
		s.latencies[i].Store(0)
	}
}

func (s *stats) ended(c record.Call) {
	s.outcomes[c.Outcome].Add(1)
	if c.Lateness() > Late {
		s.late.Add(1)
	}
	s.latencies[bucket(c.Latency())].Add(1)
}

// bucket maps a latency to its place: exact below 16 µs, then 16 places in
// each doubling.
func bucket(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	if us < 1<<subBits {
		return int(us)
	}
	shift := bits.Len64(us) - subBits - 1
	return min((shift+1)<<subBits|int(us>>shift&(1<<subBits-1)), buckets-1)
}

// upper is the largest latency that bucket maps to i.
func upper(i int) time.Duration {
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
		Count: s.count, Sent: int(s.sent.Load()), Requested: s.rate, Begin: s.begun,
		OK: int(s.outcomes[record.OK].Load()), Failed: int(s.outcomes[record.Failed].Load()),
		Lost: int(s.outcomes[record.Unknown].Load()), Late: int(s.late.Load()), Retries: int(s.retries.Load()), CountNow: s.countNow,
	}
	p.Ended = p.OK + p.Failed + p.Lost
	p.SentNow = p.Sent - int(s.sentBefore)
	p.P99 = s.p99()
	return p
}

func (s *stats) p99() time.Duration {
	var total int64
	for i := range s.latencies {
		total += s.latencies[i].Load()
	}
	rest := total / 100
	for i := buckets - 1; i >= 0; i-- {
		if n := s.latencies[i].Load(); n > rest {
			return upper(i)
		} else {
			rest -= n
		}
	}
	return 0
}

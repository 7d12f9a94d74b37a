package load

import (
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
	"github.com/windtunnel/windtunnel/internal/record"
)

// informers count what the informers of a flight did.
type informers struct {
	relists, relistBytes atomic.Int64
	recovered            [maxRecovery + 2]atomic.Int64 // by bucket; the last has all that took longer
	recovery             atomic.Int64                  // nanoseconds of all together
}

// maxRecovery is the number of the last bucket of recoveries with a bound: bucket i ends at
// 2^(i/2) milliseconds, this one at 131 s.
const maxRecovery = 34

// countRelist counts the bytes of a request that gets once more what exists, and whether it
// was the last of its list.
func (i *informers) countRelist(bytes int, last bool) {
	i.relistBytes.Add(int64(bytes))
	if last {
		i.relists.Add(1)
	}
}

// countOpened counts a watch that is open, with all that exists behind it.
func (i *informers) countOpened(h *hold) {
	n := h.informing
	n.Open()
	if ask := n.Asked(); ask.Kind == informer.InitialWatch && ask.Relist {
		i.countRelist(int(h.frames.bytes), true)
	}
	if n.ended > 0 {
		took := h.opened.Sub(n.ended)
		i.recovered[recoveryBucket(took)].Add(1)
		i.recovery.Add(int64(took))
		n.ended = 0
	}
}

// recoveryBucket returns the bucket of a recovery.
func recoveryBucket(took time.Duration) int {
	b := 0
	for b <= maxRecovery && took.Seconds() > recoveryBound(b) {
		b++
	}
	return b
}

// recoveryBound is the upper end of a bucket in seconds.
func recoveryBound(bucket int) float64 { return math.Pow(2, float64(bucket)/2) / 1000 }

// writeSamples writes the counters of a step.
func (i *informers) writeSamples(f *flight, now clock.Time) {
	write := func(name string, value float64, more ...record.Label) {
		f.writeSample(now, name, value, append([]record.Label{{Name: "clients", Value: f.population.Name}}, more...)...)
	}
	write("windtunnel_load_relists_total", float64(i.relists.Load()))
	write("windtunnel_load_relist_bytes_total", float64(i.relistBytes.Load()))
	const recovery = "windtunnel_load_watch_recovery_seconds"
	sum := int64(0)
	for b := range i.recovered {
		sum += i.recovered[b].Load()
		bound := "+Inf"
		if b <= maxRecovery {
			bound = strconv.FormatFloat(recoveryBound(b), 'g', 6, 64)
		}
		write(recovery+"_bucket", float64(sum), record.Label{Name: "le", Value: bound})
	}
	write(recovery+"_count", float64(sum))
	write(recovery+"_sum", time.Duration(i.recovery.Load()).Seconds())
}

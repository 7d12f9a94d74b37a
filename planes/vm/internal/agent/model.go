package agent

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// Model is how long things take on a simulated node. It is declared, not
// measured: reports say so. Times are drawn from a log-normal distribution with
// the given median, by the seed and the instance's name, so that two runs with
// one seed draw alike.
type Model struct {
	Concurrency int           // machines started, or unmounted, at the same time on a node
	Start       time.Duration // median time to start a machine
	Spread      float64       // sigma of the logarithm of every time; 0 for none
	Guest       time.Duration // median time from running until the guest says its addresses
	Stop        time.Duration // median time of a shutdown
	Unmount     time.Duration // of one attempt to unmount a machine's disks
	Bandwidth   int64         // of a migration, bytes of guest memory per second
}

// DefaultModel returns the model of Default.
func DefaultModel() Model { return Default().Model }

// dice draws for one instance and one purpose, the same each time.
type dice struct {
	seed  uint64
	model Model
}

func (d dice) newRand(vmi *api.Instance, purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose + "/" + vmi.Namespace + "/" + vmi.Name))
	return rand.New(rand.NewPCG(d.seed, h.Sum64()))
}

// drawDuration draws a duration around a median.
func (d dice) drawDuration(vmi *api.Instance, purpose string, median time.Duration) time.Duration {
	return time.Duration(float64(median) * math.Exp(d.model.Spread*d.newRand(vmi, purpose).NormFloat64()))
}

// isHit says whether an instance is of the share that something happens to.
func (d dice) isHit(vmi *api.Instance, purpose string, share float64) bool {
	return d.newRand(vmi, purpose).Float64() < share
}

// migrationTime returns how long an instance takes to move.
func (m Model) migrationTime(vmi *api.Instance) time.Duration {
	return time.Second + time.Duration(float64(vmi.Spec.GuestMemory())/float64(m.Bandwidth)*float64(time.Second))
}

package run

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Cluster is what the calls to one member were like over the run's clock, boot and
// clean-up included. Bin i is [i*Width, (i+1)*Width) of it.
type Cluster struct {
	Name  string
	Width time.Duration
	Bins  []ClusterBin
}

// ClusterBin is the calls to a member that were answered, or given up, in one
// stretch of time.
type ClusterBin struct {
	Calls, Bad int           // Bad: failed, or not answered
	Slowest    time.Duration // the longest from due to done
}

// maxClusterBins bounds a member's memory: thousands of members have 6 kB each.
const maxClusterBins = 240

// clusterOf returns what is known of a member.
func (c *collector) clusterOf(name string) *Cluster {
	x := c.clusters[name]
	if x == nil {
		x = &Cluster{Name: name, Width: time.Second}
		c.clusters[name] = x
		c.f.Clusters = append(c.f.Clusters, x)
	}
	return x
}

func (x *Cluster) add(v record.Call) {
	at := max(v.Done, 0)
	for int64(at)/int64(x.Width) >= maxClusterBins {
		x.coarsenBins()
	}
	i := int(at / clock.Time(x.Width))
	for len(x.Bins) <= i {
		x.Bins = append(x.Bins, ClusterBin{})
	}
	b := &x.Bins[i]
	b.Calls++
	if v.Outcome != record.OK {
		b.Bad++
	}
	b.Slowest = max(b.Slowest, v.Latency())
}

// coarsenBins makes bins twice as wide.
func (x *Cluster) coarsenBins() {
	x.Bins, x.Width = x.Rebin(2*x.Width), 2*x.Width
}

// Rebin returns the bins in a width that is some times x's own.
func (x *Cluster) Rebin(width time.Duration) []ClusterBin {
	k := max(1, int(width/x.Width))
	out := make([]ClusterBin, (len(x.Bins)+k-1)/k)
	for i, b := range x.Bins {
		to := &out[i/k]
		to.Calls, to.Bad, to.Slowest = to.Calls+b.Calls, to.Bad+b.Bad, max(to.Slowest, b.Slowest)
	}
	return out
}

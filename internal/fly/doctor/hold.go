package doctor

import (
	"fmt"
	"math"

	"github.com/windtunnel/windtunnel/internal/fly/plan"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// What things cost, as measured in experiments/0010-what-a-machine-holds.
const (
	baseBytes       = 0.85e9  // resident, a plane with next to nothing in it and windtunnel
	nodeBytes       = 170e3   // resident, all processes together
	podBytes        = 160e3   // likewise
	connectionBytes = 33e3    // in kube-apiserver
	renewalSeconds  = 2.5e-3  // of CPU, all processes together
	podSeconds      = 43.4e-3 // of CPU for a pod's whole life, likewise
)

// What an edge of the edge plane costs that is connected and does nothing else, both ends
// together, as measured in experiments/0020-edge-100k.
const (
	edgeBytes   = 4.7e3  // resident, beyond what hubs and fleets begin with
	edgeSockets = 8e3    // of the kernel's memory, for two
	edgeProcess = 115e6  // resident, a hub or a fleet without edges
	edgeCores   = 7.7e-6 // for a keepalive each 15 s
)

// What of a machine an estimate takes.
const (
	memoryShare = 0.8 // the rest is for caches, garbage and others
	cpuShare    = 0.5 // of the cores for heartbeats: a plane that does nothing else is no use
	renewEvery  = 10  // seconds, a kubelet's
	spareFiles  = 512 // that kube-apiserver and windtunnel have open besides
)

// Hold says how many of something the machine holds, and what limits it.
type Hold struct {
	What    string  `json:"what"`
	Count   float64 `json:"count"`
	Bound   string  `json:"bound_by"`
	Formula string  `json:"formula"`
}

// estimateHolds estimates what the machine holds of each kind alone: a plane with
// nodes has room for fewer pods.
func estimateHolds(f Facts) []Hold {
	room := max(0, memoryShare*float64(f.Available)-baseBytes)
	memory := func(each float64, what string) Hold {
		return Hold{Count: room / each, Bound: "memory", Formula: fmt.Sprintf("(%g × %s available − %s for the plane) / %s per %s",
			memoryShare, unit.Bytes(f.Available).Human(), unit.Bytes(baseBytes).Human(), unit.Bytes(each).Human(), what)}
	}
	beats := Hold{Count: cpuShare * f.UsableCores * renewEvery / renewalSeconds, Bound: "CPU", Formula: fmt.Sprintf("%g × %s cores × %d s between renewals / %.3g ms of CPU per renewal",
		cpuShare, unit.Number(f.UsableCores), renewEvery, 1e3*renewalSeconds)}
	rate := Hold{Count: f.UsableCores / podSeconds, Bound: "CPU", Formula: fmt.Sprintf("%s cores / %.3g ms of CPU of plane and windtunnel per pod", unit.Number(f.UsableCores), 1e3*podSeconds)}
	open := Hold{Count: max(0, float64(f.OpenFiles.Hard)-spareFiles), Bound: "open files", Formula: fmt.Sprintf("%s per process − %d", unit.Count(f.OpenFiles.Hard, "open files"), spareFiles)}
	keepalives := Hold{Count: cpuShare * f.UsableCores / edgeCores, Bound: "CPU", Formula: fmt.Sprintf("%g × %s cores / %.2g of a core per edge for keepalives at both ends", cpuShare, unit.Number(f.UsableCores), edgeCores)}
	sockets := Hold{Count: float64(f.SystemFiles) / 2, Bound: "open files of the machine", Formula: fmt.Sprintf("%s of the machine / 2 for both ends", unit.Count(f.SystemFiles, "open files"))}
	ports := Hold{Count: float64(f.Ports), Bound: "ports", Formula: fmt.Sprintf("%s for outgoing connections", unit.Count(f.Ports, "ports"))}
	return []Hold{
		smallestHold("nodes", memory(nodeBytes, "node")),
		smallestHold("nodes with leases renewed every 10 s", memory(nodeBytes, "node"), beats),
		smallestHold("pods", memory(podBytes, "pod")),
		smallestHold("pods created and deleted per second", rate),
		smallestHold("real members", memory(plan.RealMemberBytes, "API server")),
		smallestHold("hollow members", memory(plan.HollowMemberBytes, "cluster"), Hold{Count: max(0, float64(f.OpenFiles.Hard)-spareFiles) / 6, Bound: "open files", Formula: fmt.Sprintf("(%s per process − %d) / 6", unit.Count(f.OpenFiles.Hard, "open files"), spareFiles)}),
		smallestHold("connected edges", memory(edgeBytes+edgeSockets+2*edgeProcess/max(1, open.Count), "edge, including its share of hub and fleet"), keepalives, sockets),
		smallestHold("connections", memory(connectionBytes, "connection"), open, ports),
	}
}

// smallestHold is the least of some estimates, to two digits: no more is known.
func smallestHold(what string, estimates ...Hold) Hold {
	out := estimates[0]
	for _, e := range estimates[1:] {
		if e.Count < out.Count {
			out = e
		}
	}
	out.What = what
	out.Count = twoDigits(out.Count)
	return out
}

func twoDigits(v float64) float64 {
	if v < 10 {
		return math.Floor(v)
	}
	step := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Floor(v/step) * step
}

package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// State says what a finding means for runs on this machine.
type State string

// The states, from good to bad.
const (
	Fine  State = "fine"
	Doubt State = "doubt" // runs work, and something about their figures is open to doubt, or less fits than could
	Bad   State = "bad"   // no run can work
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Found  string `json:"found"`
	Means  string `json:"means,omitempty"`  // what follows; a sentence
	Remedy string `json:"remedy,omitempty"` // a command that lifts the limit
}

// Report is all that there is to say of a machine.
type Report struct {
	State  State   `json:"state"` // the worst of the checks
	Checks []Check `json:"checks"`
	Holds  []Hold  `json:"holds"`
	Facts  Facts   `json:"facts"`
}

// What is asked of a machine.
const (
	leastMemory   = 2 << 30               // a plane with a few nodes
	someMemory    = 6 << 30               // the examples
	leastDisk     = 1 << 30               // records and logs of a long run
	slowSync      = 10 * time.Millisecond // etcd's own bound for p99 of wal_fsync (https://etcd.io/docs/v3.6/faq/)
	slowClock     = time.Microsecond
	lateTimer     = 10 * time.Millisecond // a tenth of what makes a call late
	fewFiles      = 16384
	fewPorts      = 20000
	fewInotify    = 128
	perServer     = 6 // instances that an API server watches its files with: among 128 the twentieth real member found none
	fewProcesses  = 4096
	busyPerCore   = 0.25
	leastOpen     = 1024
	idleGovernors = "powersave conservative ondemand"
)

// Examine says what facts mean. It is pure: the same facts give the same report.
func Examine(f Facts) Report {
	r := Report{State: Fine, Facts: f, Holds: holds(f)}
	r.Checks = []Check{
		f.system(), f.plane(), f.cores(), f.busy(), f.governor(), f.memoryCheck(), f.swap(), f.files(), f.machineFiles(), f.processes(),
		f.ports(), f.inotify(), f.groups("CPU limits", f.CPUGroup), f.groups("memory limits", f.MemoryGroup), f.namespaces(),
		f.disk("run directories", f.Records), f.data(), f.clock(), f.timer(), f.priority(),
	}
	for _, c := range r.Checks {
		if c.State == Bad || c.State == Doubt && r.State == Fine {
			r.State = c.State
		}
	}
	return r
}

func fine(name, found string) Check { return Check{Name: name, State: Fine, Found: found} }

func doubt(name, found, means, remedy string) Check {
	return Check{Name: name, State: Doubt, Found: found, Means: means, Remedy: remedy}
}

func bad(name, found, means, remedy string) Check {
	return Check{Name: name, State: Bad, Found: found, Means: means, Remedy: remedy}
}

// namespaces are for scenarios that measure networks alone: a machine without them is
// as good for all others.
func (f Facts) namespaces() Check {
	if f.Network != "" {
		return fine("network namespaces", "none, which networks of clusters need: "+f.Network)
	}
	found := "with veth, bridge, VXLAN and tun devices, and rules of nftables"
	if f.Network6 != "" {
		found += "; by IPv4 alone: " + f.Network6
	}
	return fine("network namespaces", found)
}

func (f Facts) system() Check {
	found := strings.TrimSpace(f.Machine.Kernel + ", " + f.Machine.OS + ", " + f.Machine.Arch)
	if !strings.HasPrefix(f.Machine.Kernel, "Linux") {
		return bad("system", found, "Planes are started, limited and cleaned up after by means of Linux.", "")
	}
	return fine("system", found)
}

func (f Facts) plane() Check {
	found := "windtunnel " + f.Versions["windtunnel"]
	if f.Versions["kubernetes"] == "" {
		return doubt("control plane", found+", no kube-plane beside it", "windtunnel can only run scenarios with `plane.binaries` or with --kubeconfig.", "make build")
	}
	return fine("control plane", fmt.Sprintf("%s, kubernetes %s, etcd %s", found, f.Versions["kubernetes"], f.Versions["etcd"]))
}

func (f Facts) cores() Check {
	found := fmt.Sprintf("%s usable of %d (%s)", unit.Number(f.UsableCores), f.Machine.Cores, f.Machine.CPU)
	switch {
	case f.UsableCores < 1:
		return bad("cores", found, "A plane, its fleet and the instruments do not fit on less than one core.", "")
	case f.UsableCores < 2:
		return doubt("cores", found, "The plane takes the core from the instruments: expect verdicts of unknown at small rates.", "")
	case f.UsableCores < float64(f.Machine.Cores):
		return doubt("cores", found, "The control group or the affinity of this process holds back the others.", "cat /proc/self/cgroup  # raise cpu.max (v2) or cpu.cfs_quota_us (v1) of that group")
	}
	return fine("cores", found)
}

func (f Facts) busy() Check {
	found := fmt.Sprintf("load average %.2f", f.Load)
	if f.UsableCores > 0 && f.Load > busyPerCore*f.UsableCores {
		return doubt("neighbours", found, "Other work takes time from the plane and is measured with it.", "ps -eo pcpu,pid,args --sort=-pcpu | head")
	}
	return fine("neighbours", found)
}

func (f Facts) governor() Check {
	switch {
	case f.Governor == "":
		return fine("clock rate", "not told by this kernel")
	case strings.Contains(idleGovernors, f.Governor):
		return doubt("clock rate", "governor "+f.Governor, "The rate follows the load, and latencies with it.", "cpupower frequency-set -g performance")
	}
	return fine("clock rate", "governor "+f.Governor)
}

func (f Facts) memoryCheck() Check {
	found := unit.Bytes(f.Available).Human() + " available of " + unit.Bytes(f.Machine.MemoryBytes).Human()
	if f.MemoryLimit > 0 {
		found += ", limited to " + unit.Bytes(f.MemoryLimit).Human()
	}
	switch {
	case f.Available < leastMemory:
		return bad("memory", found, "A plane with a few nodes needs 2 GiB.", "ps -eo rss,pid,args --sort=-rss | head")
	case f.Available < someMemory:
		return doubt("memory", found, "The examples want 6 GiB.", "ps -eo rss,pid,args --sort=-rss | head")
	}
	return fine("memory", found)
}

func (f Facts) swap() Check {
	if f.SwapUsed > 0 {
		return doubt("swap", unit.Bytes(f.SwapUsed).Human()+" used", "What is read back from swap while it is measured is slow.", "swapoff -a")
	}
	return fine("swap", "not used")
}

func (f Facts) files() Check {
	found := fmt.Sprintf("%d a process (%d now)", f.OpenFiles.Hard, f.OpenFiles.Soft)
	remedy := "ulimit -Hn 1048576  # as root; or LimitNOFILE= of the service"
	switch {
	case f.OpenFiles.Hard < leastOpen:
		return bad("open files", found, "kube-apiserver and etcd need more.", remedy)
	case f.OpenFiles.Hard < fewFiles:
		return doubt("open files", found, "Each connection is an open file of kube-apiserver and one of windtunnel.", remedy)
	}
	return fine("open files", found)
}

func (f Facts) machineFiles() Check {
	found := fmt.Sprintf("%d on the machine", f.SystemFiles)
	if f.SystemFiles > 0 && f.SystemFiles < 8*fewFiles {
		return doubt("open files, all", found, "Both ends of each connection count.", "sysctl -w fs.file-max=1048576")
	}
	return fine("open files, all", found)
}

func (f Facts) processes() Check {
	found := fmt.Sprintf("%d of this user", f.Processes.Hard)
	if f.Processes.Hard == ^uint64(0) {
		found = "no limit"
	}
	if f.Processes.Hard > 0 && f.Processes.Hard < fewProcesses {
		return doubt("threads", found, "Each component takes some tens of threads.", "ulimit -Hu unlimited  # as root")
	}
	return fine("threads", found)
}

func (f Facts) ports() Check {
	found := fmt.Sprintf("%d for outgoing connections", f.Ports)
	if f.Ports > 0 && f.Ports < fewPorts {
		return doubt("ports", found, "Each connection to the plane takes one.", `sysctl -w net.ipv4.ip_local_port_range="15000 65000"`)
	}
	return fine("ports", found)
}

func (f Facts) inotify() Check {
	found := fmt.Sprintf("%s a user, enough for some %d API servers of real members", unit.Count(f.Inotify, "instances"), f.Inotify/perServer)
	if f.Inotify > 0 && f.Inotify < fewInotify {
		return doubt("inotify", found, "Components watch their certificates; each file takes an instance.", "sysctl -w fs.inotify.max_user_instances=1024")
	}
	return fine("inotify", found)
}

func (f Facts) groups(name, fault string) Check {
	if fault == "" {
		return fine(name, "can be set (control groups "+f.Machine.Cgroup+")")
	}
	remedy := "windtunnel as root, or below a group that is yours (systemd-run --user --scope -p Delegate=yes windtunnel ...)"
	return doubt(name, fault, "Limits of the plane and of components in a scenario are not in force; runs say so.", remedy)
}

func (f Facts) disk(name string, d Disk) Check {
	found := d.told()
	switch {
	case d.Fault != "":
		return bad(name, d.Path+": "+d.Fault, "Records cannot be written there.", "windtunnel run ... --out DIR  # on another disk")
	case d.Free < leastDisk:
		return doubt(name, found, "A run ends when its records find no room.", "windtunnel run ... --out DIR  # on another disk")
	}
	return fine(name, found)
}

// data is where etcd writes unless a scenario wants a disk.
func (f Facts) data() Check {
	const name = "etcd's data"
	d := f.Data
	switch {
	case d.Fault != "":
		return bad(name, d.Fault, "No plane can be started here.", "mount -o remount,size=4G /dev/shm")
	case !d.InMemory:
		return doubt(name, d.told(), "No memory file system has room: etcd writes to a disk, and its pauses become the plane's.", "mount -o remount,size=4G /dev/shm")
	case f.Records.Sync.P99 > slowSync:
		return doubt(name, d.told(), fmt.Sprintf("With `durability: fsync` it lies on a disk, which takes %s for a sync at p99; etcd wants at most 10 ms.", f.Records.Sync.P99.Round(10*time.Microsecond)),
			"a local SSD; or leave `durability: memory`")
	}
	return fine(name, d.told())
}

func (d Disk) told() string {
	kind := "disk"
	if d.InMemory {
		kind = "in memory"
	}
	return fmt.Sprintf("%s: %s, %s free, sync p50 %v, p99 %v", d.Path, kind, unit.Bytes(d.Free).Human(),
		d.Sync.P50.Round(time.Microsecond), d.Sync.P99.Round(time.Microsecond))
}

func (f Facts) clock() Check {
	found := fmt.Sprintf("%s, %d ns a reading", f.Clock, f.ClockRead.Nanoseconds())
	if f.ClockRead > slowClock {
		return doubt("clock", found, "Every call reads the clock several times, the plane's components too.", "cat /sys/devices/system/clocksource/clocksource0/available_clocksource  # tsc or kvm-clock, then write it to current_clocksource")
	}
	return fine("clock", found)
}

func (f Facts) timer() Check {
	found := fmt.Sprintf("a sleep of 1 ms lasts %v longer (p50), %v (p99)", f.Timer.P50.Round(time.Microsecond), f.Timer.P99.Round(time.Microsecond))
	if f.Timer.P99 > lateTimer {
		return doubt("timers", found, "Calls leave late, and a run that is too late has no verdict.", "ps -eo pcpu,pid,args --sort=-pcpu | head")
	}
	return fine("timers", found)
}

func (f Facts) priority() Check {
	if f.MayPrefer {
		return fine("priority", "windtunnel may go before the plane")
	}
	return doubt("priority", "windtunnel stands in line with the plane", "A plane that takes every core makes calls late.", "setcap cap_sys_nice+ep bin/windtunnel")
}

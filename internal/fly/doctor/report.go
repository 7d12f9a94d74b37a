package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
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
	minMemory     = 2 << 30               // a plane with a few nodes
	someMemory    = 6 << 30               // the examples
	minDisk       = 1 << 30               // records and logs of a long run
	slowSync      = 10 * time.Millisecond // etcd's own bound for p99 of wal_fsync (https://etcd.io/docs/v3.6/faq/)
	slowClock     = time.Microsecond
	lateTimer     = 10 * time.Millisecond // a tenth of what makes a call late
	fewFiles      = 16384
	fewPorts      = 20000
	fewInotify    = 128
	perServer     = 6 // instances that an API server watches its files with: among 128 the twentieth real member found none
	fewProcesses  = 4096
	busyPerCore   = 0.25
	minOpenFiles  = 1024
	idleGovernors = "powersave conservative ondemand"
)

// Examine says what facts mean. It is pure: the same facts give the same report.
func Examine(f Facts) Report {
	r := Report{State: Fine, Facts: f, Holds: estimateHolds(f)}
	r.Checks = []Check{
		f.checkSystem(), f.checkPlane(), f.checkCores(), f.checkLoad(), f.checkGovernor(), f.memoryCheck(), f.checkSwap(), f.checkFiles(), f.machineFiles(), f.checkProcesses(),
		f.checkPorts(), f.checkInotify(), f.checkGroups("CPU limits", f.CPUGroup), f.checkGroups("memory limits", f.MemoryGroup), f.checkNamespaces(),
		f.checkDisk("run directories", f.Records), f.checkData(), f.checkClock(), f.checkTimer(), f.checkPriority(),
	}
	for _, c := range r.Checks {
		if c.State == Bad || c.State == Doubt && r.State == Fine {
			r.State = c.State
		}
	}
	return r
}

func fineCheck(name, found string) Check { return Check{Name: name, State: Fine, Found: found} }

func warningCheck(name, found, means, remedy string) Check {
	return Check{Name: name, State: Doubt, Found: found, Means: means, Remedy: remedy}
}

func badCheck(name, found, means, remedy string) Check {
	return Check{Name: name, State: Bad, Found: found, Means: means, Remedy: remedy}
}

// checkNamespaces are for scenarios that measure networks alone: a machine without them is
// as good for all others.
func (f Facts) checkNamespaces() Check {
	if f.Network != "" {
		return fineCheck("network namespaces", "none, which networks of clusters need: "+f.Network)
	}
	found := "with veth, bridge, VXLAN and tun devices, and rules of nftables"
	if f.Network6 != "" {
		found += "; by IPv4 alone: " + f.Network6
	}
	return fineCheck("network namespaces", found)
}

func (f Facts) checkSystem() Check {
	found := strings.TrimSpace(f.Machine.Kernel + ", " + f.Machine.OS + ", " + f.Machine.Arch)
	if !strings.HasPrefix(f.Machine.Kernel, "Linux") {
		return badCheck("system", found, "Planes are started, limited and cleaned up after by means of Linux.", "")
	}
	return fineCheck("system", found)
}

func (f Facts) checkPlane() Check {
	found := "windtunnel " + f.Versions["windtunnel"]
	if f.Versions["kubernetes"] == "" {
		return warningCheck("control plane", found+", no kube-plane beside it or in its cache", "windtunnel can only run scenarios with `plane.binaries` or with --kubeconfig.", "windtunnel plane build "+release.Default)
	}
	return fineCheck("control plane", fmt.Sprintf("%s, kubernetes %s, etcd %s", found, f.Versions["kubernetes"], f.Versions["etcd"]))
}

func (f Facts) checkCores() Check {
	found := fmt.Sprintf("%s usable of %d (%s)", unit.Number(f.UsableCores), f.Machine.Cores, f.Machine.CPU)
	switch {
	case f.UsableCores < 1:
		return badCheck("cores", found, "A plane, its fleet and the instruments do not fit on less than one core.", "")
	case f.UsableCores < 2:
		return warningCheck("cores", found, "The plane takes the core from the instruments: expect verdicts of unknown at small rates.", "")
	case f.UsableCores < float64(f.Machine.Cores):
		return warningCheck("cores", found, "The control group or the affinity of this process holds back the others.", "cat /proc/self/cgroup  # raise cpu.max (v2) or cpu.cfs_quota_us (v1) of that group")
	}
	return fineCheck("cores", found)
}

func (f Facts) checkLoad() Check {
	found := fmt.Sprintf("load average %.2f", f.Load)
	if f.UsableCores > 0 && f.Load > busyPerCore*f.UsableCores {
		return warningCheck("neighbours", found, "Other work takes time from the plane and is measured with it.", "ps -eo pcpu,pid,args --sort=-pcpu | head")
	}
	return fineCheck("neighbours", found)
}

func (f Facts) checkGovernor() Check {
	switch {
	case f.Governor == "":
		return fineCheck("clock rate", "not told by this kernel")
	case strings.Contains(idleGovernors, f.Governor):
		return warningCheck("clock rate", "governor "+f.Governor, "The rate follows the load, and latencies with it.", "cpupower frequency-set -g performance")
	}
	return fineCheck("clock rate", "governor "+f.Governor)
}

func (f Facts) memoryCheck() Check {
	found := unit.Bytes(f.Available).Human() + " available of " + unit.Bytes(f.Machine.MemoryBytes).Human()
	if f.MemoryLimit > 0 {
		found += ", limited to " + unit.Bytes(f.MemoryLimit).Human()
	}
	switch {
	case f.Available < minMemory:
		return badCheck("memory", found, "A plane with a few nodes needs 2 GiB.", "ps -eo rss,pid,args --sort=-rss | head")
	case f.Available < someMemory:
		return warningCheck("memory", found, "The examples want 6 GiB.", "ps -eo rss,pid,args --sort=-rss | head")
	}
	return fineCheck("memory", found)
}

func (f Facts) checkSwap() Check {
	if f.SwapUsed > 0 {
		return warningCheck("swap", unit.Bytes(f.SwapUsed).Human()+" used", "What is read back from swap while it is measured is slow.", "swapoff -a")
	}
	return fineCheck("swap", "not used")
}

func (f Facts) checkFiles() Check {
	found := fmt.Sprintf("%d a process (%d now)", f.OpenFiles.Hard, f.OpenFiles.Soft)
	remedy := "ulimit -Hn 1048576  # as root; or LimitNOFILE= of the service"
	switch {
	case f.OpenFiles.Hard < minOpenFiles:
		return badCheck("open files", found, "kube-apiserver and etcd need more.", remedy)
	case f.OpenFiles.Hard < fewFiles:
		return warningCheck("open files", found, "Each connection is an open file of kube-apiserver and one of windtunnel.", remedy)
	}
	return fineCheck("open files", found)
}

func (f Facts) machineFiles() Check {
	found := fmt.Sprintf("%d on the machine", f.SystemFiles)
	if f.SystemFiles > 0 && f.SystemFiles < 8*fewFiles {
		return warningCheck("open files, all", found, "Both ends of each connection count.", "sysctl -w fs.file-max=1048576")
	}
	return fineCheck("open files, all", found)
}

func (f Facts) checkProcesses() Check {
	found := fmt.Sprintf("%d of this user", f.Processes.Hard)
	if f.Processes.Hard == ^uint64(0) {
		found = "no limit"
	}
	if f.Processes.Hard > 0 && f.Processes.Hard < fewProcesses {
		return warningCheck("threads", found, "Each component takes some tens of threads.", "ulimit -Hu unlimited  # as root")
	}
	return fineCheck("threads", found)
}

func (f Facts) checkPorts() Check {
	found := fmt.Sprintf("%d for outgoing connections", f.Ports)
	if f.Ports > 0 && f.Ports < fewPorts {
		return warningCheck("ports", found, "Each connection to the plane takes one.", `sysctl -w net.ipv4.ip_local_port_range="15000 65000"`)
	}
	return fineCheck("ports", found)
}

func (f Facts) checkInotify() Check {
	found := fmt.Sprintf("%s a user, enough for some %d API servers of real members", unit.Count(f.Inotify, "instances"), f.Inotify/perServer)
	if f.Inotify > 0 && f.Inotify < fewInotify {
		return warningCheck("inotify", found, "Components watch their certificates; each file takes an instance.", "sysctl -w fs.inotify.max_user_instances=1024")
	}
	return fineCheck("inotify", found)
}

func (f Facts) checkGroups(name, fault string) Check {
	if fault == "" {
		return fineCheck(name, "can be set (control groups "+f.Machine.Cgroup+")")
	}
	remedy := "windtunnel as root, or below a group that is yours (systemd-run --user --scope -p Delegate=yes windtunnel ...)"
	return warningCheck(name, fault, "Limits of the plane and of components in a scenario are not in force; runs say so.", remedy)
}

func (f Facts) checkDisk(name string, d Disk) Check {
	found := d.describeDisk()
	switch {
	case d.Fault != "":
		return badCheck(name, d.Path+": "+d.Fault, "Records cannot be written there.", "windtunnel run ... --out DIR  # on another disk")
	case d.Free < minDisk:
		return warningCheck(name, found, "A run ends when its records find no room.", "windtunnel run ... --out DIR  # on another disk")
	}
	return fineCheck(name, found)
}

// checkData is where etcd writes unless a scenario wants a disk.
func (f Facts) checkData() Check {
	const name = "etcd's data"
	d := f.Data
	switch {
	case d.Fault != "":
		return badCheck(name, d.Fault, "No plane can be started here.", "mount -o remount,size=4G /dev/shm")
	case !d.InMemory:
		return warningCheck(name, d.describeDisk(), "No memory file system has room: etcd writes to a disk, and its pauses become the plane's.", "mount -o remount,size=4G /dev/shm")
	case f.Records.Sync.P99 > slowSync:
		return warningCheck(name, d.describeDisk(), fmt.Sprintf("With `durability: fsync` it lies on a disk, which takes %s for a sync at p99; etcd wants at most 10 ms.", f.Records.Sync.P99.Round(10*time.Microsecond)),
			"a local SSD; or leave `durability: memory`")
	}
	return fineCheck(name, d.describeDisk())
}

func (d Disk) describeDisk() string {
	kind := "disk"
	if d.InMemory {
		kind = "in memory"
	}
	return fmt.Sprintf("%s: %s, %s free, sync p50 %v, p99 %v", d.Path, kind, unit.Bytes(d.Free).Human(),
		d.Sync.P50.Round(time.Microsecond), d.Sync.P99.Round(time.Microsecond))
}

func (f Facts) checkClock() Check {
	found := fmt.Sprintf("%s, %d ns a reading", f.Clock, f.ClockRead.Nanoseconds())
	if f.ClockRead > slowClock {
		return warningCheck("clock", found, "Every call reads the clock several times, the plane's components too.", "cat /sys/devices/system/clocksource/clocksource0/available_clocksource  # tsc or kvm-clock, then write it to current_clocksource")
	}
	return fineCheck("clock", found)
}

func (f Facts) checkTimer() Check {
	found := fmt.Sprintf("a sleep of 1 ms lasts %v longer (p50), %v (p99)", f.Timer.P50.Round(time.Microsecond), f.Timer.P99.Round(time.Microsecond))
	if f.Timer.P99 > lateTimer {
		return warningCheck("timers", found, "Calls leave late, and a run that is too late has no verdict.", "ps -eo pcpu,pid,args --sort=-pcpu | head")
	}
	return fineCheck("timers", found)
}

func (f Facts) checkPriority() Check {
	if f.MayPrefer {
		return fineCheck("priority", "windtunnel may go before the plane")
	}
	return warningCheck("priority", "windtunnel stands in line with the plane", "A plane that takes every core makes calls late.", "setcap cap_sys_nice+ep bin/windtunnel")
}

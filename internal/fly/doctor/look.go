package doctor

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/kernel"
	"github.com/windtunnel/windtunnel/internal/machine/network"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
)

// Options say where to look.
type Options struct {
	Runs     string            // the folder below which run directories are made
	Versions map[string]string // of windtunnel and what is linked
}

// Look finds out what there is to know of this machine. It takes about a
// second, for what it times.
func Look(o Options) Facts {
	f := Facts{Machine: usage.Machine(), Versions: o.Versions}
	f.readFiles(os.DirFS("/"))
	f.UsableCores = min(f.UsableCores, float64(runtime.NumCPU())) // NumCPU knows the affinity
	f.OpenFiles, f.Processes = Limit(kernel.OpenFiles()), Limit(kernel.Processes())
	if nice := kernel.Niceness(); nice.Soft >= 25 {
		f.MayPrefer = true // 20 less the limit is the least niceness
	}
	f.CPUGroup = errorText(process.TryLimits(process.Limits{CPU: 1}))
	f.MemoryGroup = errorText(process.TryLimits(process.Limits{Memory: 64 << 20}))
	f.Network, f.Network6 = errorText(network.Try()), errorText(network.TryIPv6())
	f.Records = lookAt(nearestFolder(o.Runs))
	if room, err := plane.DiskSpaceFor("memory"); err != nil {
		f.Data.Fault = err.Error()
	} else {
		f.Data = lookAt(room.Folder)
		f.Data.InMemory, f.Data.Free = room.InMemory, room.Free
	}
	f.ClockRead, f.Timer = timeClock(), timeSleeps()
	return f
}

// readFiles fills in what stands in files below /proc and /sys.
func (f *Facts) readFiles(root fs.FS) {
	f.UsableCores = float64(f.Machine.Cores)
	f.Available = 1024 * readNumber(root, "proc/meminfo", "MemAvailable:")
	f.SwapUsed = 1024 * (readNumber(root, "proc/meminfo", "SwapTotal:") - readNumber(root, "proc/meminfo", "SwapFree:"))
	f.Load, _ = strconv.ParseFloat(firstField(readLine(root, "proc/loadavg")), 64)        // 0: not known
	f.SystemFiles, _ = strconv.ParseUint(readLine(root, "proc/sys/fs/file-max"), 10, 64)  // likewise
	f.Inotify, _ = strconv.Atoi(readLine(root, "proc/sys/fs/inotify/max_user_instances")) // likewise
	if r := strings.Fields(readLine(root, "proc/sys/net/ipv4/ip_local_port_range")); len(r) == 2 {
		low, err := strconv.Atoi(r[0])
		high, err2 := strconv.Atoi(r[1])
		if err == nil && err2 == nil && high >= low {
			f.Ports = high - low + 1
		}
	}
	f.Clock = readLine(root, "sys/devices/system/clocksource/clocksource0/current_clocksource")
	f.Governor = readLine(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	const capSysNice = 23
	caps, err := strconv.ParseUint(readValue(root, "proc/self/status", "CapEff:"), 16, 64)
	f.MayPrefer = err == nil && caps&(1<<capSysNice) != 0
	f.readGroup(root)
}

// readGroup finds the limits of the control groups that this process is in,
// from its own up to the top.
func (f *Facts) readGroup(root fs.FS) {
	raw, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return
	}
	for one := range strings.Lines(string(raw)) {
		part := strings.SplitN(strings.TrimSpace(one), ":", 3)
		if len(part) != 3 {
			continue
		}
		for group := part[2]; ; group = path.Dir(group) {
			f.readLimits(root, part[1], group)
			if group == "/" || group == "." {
				break
			}
		}
	}
}

// readLimits takes the limits of one group into account: v2 where there is no
// controller, else v1.
func (f *Facts) readLimits(root fs.FS, controllers, group string) {
	for _, c := range strings.Split(controllers, ",") {
		switch c {
		case "":
			if q := strings.Fields(readLine(root, path.Join("sys/fs/cgroup", group, "cpu.max"))); len(q) == 2 {
				f.takeQuota(q[0], q[1])
			}
			f.takeMemoryLimit(readLine(root, path.Join("sys/fs/cgroup", group, "memory.max")))
		case "cpu":
			at := path.Join("sys/fs/cgroup", "cpu", group)
			f.takeQuota(readLine(root, at+"/cpu.cfs_quota_us"), readLine(root, at+"/cpu.cfs_period_us"))
		case "memory":
			f.takeMemoryLimit(readLine(root, path.Join("sys/fs/cgroup/memory", group, "memory.limit_in_bytes")))
		}
	}
}

func (f *Facts) takeQuota(quota, period string) {
	q, err := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if err == nil && err2 == nil && q > 0 && p > 0 { // "max" and -1 are none
		f.UsableCores = min(f.UsableCores, q/p)
	}
}

func (f *Facts) takeMemoryLimit(limit string) {
	n, err := strconv.ParseUint(limit, 10, 64)
	if err != nil || n >= 1<<60 { // "max", or v1's word for it
		return
	}
	if f.MemoryLimit == 0 || n < f.MemoryLimit {
		f.MemoryLimit = n
	}
	f.Available = min(f.Available, n)
}

// readLine returns the content of a file of one line; empty when it cannot be read.
func readLine(root fs.FS, name string) string {
	raw, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// readValue returns what stands behind a key in a file of keys.
func readValue(root fs.FS, name, key string) string {
	for one := range strings.Lines(readLine(root, name)) {
		if rest, ok := strings.CutPrefix(one, key); ok {
			return firstField(rest)
		}
	}
	return ""
}

func readNumber(root fs.FS, name, key string) uint64 {
	n, err := strconv.ParseUint(readValue(root, name, key), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func firstField(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return f[0]
	}
	return ""
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// nearestFolder returns the folder itself or the nearest above it that is there.
func nearestFolder(folder string) string {
	at, err := filepath.Abs(folder)
	if err != nil {
		return folder
	}
	for {
		if info, err := os.Stat(at); err == nil && info.IsDir() || at == filepath.Dir(at) {
			return at
		}
		at = filepath.Dir(at)
	}
}

package doctor

import (
	"testing"
	"testing/fstest"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// TestRead reads machines that are told of in files.
func TestRead(t *testing.T) {
	both := fstest.MapFS{
		"proc/meminfo":                           file("MemTotal:  100 kB\nMemAvailable:   80 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n"),
		"proc/loadavg":                           file("1.25 0.9 0.8 1/100 7\n"),
		"proc/sys/fs/file-max":                   file("12345\n"),
		"proc/sys/fs/inotify/max_user_instances": file("128\n"),
		"proc/sys/net/ipv4/ip_local_port_range":  file("32768\t60999\n"),
		"sys/devices/system/clocksource/clocksource0/current_clocksource": file("tsc\n"),
		"proc/self/status": file("Name:\tx\nCapEff:\t0000000000800000\n"),
	}
	with := func(more fstest.MapFS) fstest.MapFS {
		out := fstest.MapFS{}
		for _, m := range []fstest.MapFS{both, more} {
			for name, f := range m {
				out[name] = f
			}
		}
		return out
	}
	for _, c := range []struct {
		name   string
		files  fstest.MapFS
		cores  float64
		memory uint64 // limit
		room   uint64 // available
	}{
		{"no groups", with(nil), 8, 0, 80 << 10},
		{"v2, a limit further up", with(fstest.MapFS{
			"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/cpu.max": file("max 100000\n"), "sys/fs/cgroup/a/cpu.max": file("250000 100000\n"),
			"sys/fs/cgroup/a/b/memory.max": file("40960\n"), "sys/fs/cgroup/a/memory.max": file("max\n"),
		}), 2.5, 40960, 40960},
		{"v1", with(fstest.MapFS{
			"proc/self/cgroup": file("3:cpu,cpuacct:/x\n2:memory:/x\n1:name=systemd:/x\n"), "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": file("150000\n"),
			"sys/fs/cgroup/cpu/x/cpu.cfs_period_us": file("100000\n"), "sys/fs/cgroup/memory/x/memory.limit_in_bytes": file("9223372036854771712\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("65536\n"),
		}), 1.5, 65536, 65536},
		{"v1 without limits", with(fstest.MapFS{
			"proc/self/cgroup": file("3:cpu:/\n2:memory:/\n"), "sys/fs/cgroup/cpu/cpu.cfs_quota_us": file("-1\n"), "sys/fs/cgroup/cpu/cpu.cfs_period_us": file("100000\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n"),
		}), 8, 0, 80 << 10},
	} {
		f := Facts{}
		f.Machine.Cores = 8
		f.readFiles(c.files)
		if f.UsableCores != c.cores || f.MemoryLimit != c.memory || f.Available != c.room {
			t.Errorf("%s: %v cores, limit %d, available %d; want %v, %d, %d", c.name, f.UsableCores, f.MemoryLimit, f.Available, c.cores, c.memory, c.room)
		}
		if f.SwapUsed != 30<<10 || f.Load != 1.25 || f.SystemFiles != 12345 || f.Inotify != 128 || f.Ports != 28232 || f.Clock != "tsc" || !f.MayPrefer {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
	f := Facts{}
	f.readFiles(fstest.MapFS{}) // what cannot be found out is no fault
	if f.MayPrefer || f.Ports != 0 {
		t.Errorf("nothing to read: %+v", f)
	}
}

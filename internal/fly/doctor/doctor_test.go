package doctor_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/fly/doctor"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// good is a machine without a fault.
func good() doctor.Facts {
	disk := doctor.Disk{Path: "/d", Free: 50 << 30, Sync: doctor.Timing{Tries: 50, P50: time.Millisecond, P99: 2 * time.Millisecond}}
	data := disk
	data.InMemory = true
	return doctor.Facts{
		Machine:     record.Machine{Cores: 4, CPU: "a CPU", MemoryBytes: 16 << 30, Kernel: "Linux 6.1", OS: "Debian", Arch: "amd64", Cgroup: "v2"},
		Versions:    map[string]string{"windtunnel": "1", "kubernetes": "v1", "etcd": "3"},
		UsableCores: 4, Available: 15 << 30, Load: 0.05, OpenFiles: doctor.Limit{Soft: 1024, Hard: 1 << 20}, Processes: doctor.Limit{Soft: 1 << 16, Hard: 1 << 16},
		SystemFiles: 1 << 20, Ports: 28232, Inotify: 128, Clock: "tsc", ClockRead: 40, Timer: doctor.Timing{Tries: 100, P50: 50_000, P99: 200_000},
		Governor: "performance", MayPrefer: true, Records: disk, Data: data,
	}
}

// spoiling is a fault of a machine, and the check that finds it.
type spoiling struct {
	check  string
	state  doctor.State
	remedy string
	spoil  func(*doctor.Facts)
}

func spoilings() []spoiling {
	return []spoiling{
		{"system", doctor.Bad, "", func(f *doctor.Facts) { f.Machine.Kernel = "Darwin 24" }},
		{"control plane", doctor.Doubt, "windtunnel plane build v1.", func(f *doctor.Facts) { delete(f.Versions, "kubernetes") }},
		{"cores", doctor.Bad, "", func(f *doctor.Facts) { f.UsableCores = 0.5 }},
		{"cores", doctor.Doubt, "", func(f *doctor.Facts) { f.UsableCores, f.Machine.Cores = 1.5, 1 }},
		{"cores", doctor.Doubt, "cpu.max", func(f *doctor.Facts) { f.UsableCores = 2 }},
		{"neighbours", doctor.Doubt, "ps -eo", func(f *doctor.Facts) { f.Load = 3 }},
		{"clock rate", doctor.Doubt, "cpupower", func(f *doctor.Facts) { f.Governor = "powersave" }},
		{"memory", doctor.Bad, "ps -eo", func(f *doctor.Facts) { f.Available = 1 << 30 }},
		{"memory", doctor.Doubt, "ps -eo", func(f *doctor.Facts) { f.Available = 4 << 30 }},
		{"swap", doctor.Doubt, "swapoff -a", func(f *doctor.Facts) { f.SwapUsed = 1 }},
		{"open files", doctor.Bad, "ulimit -Hn", func(f *doctor.Facts) { f.OpenFiles.Hard = 256 }},
		{"open files", doctor.Doubt, "ulimit -Hn", func(f *doctor.Facts) { f.OpenFiles.Hard = 4096 }},
		{"open files, all", doctor.Doubt, "fs.file-max", func(f *doctor.Facts) { f.SystemFiles = 10000 }},
		{"threads", doctor.Doubt, "ulimit -Hu", func(f *doctor.Facts) { f.Processes.Hard = 1000 }},
		{"ports", doctor.Doubt, "ip_local_port_range", func(f *doctor.Facts) { f.Ports = 1000 }},
		{"inotify", doctor.Doubt, "max_user_instances", func(f *doctor.Facts) { f.Inotify = 16 }},
		{"CPU limits", doctor.Doubt, "Delegate=yes", func(f *doctor.Facts) { f.CPUGroup = "permission denied" }},
		{"memory limits", doctor.Doubt, "Delegate=yes", func(f *doctor.Facts) { f.MemoryGroup = "permission denied" }},
		{"run directories", doctor.Bad, "--out", func(f *doctor.Facts) { f.Records.Fault = "read-only file system" }},
		{"run directories", doctor.Doubt, "--out", func(f *doctor.Facts) { f.Records.Free = 1 << 20 }},
		{"etcd's data", doctor.Bad, "/dev/shm", func(f *doctor.Facts) { f.Data.Fault = "no room" }},
		{"etcd's data", doctor.Doubt, "/dev/shm", func(f *doctor.Facts) { f.Data.InMemory = false }},
		{"etcd's data", doctor.Doubt, "SSD", func(f *doctor.Facts) { f.Records.Sync.P99 = 30 * time.Millisecond }},
		{"clock", doctor.Doubt, "current_clocksource", func(f *doctor.Facts) { f.Clock, f.ClockRead = "hpet", 3000 }},
		{"timers", doctor.Doubt, "ps -eo", func(f *doctor.Facts) { f.Timer.P99 = time.Second }},
		{"priority", doctor.Doubt, "setcap", func(f *doctor.Facts) { f.MayPrefer = false }},
	}
}

// Each fault is found by itself, with what follows and, nearly always, a remedy.
func TestExamine(t *testing.T) {
	if r := doctor.Examine(good()); r.State != doctor.Fine {
		t.Fatalf("a good machine is %s: %+v", r.State, r.Checks)
	}
	for _, c := range spoilings() {
		f := good()
		c.spoil(&f)
		r := doctor.Examine(f)
		found := false
		for _, one := range r.Checks {
			if one.State == doctor.Fine {
				continue
			}
			found = true
			if one.Name != c.check || one.State != c.state || !strings.Contains(one.Remedy, c.remedy) || one.Means == "" {
				t.Errorf("%s: want only it to be %s with %q, got %+v", c.check, c.state, c.remedy, one)
			}
		}
		if !found || r.State != c.state {
			t.Errorf("%s: the whole is %s, found %v; want %s", c.check, r.State, found, c.state)
		}
	}
}

// What a machine holds is bound by what it has least of, and more of that lets
// it hold more.
func TestHolds(t *testing.T) {
	of := func(f doctor.Facts, what string) doctor.Hold {
		for _, h := range doctor.Examine(f).Holds {
			if h.What == what {
				return h
			}
		}
		t.Fatalf("no estimate for %s", what)
		return doctor.Hold{}
	}
	f := good()
	for _, c := range []struct {
		what, bound string
		lift        func(*doctor.Facts)
	}{
		{"nodes", "memory", func(f *doctor.Facts) { f.Available *= 2 }},
		{"nodes with leases renewed every 10 s", "CPU", func(f *doctor.Facts) { f.UsableCores *= 2 }},
		{"pods", "memory", func(f *doctor.Facts) { f.Available *= 2 }},
		{"pods created and deleted per second", "CPU", func(f *doctor.Facts) { f.UsableCores *= 2 }},
		{"connected edges", "CPU", func(f *doctor.Facts) { f.UsableCores *= 2 }},
		{"connections", "ports", func(f *doctor.Facts) { f.Ports *= 2 }},
	} {
		before := of(f, c.what)
		lifted := f
		c.lift(&lifted)
		after := of(lifted, c.what)
		if before.Bound != c.bound || before.Count <= 0 || after.Count < 1.8*before.Count {
			t.Errorf("%s: %v by %s, lifted %v; want twice, by %s (%s)", c.what, before.Count, before.Bound, after.Count, c.bound, before.Formula)
		}
	}
	f.OpenFiles.Hard = 2048
	if h := of(f, "connections"); h.Bound != "open files" || h.Count != 1500 {
		t.Errorf("connections: %+v", h)
	}
	f.Available = 1 << 29
	if h := of(f, "nodes"); h.Count != 0 {
		t.Errorf("without memory: %+v", h)
	}
}

// The summary fits a screen whatever is wrong, and has the remedy of what is wrong alone.
func TestSummary(t *testing.T) {
	plain := func(_ doctor.State, text string) string { return text }
	write := func(f doctor.Facts) string {
		var b bytes.Buffer
		repotest.NoError(t, doctor.Examine(f).Summary(&b, plain))
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) > 22 {
			t.Errorf("%d lines:\n%s", len(lines), &b)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 79 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
		return b.String()
	}
	repotest.Golden(t, "testdata/fine.golden", write(good()))
	some, all := good(), good()
	for _, c := range spoilings() {
		f := good()
		c.spoil(&f)
		c.spoil(&all)
		if c.check == "control plane" || c.check == "swap" {
			c.spoil(&some)
		}
		remedy := strings.Join(strings.Fields(write(f)), " ")
		if want := strings.Join(strings.Fields(remedyIn(doctor.Examine(f))), " "); !strings.Contains(remedy, want) {
			t.Errorf("%s: no %q in %s", c.check, want, remedy)
		}
	}
	all.MemoryLimit, all.Machine.CPU = 1<<30, strings.Repeat("a long name of a CPU ", 8)
	repotest.Golden(t, "testdata/doubt.golden", write(some))
	repotest.Golden(t, "testdata/bad.golden", write(all))
}

// remedyIn returns the remedy of the one thing that is not fine.
func remedyIn(r doctor.Report) string {
	for _, c := range r.Checks {
		if c.State != doctor.Fine {
			return c.Remedy
		}
	}
	return ""
}

func TestForms(t *testing.T) {
	f := good()
	f.SwapUsed = 3 << 20
	r := doctor.Examine(f)
	var table, markdown, raw bytes.Buffer
	repotest.NoError(t, r.Table(&table, func(s doctor.State, text string) string { return "<" + string(s) + ">" + text }))
	for _, want := range []string{"<doubt>doubt  swap", "> swapoff -a", "one thing is in doubt", "limited by memory"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	if err := r.Markdown(&markdown); err != nil || !strings.Contains(markdown.String(), "| doubt | swap | 3 MiB used |") {
		t.Errorf("%v\n%s", err, markdown.String())
	}
	var back doctor.Report
	repotest.NoError(t, r.JSON(&raw))
	if err := json.Unmarshal(raw.Bytes(), &back); err != nil || back.State != doctor.Doubt || back.Facts.SwapUsed != 3<<20 || len(back.Holds) != 8 {
		t.Errorf("%v: %+v", err, back)
	}
}

// Looking at this machine finds out what every machine tells, and leaves nothing.
func TestLook(t *testing.T) {
	runs := t.TempDir()
	f := doctor.Look(doctor.Options{Runs: filepath.Join(runs, "a", "b"), Versions: map[string]string{}})
	if f.UsableCores <= 0 || f.Available == 0 || f.OpenFiles.Hard == 0 || f.Ports == 0 || f.ClockRead <= 0 || f.Timer.Tries == 0 || f.Clock == "" {
		t.Errorf("not found out: %+v", f)
	}
	if f.Records.Path != runs || f.Records.Fault != "" || f.Records.Sync.P99 <= 0 || f.Records.Free == 0 {
		t.Errorf("run directories: %+v", f.Records)
	}
	if left, err := os.ReadDir(runs); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestNoNamespacesSpoilNothing holds that a machine without network namespaces is as good
// as any, and that it is told what it cannot fly.
func TestNoNamespacesSpoilNothing(t *testing.T) {
	for _, c := range []struct{ network, six, want string }{
		{"no devices of the kinds vxlan (operation not supported)", "neither", "none, which networks of clusters need: no devices of the kinds vxlan (operation not supported)"},
		{"", "no IPv6: address family not supported", "by IPv4 alone: no IPv6: address family not supported"},
		{"", "", "rules of nftables"},
	} {
		f := good()
		f.Network, f.Network6 = c.network, c.six
		r := doctor.Examine(f)
		i := slices.IndexFunc(r.Checks, func(c doctor.Check) bool { return c.Name == "network namespaces" })
		if r.State != doctor.Fine || i < 0 || !strings.HasSuffix(r.Checks[i].Found, c.want) {
			t.Errorf("%q, %q: %+v", c.network, c.six, r)
		}
	}
}

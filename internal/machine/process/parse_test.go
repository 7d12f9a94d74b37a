package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestPlacesFor(t *testing.T) {
	const v1 = `31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`
	const v2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	cases := []struct {
		name, own, mounts string
		want              []place
		fault             string
	}{
		{"v1, two hierarchies", "4:memory:/a/b\n1:cpu,cpuacct:/\n0::/\n", v1, []place{
			{1, []string{"cpu"}, []string{"/sys/fs/cgroup/cpu,cpuacct"}},
			{1, []string{"memory"}, []string{"/sys/fs/cgroup/memory/a/b"}},
		}, ""},
		{"v2, a session's scope", "0::/user.slice/user-0.slice/session-1.scope\n", v2, []place{
			{2, []string{"cpu", "memory"}, []string{
				"/sys/fs/cgroup/user.slice/user-0.slice/session-1.scope", "/sys/fs/cgroup/user.slice/user-0.slice",
				"/sys/fs/cgroup/user.slice", "/sys/fs/cgroup",
			}},
		}, ""},
		{"v2, root", "0::/\n", v2, []place{{2, []string{"cpu", "memory"}, []string{"/sys/fs/cgroup"}}}, ""},
		{"container: the mount shows its own group", "4:memory:/docker/x\n1:cpu:/docker/x/y\n",
			"1 2 0:1 /docker/x /cg/memory rw - cgroup cgroup rw,memory\n1 2 0:1 /docker/x /cg/cpu\\040s rw - cgroup cgroup rw,cpu\n", []place{
				{1, []string{"cpu"}, []string{"/cg/cpu s/y"}}, {1, []string{"memory"}, []string{"/cg/memory"}},
			}, ""},
		{"namespace: the group is outside", "4:memory:/../x\n1:cpu:/z\n",
			"1 2 0:1 / /cg/m rw - cgroup cgroup rw,memory\n1 2 0:1 /other /cg/c rw - cgroup cgroup rw,cpu\n", []place{
				{1, []string{"cpu"}, []string{"/cg/c"}}, {1, []string{"memory"}, []string{"/cg/m"}},
			}, ""},
		{"none", "", "31 23 0:28 / / rw - ext4 /dev/vda rw\nnonsense\n", nil, "controller cpu"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := placesFor(parseOwn(c.own), parseMounts(c.mounts), []string{"cpu", "memory"})
			if (err == nil) != (c.fault == "") || (err != nil && !strings.Contains(err.Error(), c.fault)) {
				t.Fatalf("error %v, want %q", err, c.fault)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	l := Limits{CPU: 1.5, Memory: 1 << 30}
	cases := []struct {
		part part
		l    Limits
		want [][2]string
	}{
		{part{version: 1, controllers: []string{"cpu"}}, l, [][2]string{{"cpu.cfs_period_us", "100000"}, {"cpu.cfs_quota_us", "150000"}}},
		{part{version: 1, controllers: []string{"memory"}}, l, [][2]string{{"memory.limit_in_bytes", "1073741824"}}},
		{part{version: 2, controllers: []string{"cpu", "memory"}}, l, [][2]string{{"cpu.max", "150000 100000"}, {"memory.max", "1073741824"}}},
		{part{version: 2, controllers: []string{"cpu"}}, Limits{CPU: 0.001}, [][2]string{{"cpu.max", "1000 100000"}}},
	}
	for _, c := range cases {
		if got := c.part.limitSettings(c.l); !reflect.DeepEqual(got, c.want) {
			t.Errorf("v%d %v: %v, want %v", c.part.version, c.part.controllers, got, c.want)
		}
	}
}

// A v2 hierarchy as files: what is passed on, and who may turn it on.
func TestDelegate(t *testing.T) {
	cases := []struct {
		on, after string
		own, ok   bool
	}{
		{"cpu memory pids", "cpu memory pids", false, true},
		{"memory", "memory", false, false},
		{"memory", "+cpury", true, true}, // a plain file keeps what was not overwritten
	}
	for _, c := range cases {
		dir := t.TempDir()
		file := filepath.Join(dir, "cgroup.subtree_control")
		repotest.NoError(t, os.WriteFile(file, []byte(c.on), 0o600))
		err := delegateControllers(dir, []string{"cpu", "memory"}, c.own)
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
		if raw, _ := os.ReadFile(file); string(raw) != c.after {
			t.Errorf("%+v: file now %q", c, raw)
		}
	}
	if err := delegateControllers(t.TempDir(), []string{"cpu"}, true); err == nil {
		t.Error("a folder without controllers was accepted")
	}
}

func TestParseStat(t *testing.T) {
	fields := " 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 10 11"
	for line, want := range map[string]stat{
		"42 (etcd) S" + fields:        {'S', 42, 987654},
		"42 (a) b) (c) S) Z" + fields: {'Z', 42, 987654},
	} {
		if got, err := parseStat(line); err != nil || got != want {
			t.Errorf("%q: %+v %v, want %+v", line, got, err, want)
		}
	}
	for _, line := range []string{"", "42 (etcd)", "42 (etcd) S 1 2", "42 (etcd) S 1 x" + strings.Repeat(" 1", 20)} {
		if _, err := parseStat(line); err == nil {
			t.Errorf("%q was accepted", line)
		}
	}
}

func TestKillGroupSparesAnotherProcessOfTheSameNumber(t *testing.T) {
	s := repotest.Must(statOf(os.Getpid()))(t)
	killGroup(os.Getpid(), s.start+1) // still here: spared
	if isAlive(os.Getpid(), s.start+1) || !isAlive(os.Getpid(), s.start) {
		t.Error("alive does not tell start times apart")
	}
}

func TestCleanTouchesOnlyOurNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "precious")
	repotest.NoError(t, os.Mkdir(dir, 0o700))
	if err := cleanEntries([]entry{{Dir: dir}, {Cgroup: dir}, {PID: 0}, {PID: 1}, {PID: -1}}); err == nil {
		t.Error("no complaint")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error("a folder of somebody else was removed")
	}
}

func TestReadEntriesDropsACutOffLine(t *testing.T) {
	got := readEntries(strings.NewReader("{\"pid\":7,\"start\":9}\nnonsense\n{\"dir\":\"/x\"}\n{\"pid\":8"))
	want := []entry{{PID: 7, Start: 9}, {Dir: "/x"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func FuzzReadEntries(f *testing.F) {
	f.Add("{\"pid\":7,\"start\":9}\n")
	f.Fuzz(func(t *testing.T, text string) {
		if n := strings.Count(text, "\n"); len(readEntries(strings.NewReader(text))) > n {
			t.Error("more entries than lines")
		}
	})
}

func TestLastWords(t *testing.T) {
	help := strings.Repeat("  --flag string   help\n", 100)
	stacks := strings.Repeat("goroutine 1 [running]:\n", 100)
	cases := []struct{ name, log, want string }{
		{"empty", "", ""},
		{"short", "a\nb\n", "a|b"},
		{"long", strings.Repeat("x\n", 50) + "end", "x|x|x|x|x|x|x|end"},
		{"usage error", "I0101 started\nError: unknown flag: --bogus\nUsage:\n" + help, "Error: unknown flag: --bogus"},
		{"usage error of etcd", "flag provided but not defined: -bogus\nUsage:\n" + help, "flag provided but not defined: -bogus"},
		{"panic", "I0101 x\npanic: no memory\n\n" + stacks, "panic: no memory||goroutine 1 [running]:|goroutine 1 [running]:|goroutine 1 [running]:|goroutine 1 [running]:|goroutine 1 [running]:|goroutine 1 [running]:"},
		{"klog fatal", "F0102 03:04:05 1 x.go:1] no luck\n" + stacks, "F0102 03:04:05 1 x.go:1] no luck"},
		{"telling line among the last", "a\nError: b\nc\n", "a|Error: b|c"},
		{"long line", strings.Repeat("y", 5000), strings.Repeat("y", lineBytes) + " ..."},
	}
	for _, c := range cases {
		if got := strings.Join(lastWords(c.log), "|"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestCleanSparesTheProcessesOfAnotherBoot has a ledger of before a reboot, whose
// numbers are other processes' by now.
func TestCleanSparesTheProcessesOfAnotherBoot(t *testing.T) {
	c := exec.Command("sleep", "60")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	repotest.NoError(t, c.Start())
	defer func() { _ = c.Wait() }()
	defer func() { _ = c.Process.Kill() }()
	s := repotest.Must(statOf(c.Process.Pid))(t)
	if err := cleanEntries([]entry{{PID: c.Process.Pid, Start: s.start, Boot: "another boot"}}); err != nil || !isAlive(c.Process.Pid, s.start) {
		t.Errorf("of another boot: %v, and it was killed", err)
	}
	if err := cleanEntries([]entry{{PID: c.Process.Pid, Start: s.start, Boot: bootID()}}); err != nil || isAlive(c.Process.Pid, s.start) {
		t.Errorf("of this boot: %v, and it lives", err)
	}
}

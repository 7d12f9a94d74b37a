package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/diagnose"
	"github.com/windtunnel/windtunnel/internal/plane/component"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/slo"
)

// These tests fly the real plane with the binary that `make build` left. They
// are skipped under -short, and only there.

// tunnel is a binary of its own path, so that what it leaves behind can be told
// from other runs on this machine.
type tunnel struct {
	t      *testing.T
	bin    string
	dir    string
	before map[string]bool // folders of other runs
}

func newTunnel(t *testing.T) *tunnel {
	t.Helper()
	built := repotest.Binary(t)
	dir := t.TempDir()
	u := &tunnel{t: t, bin: filepath.Join(dir, "windtunnel"), dir: dir}
	if os.Link(built, u.bin) != nil { // another file system
		raw, err := os.ReadFile(built)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(u.bin, raw, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	u.before = map[string]bool{}
	for _, path := range u.folders() {
		u.before[path] = true
	}
	t.Cleanup(u.nothingLeft)
	return u
}

// processes returns the pids of the processes of this binary, by argument.
func (u *tunnel) processes() map[string]int {
	out := map[string]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		exe, err := os.Readlink("/proc/" + e.Name() + "/exe")
		if err != nil || exe != u.bin {
			continue
		}
		args, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		fields := strings.Split(string(args), "\x00")
		name := ""
		if len(fields) > 1 {
			name = fields[1]
		}
		out[name] = pid
	}
	return out
}

// folders returns cgroups and data folders that came since the test began.
func (u *tunnel) folders() (out []string) {
	for _, root := range []string{"/sys/fs/cgroup", "/dev/shm", os.TempDir()} {
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil //nolint:nilerr // what vanishes while we look is not left behind
			}
			if strings.HasPrefix(d.Name(), "windtunnel-run-") && !u.before[path] && !inUse(path) {
				out = append(out, path)
			}
			if root != "/sys/fs/cgroup" && path != root {
				return filepath.SkipDir
			}
			return nil
		})
	}
	return out
}

// inUse says whether a living run of somebody else holds a data folder.
func inUse(folder string) bool {
	for _, path := range []string{folder, filepath.Join(folder, "ledger")} {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return true
		}
	}
	return false
}

// nothingLeft fails when a process, cgroup or data folder of ours outlives the
// test by more than a moment.
func (u *tunnel) nothingLeft() {
	var left []string
	for range 100 {
		left = left[:0]
		for name, pid := range u.processes() {
			left = append(left, name+" "+strconv.Itoa(pid))
		}
		left = append(left, u.folders()...)
		if len(left) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	u.t.Errorf("left behind: %v", left)
}

// output gathers what a process says while it says it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start runs the binary in the test's folder.
func (u *tunnel) start(args ...string) (*exec.Cmd, *output) {
	u.t.Helper()
	cmd := exec.Command(u.bin, args...)
	cmd.Dir = u.dir
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	return cmd, &out
}

func exitOf(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// small is a density flight of seconds.
func small(t *testing.T, more ...string) []string {
	t.Helper()
	file, err := filepath.Abs("../../examples/density.yaml")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"run", file, "--out", "run", "--set", "nodes=20", "--set", "podsPerNode=10", "--set", "latencyPods=100", "--set", "latencyRate=25"}
	return append(args, more...)
}

func (u *tunnel) verdict() slo.Judgement {
	u.t.Helper()
	raw, err := os.ReadFile(filepath.Join(u.dir, "run", record.VerdictFile))
	if err != nil {
		u.t.Fatal(err)
	}
	var j slo.Judgement
	if err := json.Unmarshal(raw, &j); err != nil {
		u.t.Fatal(err)
	}
	return j
}

// reach waits until the run's output shows a step, then a moment longer.
func (u *tunnel) reach(step string, out *output) {
	u.t.Helper()
	for range 600 {
		if n, _ := record.Read(filepath.Join(u.dir, "run", record.StreamFile), func(*record.Stream) record.Visitor {
			return record.Visitor{}
		}); n != nil {
			var there bool
			_, _ = record.Read(filepath.Join(u.dir, "run", record.StreamFile), func(*record.Stream) record.Visitor {
				return record.Visitor{Mark: func(m record.Mark) {
					there = there || m.Kind == record.MarkStepBegin && m.Name == step
				}}
			})
			if there {
				time.Sleep(1500 * time.Millisecond)
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	u.t.Fatalf("step %s was not reached: %s", step, out)
}

func TestFlight(t *testing.T) {
	u := newTunnel(t)
	cmd, out := u.start(small(t)...)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	j := u.verdict()
	if j.Verdict != slo.Pass || len(j.Objectives) < 5 {
		t.Errorf("verdict %s of %d objectives: %v", j.Verdict, len(j.Objectives), j.Reasons)
	}
	for _, name := range []string{record.ManifestFile, record.ReportFile, record.SummaryFile, record.JUnitFile, record.StreamFile, record.ScenarioFile} {
		info, err := os.Stat(filepath.Join(u.dir, "run", name))
		if err != nil || info.Size() == 0 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	u.rejudge(t)
	u.noSecrets(t)
}

// rejudge holds that a copy of the run directory gives the same bytes.
func (u *tunnel) rejudge(t *testing.T) {
	t.Helper()
	copied := filepath.Join(u.dir, "elsewhere", "copy")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(u.dir, "run"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{record.VerdictFile, record.ReportFile, diagnose.File} {
		if err := os.Remove(filepath.Join(copied, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd, out := u.start("judge", copied)
	if code := exitOf(cmd.Wait()); code != exitPass {
		t.Errorf("judge: exit code %d\n%s", code, out)
	}
	for _, name := range []string{record.VerdictFile, record.ReportFile, diagnose.File} {
		a, _ := os.ReadFile(filepath.Join(u.dir, "run", name))
		b, _ := os.ReadFile(filepath.Join(copied, name))
		if !bytes.Equal(a, b) {
			t.Errorf("%s of the copied run directory differs", name)
		}
	}
}

// noSecrets looks for keys and tokens in everything that the run left.
func (u *tunnel) noSecrets(t *testing.T) {
	t.Helper()
	secret := regexp.MustCompile(`PRIVATE KEY|eyJhbGciOi[A-Za-z0-9_-]{20}|client-key-data`)
	err := filepath.WalkDir(filepath.Join(u.dir, "run"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if found := secret.Find(raw); found != nil {
			t.Errorf("%s holds a secret: %s", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestInterruptSavesAndCleansUp(t *testing.T) {
	u := newTunnel(t)
	cmd, out := u.start(small(t)...)
	u.reach("saturation", out)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := exitOf(cmd.Wait()); code != exitUnknown {
		t.Errorf("exit code %d, want %d\n%s", code, exitUnknown, out)
	}
	if j := u.verdict(); j.Verdict != slo.Unknown || !strings.Contains(strings.Join(j.Reasons, " "), "interrupted") {
		t.Errorf("verdict %s: %v", j.Verdict, j.Reasons)
	}
}

func TestSecondInterruptEndsAtOnce(t *testing.T) {
	u := newTunnel(t)
	cmd, out := u.start(small(t)...)
	u.reach("saturation", out)
	_ = cmd.Process.Signal(os.Interrupt)
	time.Sleep(50 * time.Millisecond)
	_ = cmd.Process.Signal(os.Interrupt)
	begun := time.Now()
	if code := exitOf(cmd.Wait()); code != exitUnknown || time.Since(begun) > 2*time.Second {
		t.Errorf("exit code %d after %v\n%s", code, time.Since(begun), out)
	}
}

func TestKilledRunCanBeJudged(t *testing.T) {
	u := newTunnel(t)
	cmd, out := u.start(small(t)...)
	u.reach("saturation", out)
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	judge, text := u.start("judge", "run")
	if code := exitOf(judge.Wait()); code != exitUnknown {
		t.Errorf("judge: exit code %d\n%s", code, text)
	}
	j := u.verdict()
	if j.Verdict != slo.Unknown || j.Measures["calls_total"].Value == 0 {
		t.Errorf("verdict %s, %v calls: %v", j.Verdict, j.Measures["calls_total"], j.Reasons)
	}
}

func TestDeadComponentIsNamed(t *testing.T) {
	u := newTunnel(t)
	cmd, out := u.start(small(t)...)
	u.reach("saturation", out)
	if err := syscall.Kill(u.processes()["kube-apiserver"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := exitOf(cmd.Wait()); code != exitUnknown {
		t.Errorf("exit code %d, want %d\n%s", code, exitUnknown, out)
	}
	j := u.verdict()
	if j.Verdict != slo.Unknown || !strings.Contains(strings.Join(j.Reasons, " "), "kube-apiserver") {
		t.Errorf("verdict %s: %v", j.Verdict, j.Reasons)
	}
	if !strings.Contains(out.String(), "kube-apiserver died") {
		t.Errorf("the output does not name the component:\n%s", out)
	}
}

// TestKubeconfig flies a plane that `up` booted, with kubectl looking on.
func TestKubeconfig(t *testing.T) {
	u := newTunnel(t)
	up := exec.Command(u.bin, "up", "--nodes", "3")
	var out, said output
	up.Stdout, up.Stderr = &out, &said
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	var config string
	for range 600 {
		if _, after, ok := strings.Cut(out.String(), "export KUBECONFIG="); ok && strings.HasSuffix(after, "\n") {
			config = strings.TrimSpace(after)
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if config == "" {
		t.Fatalf("up did not print its kubeconfig: %s", &said)
	}
	if info, err := os.Stat(config); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, %v", info, err)
	}
	// The plane of up is a stock one: its controller manager makes 20 pods a second.
	cmd, text := u.start(small(t, "--kubeconfig", config, "--set", "rate=40")...)
	// A plane that is not ours hides who else was busy: on such a machine a
	// missed objective says nothing. That every pod ran does.
	code := exitOf(cmd.Wait())
	if ran := u.verdict().Measures["pods_running_latency"].Value; code == exitFault || ran != 100 {
		t.Errorf("exit code %d, %v of 100 pods ran\n%s\n%v", code, ran, text, u.verdict().Reasons)
	}
	if kubectl, err := exec.LookPath("kubectl"); err == nil {
		listed, err := exec.Command(kubectl, "--kubeconfig", config, "get", "nodes,namespaces", "--no-headers").CombinedOutput()
		if err != nil || strings.Count(string(listed), " Ready ") != 3 || strings.Contains(string(listed), "density-") {
			t.Errorf("after the flight: %v\n%s", err, listed)
		}
		u.leavesForeignNamespacesAlone(t, kubectl, config)
	}
	_ = up.Process.Signal(os.Interrupt)
	if code := exitOf(up.Wait()); code != exitPass {
		t.Errorf("up: exit code %d\n%s", code, &said)
	}
	if _, err := os.Stat(config); err == nil {
		t.Error("the kubeconfig was left behind")
	}
}

// TestFullDisk lets the run directory's disk fill up in mid-run.
func TestFullDisk(t *testing.T) {
	u := newTunnel(t)
	disk := filepath.Join(u.dir, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	defer func() { _ = syscall.Unmount(disk, 0) }()
	args := small(t)
	args[3] = filepath.Join(disk, "run")
	cmd, out := u.start(args...)
	if code := exitOf(cmd.Wait()); code != exitFault || !strings.Contains(out.String(), "the records could not be written") ||
		!strings.Contains(out.String(), "no space left on device") {
		t.Errorf("exit code %d, want %d\n%s", code, exitFault, out)
	}
	// How much fits is chance; that it can be read up to there is not.
	marks := 0
	stream, err := record.Read(filepath.Join(disk, "run", record.StreamFile), func(*record.Stream) record.Visitor {
		return record.Visitor{Mark: func(record.Mark) { marks++ }}
	})
	if err != nil || stream.Torn || marks == 0 {
		t.Errorf("what was written before cannot be read: %v, %d marks, %+v", err, marks, stream)
	}
}

// TestOwnBinaries flies programs of the user's own, with limits and with an etcd
// that syncs: scripts that start the linked components stand in for a release.
func TestOwnBinaries(t *testing.T) {
	u := newTunnel(t)
	own := filepath.Join(u.dir, "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range component.Names() {
		script := "#!/bin/sh\nexec " + u.bin + " " + name + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(own, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile("../../examples/density.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(raw), "  durability: memory", "  durability: fsync\n  binaries: own", 1)
	changed = strings.Replace(changed, "    kube-scheduler:\n", "    kube-scheduler:\n      cpu: 1.5\n      memory: 2Gi\n", 1)
	file := filepath.Join(u.dir, "density.yaml")
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	args := small(t)
	args[1] = file
	cmd, out := u.start(args...)
	if code := exitOf(cmd.Wait()); code != exitPass {
		t.Errorf("exit code %d\n%s", code, out)
	}
	_, m, err := record.OpenDir(filepath.Join(u.dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	if m.Plane.Kind != "binaries" || m.Plane.Durability != "fsync" || m.Plane.DataOn != "disk" {
		t.Errorf("plane %s, durability %s, data on %s", m.Plane.Kind, m.Plane.Durability, m.Plane.DataOn)
	}
	for _, c := range m.Plane.Components {
		if c.Name == "kube-scheduler" && (c.CPULimit != 1.5 || c.MemoryLimit != 2<<30 || !c.Limited && len(m.Warnings) == 0) {
			t.Errorf("scheduler: %v cores, %d bytes, in force %v, warnings %v", c.CPULimit, c.MemoryLimit, c.Limited, m.Warnings)
		}
	}
	// A folder that lacks one of them is refused before anything starts.
	if err := os.Remove(filepath.Join(own, component.Scheduler)); err != nil {
		t.Fatal(err)
	}
	args[3] = "second"
	cmd, out = u.start(args...)
	if code := exitOf(cmd.Wait()); code != exitFault || !strings.Contains(out.String(), "kube-scheduler") {
		t.Errorf("without a scheduler: exit code %d\n%s", code, out)
	}
}

// leavesForeignNamespacesAlone holds that a run neither uses nor deletes a
// namespace that was there before it.
func (u *tunnel) leavesForeignNamespacesAlone(t *testing.T, kubectl, config string) {
	t.Helper()
	if said, err := exec.Command(kubectl, "--kubeconfig", config, "create", "namespace", "density-1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	args := small(t, "--kubeconfig", config)
	args[3] = "foreign"
	cmd, out := u.start(args...)
	if code := exitOf(cmd.Wait()); code != exitUnknown || !strings.Contains(out.String(), "namespace density-1: it exists already") {
		t.Errorf("a namespace that exists: exit code %d\n%s", code, out)
	}
	said, err := exec.Command(kubectl, "--kubeconfig", config, "get", "namespace", "density-1", "--no-headers").CombinedOutput()
	if err != nil || !strings.Contains(string(said), "Active") {
		t.Errorf("a namespace that was there before the run: %v: %s", err, said)
	}
}

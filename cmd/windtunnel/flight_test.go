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

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// These tests fly the real plane with the binary that `make build` left. They
// are skipped under -short, and only there.

// tunnel is a windtunnel with its plane at a path of its own, so that what it leaves
// behind can be told from other runs on this machine.
type tunnel struct {
	t      *testing.T
	bin    string
	plane  string // the executable of the control plane
	dir    string
	before map[string]bool // folders of other runs
}

func newTunnel(t *testing.T) *tunnel {
	t.Helper()
	built := repotest.Binary(t)
	dir := t.TempDir()
	u := &tunnel{t: t, bin: filepath.Join(dir, "windtunnel"), plane: filepath.Join(dir, release.Executable), dir: dir}
	linkProgram(t, built, u.bin)
	linkProgram(t, filepath.Join(filepath.Dir(built), release.Executable), u.plane)
	u.before = map[string]bool{}
	for _, path := range u.folders() {
		u.before[path] = true
	}
	t.Cleanup(u.nothingLeft)
	return u
}

// linkProgram gives an executable a second path.
func linkProgram(t *testing.T, from, to string) {
	t.Helper()
	if os.Link(from, to) == nil {
		return
	}
	raw, err := os.ReadFile(from) // from another file system
	if err == nil {
		err = os.WriteFile(to, raw, 0o700)
	}
	repotest.NoError(t, err)
}

// processes returns the pids of the processes of tool and plane, by argument.
func (u *tunnel) processes() map[string]int {
	out := map[string]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		exe, err := os.Readlink("/proc/" + e.Name() + "/exe")
		if err != nil || exe != u.bin && exe != u.plane {
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
				return nil // what vanishes while we look is not left behind
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
// test.
func (u *tunnel) nothingLeft() {
	repotest.Eventually(u.t, "nothing of "+u.bin+" is left behind", func() bool {
		return len(u.processes()) == 0 && len(u.folders()) == 0
	})
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
	repotest.NoError(u.t, cmd.Start())
	u.t.Cleanup(func() {
		if u.t.Failed() {
			u.t.Logf("%s\n%s", cmd, &out)
		}
	})
	return cmd, &out
}

// up boots a plane with the verb up, and returns its kubeconfig and what ends it. It is
// ended with the test at the latest.
func (u *tunnel) up(args ...string) (config string, end func()) {
	u.t.Helper()
	return u.serve("up", args...)
}

// serve does so with any verb that prints a kubeconfig and serves until it is interrupted.
func (u *tunnel) serve(verb string, args ...string) (config string, end func()) {
	u.t.Helper()
	cmd := exec.Command(u.bin, append([]string{verb}, args...)...)
	var out, said output
	cmd.Stdout, cmd.Stderr = &out, &said
	repotest.NoError(u.t, cmd.Start())
	end = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if code := exitOf(cmd.Wait()); code != exitPass {
			u.t.Errorf("%s: exit code %d\n%s", verb, code, &said)
		}
	})
	u.t.Cleanup(end)
	repotest.Eventually(u.t, verb+" prints its kubeconfig", func() bool { return strings.HasSuffix(out.String(), "\n") })
	_, config, _ = strings.Cut(strings.TrimSpace(out.String()), "export KUBECONFIG=")
	return config, end
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
	file := repotest.Must(filepath.Abs("../../examples/density.yaml"))(t)
	args := []string{"run", file, "--out", "run", "--set", "nodes=20", "--set", "podsPerNode=10", "--set", "latencyPods=100", "--set", "latencyRate=25"}
	return append(args, more...)
}

func (u *tunnel) verdict() slo.Judgement { return u.verdictOf("run") }

func (u *tunnel) verdictOf(run string) slo.Judgement {
	u.t.Helper()
	raw := repotest.Must(os.ReadFile(filepath.Join(u.dir, run, record.VerdictFile)))(u.t)
	var j slo.Judgement
	repotest.NoError(u.t, json.Unmarshal(raw, &j))
	return j
}

// reach waits until calls of a step stand in the records.
func (u *tunnel) reach(step string) {
	u.t.Helper()
	repotest.Eventually(u.t, "calls of step "+step, func() (there bool) {
		_, _ = record.Read(filepath.Join(u.dir, "run", record.StreamFile), func(s *record.Stream) record.Visitor {
			return record.Visitor{Call: func(c record.Call) { there = there || s.Ops[c.Op].Step == step }}
		})
		return there
	})
}

// sound holds what must on any machine: a flight came to its end, its exit code is
// its verdict's, and everything that it was asked was measured. Whether the plane
// was quick enough for a pass is TestProofFlightPasses.
func (u *tunnel) sound(code int) slo.Judgement {
	u.t.Helper()
	j := u.verdict()
	if want := map[slo.Verdict]int{slo.Pass: exitPass, slo.Fail: exitFail, slo.Unknown: exitUnknown}[j.Verdict]; code != want {
		u.t.Errorf("exit code %d for verdict %s: %v", code, j.Verdict, j.Reasons)
	}
	for _, o := range j.Objectives {
		if o.Samples == 0 {
			u.t.Errorf("%s was not measured: %+v", o.Name, o)
		}
	}
	return j
}

func TestFlight(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	cmd, _ := u.start(small(t)...)
	code := exitOf(cmd.Wait())
	j := u.sound(code)
	if ran := j.Measures["pods_running_latency"].Value; len(j.Objectives) < 5 || ran != 100 {
		t.Errorf("%d objectives, %v of 100 pods ran", len(j.Objectives), ran)
	}
	for _, name := range []string{record.ManifestFile, record.ReportFile, record.SummaryFile, record.JUnitFile, record.StreamFile, record.ScenarioFile} {
		info, err := os.Stat(filepath.Join(u.dir, "run", name))
		if err != nil || info.Size() == 0 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	u.rejudge(t, code)
	u.noSecrets(t)
}

func TestProofFlightPasses(t *testing.T) {
	repotest.Proof(t)
	u := newTunnel(t)
	cmd, _ := u.start(small(t)...)
	if code := exitOf(cmd.Wait()); code != exitPass {
		j := u.verdict()
		t.Errorf("exit code %d, verdict %s: %v", code, j.Verdict, j.Reasons)
	}
}

// rejudge holds that a copy of the run directory gives the same bytes.
func (u *tunnel) rejudge(t *testing.T, code int) {
	t.Helper()
	copied := filepath.Join(u.dir, "elsewhere", "copy")
	repotest.NoError(t, os.CopyFS(copied, os.DirFS(filepath.Join(u.dir, "run"))))
	for _, name := range []string{record.VerdictFile, record.ReportFile, diagnose.File} {
		repotest.NoError(t, os.Remove(filepath.Join(copied, name)))
	}
	cmd, _ := u.start("judge", copied)
	if again := exitOf(cmd.Wait()); again != code {
		t.Errorf("judge: exit code %d, that of the run was %d", again, code)
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
	repotest.NoError(t, filepath.WalkDir(filepath.Join(u.dir, "run"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if found := secret.Find(raw); found != nil {
			t.Errorf("%s holds a secret: %s", path, found)
		}
		return err
	}))
}

func TestInterruptSavesAndCleansUp(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	cmd, _ := u.start(small(t)...)
	u.reach("saturation")
	repotest.NoError(t, cmd.Process.Signal(os.Interrupt))
	if code := exitOf(cmd.Wait()); code != exitUnknown {
		t.Errorf("exit code %d, want %d", code, exitUnknown)
	}
	if j := u.verdict(); j.Verdict != slo.Unknown || !strings.Contains(strings.Join(j.Reasons, " "), "interrupted") {
		t.Errorf("verdict %s: %v", j.Verdict, j.Reasons)
	}
}

// TestSecondInterruptEndsAtOnce holds that the second signal leaves no time to
// judge and to say where the run is.
func TestSecondInterruptEndsAtOnce(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	// Its clean-up waits for a subject that will not end.
	u.write(map[string]string{"stubborn.yaml": "scenario: stubborn\nsubjects: [{name: stubborn, command: sh, args: [-c, \"trap '' TERM INT; while :; do sleep 1; done\"]}]\n" +
		"steps: [{name: saturation, pause: 5m}]\n"})
	cmd, out := u.start("run", "stubborn.yaml")
	repotest.Eventually(t, "the step has begun", func() bool { return strings.Contains(out.String(), "] saturation") })
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	_ = cmd.Process.Signal(os.Interrupt)
	repotest.Eventually(t, "the first signal is answered", func() bool { return strings.Contains(out.String(), "once more ends at once") })
	repotest.Eventually(t, "it has ended", func() bool {
		select {
		case <-ended:
			return true
		default: // signals within a second of the first are one wish with it
			_ = cmd.Process.Signal(os.Interrupt)
			return false
		}
	})
	if code := cmd.ProcessState.ExitCode(); code != exitUnknown || strings.Contains(out.String(), "run directory:") {
		t.Errorf("exit code %d after\n%s", code, out)
	}
}

func TestKilledRunCanBeJudged(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	cmd, _ := u.start(small(t)...)
	u.reach("saturation")
	repotest.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
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
	t.Parallel()
	u := newTunnel(t)
	cmd, out := u.start(small(t)...)
	u.reach("saturation")
	repotest.NoError(t, syscall.Kill(u.processes()["kube-apiserver"], syscall.SIGKILL))
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

// TestClusterThatStays flies on a plane that `up` booted, with kubectl looking on:
// a flight leaves it as it was.
func TestClusterThatStays(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	config, endUp := u.up("--nodes", "3")
	if info, err := os.Stat(config); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, %v", info, err)
	}
	u.fliesThere(t, config)
	u.installsThere(t, config)
	u.leavesForeignNamespacesAlone(t, config)
	endUp()
	if _, err := os.Stat(config); err == nil {
		t.Error("the kubeconfig was left behind")
	}
}

// fliesThere flies on the plane of up, a stock one: its controller manager makes
// 20 pods a second, and no more are asked for.
func (u *tunnel) fliesThere(t *testing.T, config string) {
	t.Helper()
	cmd, _ := u.start(small(t, "--kubeconfig", config, "--set", "nodes=5", "--set", "podsPerNode=4", "--set", "latencyPods=40", "--set", "latencyRate=20", "--set", "rate=20")...)
	// A plane that is not ours hides who else was busy: on such a machine a
	// missed objective says nothing. That every pod ran does.
	code := exitOf(cmd.Wait())
	if ran := u.sound(code).Measures["pods_running_latency"].Value; ran != 40 {
		t.Errorf("exit code %d, %v of 40 pods ran: %v", code, ran, u.verdict().Reasons)
	}
	listed := kubectl(t, config, "get", "nodes,namespaces", "--no-headers")
	if strings.Count(listed, " Ready ") != 3 || strings.Contains(listed, "density-") {
		t.Errorf("after the flight:\n%s", listed)
	}
}

// kubectl returns what kubectl says.
func kubectl(t *testing.T, config string, args ...string) string {
	t.Helper()
	said, err := exec.Command(repotest.Kubectl(t), append([]string{"--kubeconfig", config}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v: %s", args, err, said)
	}
	return string(said)
}

// TestFullDisk lets the run directory's disk fill up in mid-run.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	disk := filepath.Join(u.dir, "disk")
	repotest.NoError(t, os.Mkdir(disk, 0o700))
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
		return record.Visitor{Event: func(record.Event) { marks++ }}
	})
	if err != nil || stream.CutOff || marks == 0 {
		t.Errorf("what was written before cannot be read: %v, %d marks, %+v", err, marks, stream)
	}
}

// TestOwnBinaries flies programs of the user's own, with limits and with an etcd
// that syncs: scripts that start components of kube-plane stand in for a release.
func TestOwnBinaries(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	own := filepath.Join(u.dir, "own")
	repotest.NoError(t, os.Mkdir(own, 0o700))
	for _, name := range component.Names() {
		script := "#!/bin/sh\nexec " + u.plane + " " + name + " \"$@\"\n"
		repotest.NoError(t, os.WriteFile(filepath.Join(own, name), []byte(script), 0o700))
	}
	raw := repotest.Must(os.ReadFile("../../examples/density.yaml"))(t)
	changed := strings.Replace(string(raw), "  durability: memory", "  durability: fsync\n  binaries: own", 1)
	changed = strings.Replace(changed, "    kube-scheduler:\n", "    kube-scheduler:\n      cpu: 1.5\n      memory: 2Gi\n", 1)
	file := filepath.Join(u.dir, "density.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte(changed), 0o600))
	args := small(t, "--set", "podsPerNode=4")
	args[1] = file
	cmd, _ := u.start(args...)
	u.sound(exitOf(cmd.Wait()))
	_, m, err := record.OpenDir(filepath.Join(u.dir, "run"))
	repotest.NoError(t, err)
	if m.Plane.Kind != "binaries" || m.Plane.Durability != "fsync" || m.Plane.DataOn != "disk" {
		t.Errorf("plane %s, durability %s, data on %s", m.Plane.Kind, m.Plane.Durability, m.Plane.DataOn)
	}
	for _, c := range m.Plane.Components {
		if c.Name == "kube-scheduler" && (c.CPULimit != 1.5 || c.MemoryLimit != 2<<30 || !c.Limited && len(m.Warnings) == 0) {
			t.Errorf("scheduler: %v cores, %d bytes, in force %v, warnings %v", c.CPULimit, c.MemoryLimit, c.Limited, m.Warnings)
		}
	}
	// A folder that lacks one of them is refused before anything starts.
	repotest.NoError(t, os.Remove(filepath.Join(own, component.Scheduler)))
	args[3] = "second"
	cmd, out := u.start(args...)
	if code := exitOf(cmd.Wait()); code != exitFault || !strings.Contains(out.String(), "kube-scheduler") {
		t.Errorf("without a scheduler: exit code %d\n%s", code, out)
	}
}

// leavesForeignNamespacesAlone holds that a run neither uses nor deletes a
// namespace that was there before it.
func (u *tunnel) leavesForeignNamespacesAlone(t *testing.T, config string) {
	t.Helper()
	kubectl(t, config, "create", "namespace", "density-1")
	args := small(t, "--kubeconfig", config)
	args[3] = "foreign"
	cmd, out := u.start(args...)
	if code := exitOf(cmd.Wait()); code != exitUnknown || !strings.Contains(out.String(), "namespace density-1: it exists already") {
		t.Errorf("a namespace that exists: exit code %d\n%s", code, out)
	}
	if said := kubectl(t, config, "get", "namespace", "density-1", "--no-headers"); !strings.Contains(said, "Active") {
		t.Errorf("a namespace that was there before the run: %s", said)
	}
}

package robust_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

const sharedLoad = `
scenario: shared
namespaces: {count: 0}
bodies:
  map:
    text: |
      {apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ .Name }}", namespace: "{{ .Namespace }}"}}
steps:
- {name: fill, create: {body: map, count: 400, pace: {constant: 400}}}
- {name: read, requests: {for: 2s, pace: {poisson: 300}, mix: [{verb: get, of: fill, pick: random}]}}
- {name: gone, delete: {step: fill, pace: {constant: 400}}}
objectives:
- {sli: call-latency, statistic: p99, max: 60s}
`

// deaths are runs in which somebody dies.
type deaths struct {
	t               *testing.T
	bin, dir        string
	kubeconfig      string
	workers, spared int // lost workers, deaths that came too late to matter
	verdicts        map[string]int
}

// TestWorkersDie kills or halts a worker, or kills the leader, at seeded moments. A run
// that has lost a worker has no verdict, unless as many may be lost, and says so in its
// title; without their leader workers end; nothing is left, on the machine or in the
// cluster.
func TestWorkersDie(t *testing.T) {
	seed := repotest.Robust(t)
	times := repotest.Times(t, "WINDTUNNEL_DEATHS", 40)
	d := &deaths{t: t, dir: t.TempDir(), verdicts: map[string]int{}}
	d.bin = filepath.Join(d.dir, "windtunnel") // by which its processes are known
	raw, err := os.ReadFile(repotest.Binary(t))
	if err == nil {
		err = os.WriteFile(d.bin, raw, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(d.dir, "s.yaml"), []byte(sharedLoad), 0o600)
	}
	repotest.NoError(t, err)
	server := repotest.Must(hollow.New(hollow.Options{}))(t)
	defer server.Close()
	cluster := repotest.Must(server.Cluster("one"))(t)
	d.kubeconfig = filepath.Join(d.dir, "kubeconfig")
	repotest.NoError(t, endpoint.WriteContexts(d.kubeconfig, "one", map[string]endpoint.Endpoint{"one": cluster.Endpoint()}))
	chance := rand.New(rand.NewPCG(seed, 22))
	for i := range times {
		d.once(i, chance)
	}
	t.Logf("seed %d: %d deaths, %d workers lost, %d deaths after the load; verdicts %v", seed, times, d.workers, d.spared, d.verdicts)
}

// once has one run in which somebody dies.
func (d *deaths) once(i int, chance *rand.Rand) {
	whom := []string{"worker killed", "worker halted", "leader killed", "tolerated worker killed"}[i%4]
	after, n := time.Duration((0.2+3.8*chance.Float64())*float64(time.Second)), 2+chance.IntN(3)
	name := fmt.Sprintf("death %d, %s of %d after %v", i, whom, n, after.Round(time.Millisecond))
	out := filepath.Join(d.dir, "run-"+strconv.Itoa(i))
	args := []string{"run", "s.yaml", "--kubeconfig", d.kubeconfig, "--out", out, "--workers", strconv.Itoa(n), "--worker-processes"}
	if strings.HasPrefix(whom, "tolerated") {
		args = append(args, "--tolerate-workers", "1")
	}
	c := exec.Command(d.bin, args...)
	c.Dir = d.dir
	var said strings.Builder
	c.Stdout, c.Stderr = &said, &said
	repotest.NoError(d.t, c.Start())
	repotest.Eventually(d.t, name+": its load begins", func() bool { return d.stepsBegun(out) > 0 })
	time.Sleep(after)
	victim := d.victim(c.Process.Pid, whom, chance.IntN(n))
	if victim > 0 {
		_ = syscall.Kill(victim, map[bool]syscall.Signal{true: syscall.SIGSTOP, false: syscall.SIGKILL}[whom == "worker halted"])
	}
	err := c.Wait()
	if whom != "leader killed" {
		d.judged(name, out, err, victim > 0, said.String())
	}
	d.noneLeft(name, victim)
	d.cleaned(name)
}

// stepsBegun is how many parts of the load the records of a run know.
func (d *deaths) stepsBegun(out string) (n int) {
	_, _ = record.Dir(out).ReadStream(record.StreamFile, func(*record.Stream) record.Visitor { // it may not be there yet
		return record.Visitor{Event: func(e record.Event) {
			if e.Type == record.EventLoadAsked && e.Name == "fill" {
				n++
			}
		}}
	})
	return n
}

// victim is the process that is to die; 0: it has ended already.
func (d *deaths) victim(leader int, whom string, worker int) int {
	if whom == "leader killed" {
		return leader
	}
	for pid, args := range d.processes() {
		if len(args) > 4 && args[1] == "worker" && args[3] == strconv.Itoa(worker) {
			return pid
		}
	}
	return 0
}

// processes are those of the test's own program, with their arguments.
func (d *deaths) processes() map[int][]string {
	out := map[int][]string{}
	entries := repotest.Must(os.ReadDir("/proc"))(d.t)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if args := strings.Split(string(raw), "\x00"); err == nil && len(args) > 1 && args[0] == d.bin {
			out[pid] = args
		}
	}
	return out
}

// judged looks at the verdict of a run that has lost a worker, or lost one too late.
func (d *deaths) judged(name, out string, err error, killed bool, said string) {
	d.t.Helper()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 2) {
		d.t.Errorf("%s: %v\n%s", name, err, said)
		return
	}
	var j slo.Judgement
	raw, err := record.Dir(out).Read(record.VerdictFile)
	if err == nil {
		err = json.Unmarshal(raw, &j)
	}
	if err != nil {
		d.t.Errorf("%s: %v\n%s", name, err, said)
		return
	}
	d.verdicts[string(j.Verdict)]++
	lost, reasons := j.Measures["workers_lost"].Value, strings.Join(j.Reasons, " ")
	switch {
	case lost == 0 && killed: // when nothing was asked of it any more
		d.spared++
	case lost == 0:
	case !strings.Contains(said, "workers lost)"):
		d.t.Errorf("%s: the title does not say that a worker is lost:\n%s", name, said)
	case strings.Contains(name, "tolerated"):
		d.workers++
		if !strings.Contains(reasons, "--tolerate-workers") || strings.Contains(reasons, "not what the scenario asks for") {
			d.t.Errorf("%s: verdict %s: %s", name, j.Verdict, reasons)
		}
	default:
		d.workers++
		if j.Verdict != slo.Unknown || !strings.Contains(reasons, "was lost") {
			d.t.Errorf("%s: verdict %s: %s", name, j.Verdict, reasons)
		}
	}
}

// noneLeft waits until no process of the run is there any more. One that was halted is
// let go on: it finds out that the leader has given it up, or is gone.
func (d *deaths) noneLeft(name string, victim int) {
	d.t.Helper()
	if victim > 0 {
		_ = syscall.Kill(victim, syscall.SIGCONT) // it may be gone
	}
	repotest.Eventually(d.t, name+": its processes end", func() bool { return len(d.processes()) == 0 })
}

// cleaned takes away what a killed leader, or a lost worker, has left in the cluster.
func (d *deaths) cleaned(name string) {
	d.t.Helper()
	if out, err := exec.Command(d.bin, "clean", "--kubeconfig", d.kubeconfig, "--yes").CombinedOutput(); err != nil {
		d.t.Errorf("%s: clean: %v\n%s", name, err, out)
	}
	folders, err := filepath.Glob(filepath.Join(os.TempDir(), "windtunnel-worker-*"))
	if err != nil || len(folders) > 0 {
		d.t.Errorf("%s: left: %v (%v)", name, folders, err)
	}
}

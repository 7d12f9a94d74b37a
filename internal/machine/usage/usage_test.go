package usage

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// flown is what a sampler wrote: the values of each series and the marks.
type flown struct {
	values map[string][]float64
	marks  []record.Event
}

func fly(t *testing.T, processes []Process, do func(*Sampler)) flown {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.wt")
	w := repotest.Must(record.Create(path))(t)
	do(New(w, clock.Start(), processes, Options{}))
	repotest.NoError(t, w.Close())
	out := flown{values: map[string][]float64{}}
	repotest.Must(record.Read(path, func(s *record.Stream) record.Visitor {
		return record.Visitor{
			Sample: func(v record.Sample) {
				key := s.Series[v.Series].Key()
				out.values[key] = append(out.values[key], v.Value)
			},
			Event: func(m record.Event) { out.marks = append(out.marks, m) },
		}
	}))(t)
	return out
}

// burn uses about this much CPU time.
func burn(d time.Duration) {
	now := clock.Start().Now
	u, _ := readUsage(os.Getpid(), now)
	for begin := u.cpu; u.cpu < begin+d.Seconds(); u, _ = readUsage(os.Getpid(), now) {
		for i := range 1000 {
			_ = math.Sqrt(float64(i))
		}
	}
}

func TestOwnUsage(t *testing.T) {
	got := fly(t, nil, func(s *Sampler) {
		s.Sample()
		burn(30 * time.Millisecond)
		s.Sample()
	})
	cpu := got.values[`process_cpu_seconds_total{target="windtunnel"}`]
	if len(cpu) != 2 || cpu[1]-cpu[0] < 0.03 || cpu[1]-cpu[0] > 5 {
		t.Errorf("CPU seconds %v, want 30 ms more the second time", cpu)
	}
	rss, peak := got.values[`process_resident_memory_bytes{target="windtunnel"}`], got.values[`process_peak_resident_memory_bytes{target="windtunnel"}`]
	if len(rss) == 0 || rss[0] < 1e6 || peak[0] < rss[0] {
		t.Errorf("resident %v, peak %v", rss, peak)
	}
	if n, open := got.values[`go_goroutines{target="windtunnel"}`], got.values[`process_open_fds{target="windtunnel"}`]; len(n) == 0 || n[0] < 1 || len(open) == 0 || open[0] < 3 {
		t.Errorf("goroutines %v, open files %v", n, open)
	}
	if idle := got.values[`host_cpu_seconds_total{target="host",mode="idle"}`]; len(idle) == 0 || idle[0] <= 0 {
		t.Errorf("idle seconds of the host %v", idle)
	}
}

// A child's usage is its own; when it ends that is marked once.
func TestChildThatEnds(t *testing.T) {
	child := exec.Command("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo; read x")
	in := repotest.Must(child.StdinPipe())(t)
	out := repotest.Must(child.StdoutPipe())(t)
	repotest.NoError(t, child.Start())
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	got := fly(t, []Process{{Name: "etcd", PID: child.Process.Pid}}, func(s *Sampler) {
		s.Sample()
		repotest.NoError(t, in.Close())
		_, _ = child.Process.Wait()
		s.Sample()
		ended, end := context.WithCancel(t.Context())
		end()
		s.Run(ended)
	})
	if cpu := got.values[`process_cpu_seconds_total{target="etcd"}`]; len(cpu) != 1 || cpu[0] <= 0 || cpu[0] > 10 {
		t.Errorf("the child's CPU seconds %v", cpu)
	}
	if len(got.marks) != 1 || got.marks[0].Name != "etcd" || !strings.Contains(got.marks[0].Text, "the process has ended") {
		t.Errorf("marks %v, want one that says so", got.marks)
	}
}

func TestCgroupThrottling(t *testing.T) {
	for name, text := range map[string]string{
		"v1": "nr_periods 10\nnr_throttled 4\nthrottled_time 2500000000\n",
		"v2": "usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_periods 10\nnr_throttled 4\nthrottled_usec 2500000\nnr_bursts 0\n",
	} {
		folder := t.TempDir()
		repotest.NoError(t, os.WriteFile(filepath.Join(folder, "cpu.stat"), []byte(text), 0o600))
		got := fly(t, []Process{{Name: "etcd", PID: os.Getpid(), Cgroup: folder}}, func(s *Sampler) { s.Sample(); s.Sample() })
		for key, want := range map[string]float64{
			"cgroup_cpu_throttled_seconds_total": 2.5, "cgroup_cpu_throttled_periods_total": 4, "cgroup_cpu_periods_total": 10,
		} {
			if v := got.values[key+`{target="etcd"}`]; len(v) != 1 || v[0] != want {
				t.Errorf("%s: %s = %v, want %v written once", name, key, v, want)
			}
		}
	}
	if _, ok := parseThrottle([]byte("usage_usec 5\n")); ok {
		t.Error("a cgroup without a CPU controller was taken for one that is never throttled")
	}
}

func TestSamplesAtTheIntervalUntilStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		w := repotest.Must(record.Create(filepath.Join(folder, "r.wt")))(t)
		s := New(w, clock.Start(), nil, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		time.Sleep(3500 * time.Millisecond)
		cancel()
		<-done
		repotest.NoError(t, w.Close())
		var at []float64
		if _, err := record.Read(filepath.Join(folder, "r.wt"), func(st *record.Stream) record.Visitor {
			return record.Visitor{Sample: func(v record.Sample) {
				if st.Series[v.Series].Name == CPUSeconds {
					at = append(at, v.At.Seconds())
				}
			}}
		}); err != nil {
			t.Fatal(err)
		}
		if len(at) < 2 || at[0] != 0 || at[len(at)-1] > 3 {
			t.Errorf("sampled at %v s, want whole seconds from 0 to 3", at)
		}
	})
}

func TestStatOfAProcessWithAnAwkwardName(t *testing.T) {
	cpu, err := parseStat([]byte("7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 150 25 9 9 20 0 1 0 100 1 1\n"))
	if err != nil || cpu != 1.75 {
		t.Errorf("cpu = %v, %v", cpu, err)
	}
	for _, bad := range []string{"", "7 (x) S 1 2", "7 (x) S 1 7 7 0 -1 4 1 2 3 4 x 25 9 9"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestHostLine(t *testing.T) {
	got := parseHost("cpu  100 1 200 3000 4 0 6 70 0 0")
	if got["user"] != 1 || got["idle"] != 30 || got["steal"] != 0.7 || len(got) != 8 {
		t.Errorf("%v", got)
	}
	for _, bad := range []string{"", "cpu0 1 2 3 4 5 6 7 8", "cpu a b c d e f g h"} {
		if parseHost(bad) != nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestMachine(t *testing.T) {
	m := Machine()
	if m.Cores < 1 || m.MemoryBytes < 1<<20 || m.Kernel == "" || m.Arch == "" || m.OS == "" || m.Cgroup == "" {
		t.Errorf("%+v", m)
	}
	if strings.ContainsRune(m.Kernel, 0) {
		t.Errorf("kernel %q", m.Kernel)
	}
}

func TestMachineFiles(t *testing.T) {
	if got := cpuModel([]byte("processor : 0\nmodel name\t: Fast CPU @ 3 GHz\n\nmodel name : other\n")); got != "Fast CPU @ 3 GHz" {
		t.Errorf("model %q", got)
	}
	if got := osName([]byte("NAME=x\nPRETTY_NAME=\"Some Linux 12\"\nID=y\n")); got != "Some Linux 12" {
		t.Errorf("os %q", got)
	}
	for want, files := range map[string][]string{"none": nil, "v1": {"cpu/x"}, "v2": {"cgroup.controllers"}} {
		root := t.TempDir()
		for _, f := range files {
			path := filepath.Join(root, "sys/fs/cgroup", f)
			repotest.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			repotest.NoError(t, os.WriteFile(path, nil, 0o600))
		}
		if got := cgroupVersion(root); got != want {
			t.Errorf("cgroupVersion = %q, want %q", got, want)
		}
	}
}

// BenchmarkSample is the cost of one sampling of a plane's four processes.
func BenchmarkSample(b *testing.B) {
	w := repotest.Must(record.Create(filepath.Join(b.TempDir(), "r.wt")))(b)
	defer w.Close()
	var processes []Process
	for range 4 {
		processes = append(processes, Process{Name: "p", PID: os.Getppid()})
	}
	s := New(w, clock.Start(), processes, Options{})
	for b.Loop() {
		s.Sample()
	}
}

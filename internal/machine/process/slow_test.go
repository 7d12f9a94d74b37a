package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// spinning starts a process that keeps two threads busy.
func spinning(t *testing.T, l Limits) *Process {
	t.Helper()
	p := repotest.Must(Start(Spec{
		Name: "spin", Path: os.Args[0], Args: []string{"child", "spin"},
		LogFile: filepath.Join(t.TempDir(), "log"), Limits: l,
	}, nil))(t)
	t.Cleanup(p.Kill)
	repotest.Eventually(t, "it has started", func() bool {
		raw, err := os.ReadFile(p.LogFile())
		return err == nil && strings.Contains(string(raw), "ready")
	})
	return p
}

// cores returns how many cores the process uses for a while.
func cores(p *Process, within time.Duration) float64 {
	before, begin := cpuTime(p.pid), time.Now()
	time.Sleep(within)
	return (cpuTime(p.pid) - before).Seconds() / time.Since(begin).Seconds()
}

// tries is how often a share is measured until others leave the process that
// much.
const tries = 8

// spare is how much CPU of the machine nobody has used until a moment.
type spare struct {
	idle  float64 // seconds
	begin time.Time
}

// spared is what the machine has had to spare until now.
func spared() spare {
	var user, nice, system, idle, wait float64 // of all cores, hundredths of a second
	if raw, err := os.ReadFile("/proc/stat"); err == nil {
		_, _ = fmt.Sscan(strings.TrimPrefix(string(raw), "cpu"), &user, &nice, &system, &idle, &wait) // 0 if it cannot be read
	}
	return spare{(idle + wait) / 100, time.Now()}
}

// tooLittle fails, unless others took what the process lacks: of that much less than
// half was idle since before.
func tooLittle(t *testing.T, got, want float64, before spare) {
	t.Helper()
	now := spared()
	if idle := (now.idle - before.idle) / now.begin.Sub(before.begin).Seconds(); now.idle > 0 && idle < (want-got)/2 {
		t.Skipf("uses %.3f cores of %.3f, while %.3f were idle", got, want, idle)
	}
	t.Errorf("uses %.3f cores, want %.3f", got, want)
}

// checkShare holds that a process gets its share and no more. More for a second is
// made up for in the next: a governor that others hold up is late to stop it, so that
// all seconds count together for that.
func checkShare(t *testing.T, p *Process, want float64) {
	t.Helper()
	limit := 1.15*want + 0.005
	var most, sum, mean float64
	before := spared()
	for n := range tries {
		got := cores(p, time.Second)
		most, sum = max(most, got), sum+got
		if mean = sum / float64(n+1); mean <= limit && most > 0.8*want {
			return
		}
	}
	if mean > limit {
		t.Errorf("uses %.3f cores, want at most %.3f", mean, want)
		return
	}
	tooLittle(t, most, want, before)
}

// checkFullSpeed wants more than any share that is tested.
func checkFullSpeed(t *testing.T, p *Process) {
	t.Helper()
	var most float64
	before := spared()
	for range tries {
		if most = max(most, cores(p, 500*time.Millisecond)); most > 0.6 {
			return
		}
	}
	tooLittle(t, most, float64(min(2, runtime.NumCPU())), before)
}

func TestSlowHoldsTheShareAndIsUndone(t *testing.T) {
	p := spinning(t, Limits{})
	for _, share := range []float64{0.2, 0.05} { // the second without FullSpeed between
		by := repotest.Must(p.Slow(share))(t)
		t.Log(share, "by", by)
		checkShare(t, p, share)
	}
	folder := slowFolder(t, p)
	for range 2 {
		repotest.NoError(t, p.FullSpeed())
	}
	checkFullSpeed(t, p)
	if folder != "" {
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("control group %s is left", folder)
		}
	}
	if _, err := p.Slow(0.1); err != nil {
		t.Fatal(err)
	}
	folder = slowFolder(t, p)
	p.Kill()
	if err := p.Err(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(folder); folder != "" && err == nil {
		t.Errorf("control group %s outlives its process", folder)
	}
	if _, err := p.Slow(0.1); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Slow of a dead process: %v", err)
	}
	for _, bad := range []float64{0, -1} {
		if _, err := p.Slow(bad); err == nil || errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%v cores: %v", bad, err)
		}
	}
}

// slowFolder returns the control group that was made for the process; empty if
// it is slowed without one.
func slowFolder(t *testing.T, p *Process) string {
	t.Helper()
	places, err := ownPlaces([]string{"cpu"})
	if err != nil {
		return ""
	}
	for _, parent := range places[0].parents {
		dir := filepath.Join(parent, p.groupName()+"-slow")
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
	}
	return ""
}

func TestSlowBelowALimitGoesBackToTheLimit(t *testing.T) {
	p := spinning(t, Limits{CPU: 0.5})
	if !p.Limited() {
		t.Skip(p.Warning())
	}
	for _, c := range []struct{ ask, want float64 }{{0.2, 0.2}, {1.5, 0.5}} {
		if by, err := p.Slow(c.ask); err != nil || by != ByCgroup {
			t.Fatal(by, err)
		}
		checkShare(t, p, c.want)
	}
	repotest.NoError(t, p.FullSpeed())
	checkShare(t, p, 0.5)
}

// Where no control group can be made, a governor keeps the share.
func TestGovernorHoldsTheShare(t *testing.T) {
	p := spinning(t, Limits{})
	for _, share := range []float64{0.2} {
		undo := p.startGovernor(share)
		checkShare(t, p, share)
		repotest.NoError(t, undo())
		checkFullSpeed(t, p)
	}
}

func TestGovernorLeavesAPausedProcessPaused(t *testing.T) {
	p := spinning(t, Limits{})
	undo := p.startGovernor(0.3)
	repotest.NoError(t, p.Pause())
	time.Sleep(20 * time.Millisecond)
	if got := cores(p, 300*time.Millisecond); got > 0.01 {
		t.Errorf("uses %.3f cores while paused", got)
	}
	repotest.NoError(t, p.Continue())
	checkShare(t, p, 0.3)
	begin := time.Now()
	p.Stop(2 * time.Minute) // it hears SIGTERM however slow it is
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("Stop of a slowed process took %v", took)
	}
	repotest.NoError(t, undo())
}

func TestQuotaIsOneThatTheKernelTakes(t *testing.T) {
	for cores, want := range map[float64]time.Duration{2: slowPeriod, 0.2: slowPeriod, 0.1: slowPeriod, 0.05: 20 * time.Millisecond, 0.0001: time.Second} {
		if got := periodFor(cores); got != want {
			t.Errorf("%v cores: period %v, want %v", cores, got, want)
		}
	}
	for _, c := range []struct {
		version int
		cores   float64
		want    string
	}{
		{1, 0.2, "[[cpu.cfs_period_us 10000] [cpu.cfs_quota_us 2000]]"}, {2, 0.2, "[[cpu.max 2000 10000]]"},
		{1, 0, "[[cpu.cfs_period_us 10000] [cpu.cfs_quota_us -1]]"}, {2, 0, "[[cpu.max max 10000]]"},
	} {
		if got := fmt.Sprint(part{version: c.version}.cpuSettings(c.cores, slowPeriod)); got != c.want {
			t.Errorf("v%d, %v cores: %s", c.version, c.cores, got)
		}
	}
}

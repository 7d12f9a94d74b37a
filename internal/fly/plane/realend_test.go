package plane_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestRealDeathIsReportedWithLogLines(t *testing.T) {
	p := real(t, scenario.Plane{Durability: "fsync"})
	if f := p.Facts(); f.DataOn != "disk" && len(p.Warnings()) == 0 {
		t.Errorf("fsync on %s without a warning", f.DataOn)
	}
	pids, ports, paths := inventory(t, p)
	c, _ := p.Component(component.APIServer)
	repotest.NoError(t, syscall.Kill(c.PID, syscall.SIGKILL))
	select {
	case d := <-p.Died():
		if d.Component != component.APIServer || !strings.Contains(d.Err.Error(), "signal: killed") || strings.Count(d.Err.Error(), "\n") < 3 {
			t.Errorf("death %q: %v", d.Component, d.Err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("no death is reported")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if left := remains(pids, ports, paths); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRealStartWithAWrongFlagSaysWhich(t *testing.T) {
	for _, name := range component.Names()[:2] {
		cfg := scenario.Plane{Components: map[string]scenario.Component{name: {Flags: map[string]string{"no-such-flag": "1"}}}}
		p, err := plane.Start(t.Context(), cfg, plane.Options{LogDir: t.TempDir(), Executable: repotest.Binary(t)})
		if err == nil {
			t.Fatal("no error", p.Close())
		}
		if !strings.Contains(err.Error(), name+" died") || !strings.Contains(err.Error(), "no-such-flag") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRealStartThatIsCancelledLeavesNothing(t *testing.T) {
	logs, bin := t.TempDir(), repotest.Binary(t)
	for _, after := range []time.Duration{50 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		p, err := plane.Start(ctx, scenario.Plane{}, plane.Options{LogDir: logs, Executable: bin})
		cancel()
		if err == nil {
			t.Error("started in", after, p.Close())
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", after, err)
		}
	}
	raw := repotest.Must(os.ReadFile(filepath.Join(logs, "etcd.log")))(t)
	for _, word := range strings.FieldsFunc(string(raw), func(r rune) bool { return r == '"' || r == ',' }) {
		if dir, ok := strings.CutPrefix(word, "--data-dir="); ok {
			if left := remains(nil, nil, []string{filepath.Dir(dir)}); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		}
	}
}

// held is what a windtunnel that is to be killed has started.
type held struct {
	PIDs, Ports []int
	Paths       []string
}

// hold starts a plane, prints what it made and waits to be killed.
func hold(executable, logs string) int {
	p, err := plane.Start(context.Background(), scenario.Plane{Components: map[string]scenario.Component{
		component.Etcd: {Memory: unit.Bytes(1 << 30)},
	}}, plane.Options{LogDir: logs, Executable: executable})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var t testing.T
	var h held
	h.PIDs, h.Ports, h.Paths = inventory(&t, p)
	_ = json.NewEncoder(os.Stdout).Encode(h)
	time.Sleep(time.Minute)
	return 0
}

func TestNothingOfAPlaneOutlivesAKilledWindtunnel(t *testing.T) {
	cmd := exec.Command(os.Args[0], "hold", repotest.Binary(t), t.TempDir())
	cmd.Stderr = os.Stderr
	out := repotest.Must(cmd.StdoutPipe())(t)
	repotest.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	line := repotest.Must(bufio.NewReader(out).ReadBytes('\n'))(t)
	var h held
	repotest.NoError(t, json.Unmarshal(line, &h))
	if before := remains(h.PIDs, h.Ports, h.Paths); len(before) < 9 {
		t.Fatalf("only %v before the end: the test shows nothing", before)
	}
	repotest.NoError(t, cmd.Process.Kill())
	repotest.Eventually(t, "nothing is left behind", func() bool { return len(remains(h.PIDs, h.Ports, h.Paths)) == 0 })
}

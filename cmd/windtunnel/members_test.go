package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A real member that does not start ends the run with its last lines, and the others'
// logs stay.
func TestMemberThatDoesNotStart(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	file := filepath.Join(u.dir, "bad.yaml")
	text := "scenario: bad\nmembers:\n- {name: good, count: 1}\n- {name: bad, flags: {no-such-flag: x}}\nsteps: [{pause: 1s}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, said := u.start("run", file, "--out", "run")
	if code := exitOf(cmd.Wait()); code != exitFault || !strings.Contains(said.String(), "bad-1 died") || !strings.Contains(said.String(), "no-such-flag") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if info, err := os.Stat(filepath.Join(u.dir, "run", "logs", "good-1.log")); err != nil || info.Size() == 0 {
		t.Errorf("the other's log: %v", err)
	}
}

func TestUpWithMembers(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	up := exec.Command(u.bin, "up", "--members", "1", "--hollow", "20")
	var out, said output
	up.Stdout, up.Stderr = &out, &said
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	repotest.Eventually(t, "up prints its kubeconfig", func() bool { return strings.HasSuffix(out.String(), "\n") })
	_, config, _ := strings.Cut(strings.TrimSpace(out.String()), "export KUBECONFIG=")
	raw, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"windtunnel", "member-1", "hollow-1", "hollow-20"} {
		if !strings.Contains(string(raw), "name: "+name+"\n") {
			t.Errorf("no context %s", name)
		}
	}
	_ = up.Process.Signal(os.Interrupt)
	if code := exitOf(up.Wait()); code != exitPass {
		t.Errorf("up: exit code %d\n%s", code, &said)
	}
}

package process_test

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestIdentity(t *testing.T) {
	self, err := process.Self()
	if err != nil || !self.Alive() {
		t.Fatalf("%+v, %v", self, err)
	}
	other := self
	rebooted := other
	rebooted.Boot = "another boot"
	if rebooted.Alive() || !errors.Is(rebooted.Interrupt(), process.ErrGone) {
		t.Error("a process of before a reboot is taken for this one")
	}
	if former := (process.Identity{PID: other.PID, Started: other.Started}); !former.Alive() {
		t.Error("an identity without a boot, as earlier versions wrote it, is not known")
	}
	other.Started++ // a process that had the same number before
	if other.Alive() || !errors.Is(other.Interrupt(), process.ErrGone) || (process.Identity{}).Alive() {
		t.Error("another process is taken for this one")
	}
}

func TestInterrupt(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	child := repotest.Must(process.Of(cmd.Process.Pid))(t)
	if err := child.Interrupt(); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Errorf("it ended with %v", err)
	}
	if child.Alive() {
		t.Error("it lives on")
	}
}

package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

// ErrGone says that a process has ended, or that its number is another's by now.
var ErrGone = errors.New("the process has ended")

// Identity names a process of this machine for good: numbers are given again,
// but not to one that was started at the same tick after the same boot.
type Identity struct {
	PID     int    `json:"pid"`
	Started uint64 `json:"started"`        // clock ticks since boot (proc_pid_stat(5), field 22)
	Boot    string `json:"boot,omitempty"` // which boot (random(4), boot_id); empty in what earlier versions wrote
}

// Self returns the identity of the process that calls it.
func Self() (Identity, error) { return Of(os.Getpid()) }

// Of returns the identity of the process that has a number now.
func Of(pid int) (Identity, error) {
	s, err := statOf(pid)
	if err != nil {
		return Identity{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	return Identity{PID: pid, Started: s.start, Boot: bootID()}, nil
}

// Alive says whether the process still runs; a zombie does not.
func (i Identity) Alive() bool {
	return i.PID > 0 && sameBoot(i.Boot) && isAlive(i.PID, i.Started)
}

// Interrupt sends the process what Ctrl-C sends it. ErrGone says that it is
// not there any more.
func (i Identity) Interrupt() error {
	if !i.Alive() {
		return ErrGone
	}
	if err := kernel.Kill(i.PID, syscall.SIGINT); err != nil {
		return fmt.Errorf("interrupt process %d: %w", i.PID, err)
	}
	return nil
}

package kubelet

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/windtunnel/windtunnel/internal/sim/fleet/kubelet/stream"
)

// terminal is a pseudo-terminal: what is written to ours is read from its.
type terminal struct{ ours, its *os.File }

func (t *terminal) close() {
	_ = t.ours.Close()
	_ = t.its.Close()
}

// runTerminal runs a command on a terminal of its own.
func (s *Server) runTerminal(cmd *exec.Cmd, c *stream.Session) error {
	t, err := openTerminal()
	if err != nil {
		return err
	}
	defer t.close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.its, t.its, t.its
	leadSession(cmd.SysProcAttr)
	select { // begin with the client's size, if it said it
	case size, ok := <-c.Resize:
		if ok {
			t.resize(size)
		}
	case <-time.After(firstSize):
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start command: %w", err)
	}
	_ = t.its.Close() // so that reading ours ends with the last process that has it
	s.wait.Go(func() {
		for size := range c.Resize {
			t.resize(size)
		}
	})
	if c.Stdin != nil {
		s.wait.Go(func() { _, _ = io.Copy(t.ours, c.Stdin) })
	}
	copied := make(chan struct{})
	s.wait.Go(func() {
		defer close(copied)
		to := c.Stdout
		if to == nil {
			to = io.Discard
		}
		_, _ = io.Copy(to, t.ours) // ends with an error when nobody has the other side any more
	})
	err = cmd.Wait()
	_ = killGroup(cmd)
	select {
	case <-copied:
	case <-time.After(lingering):
		_ = t.ours.SetReadDeadline(longAgo())
		<-copied
	}
	return exitOf(cmd, err)
}

// firstSize is how long a terminal waits for the client to say its size.
const firstSize = 200 * time.Millisecond

func longAgo() time.Time { return time.Unix(1, 0) }

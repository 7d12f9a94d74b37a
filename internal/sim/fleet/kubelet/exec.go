package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
	"github.com/windtunnel/windtunnel/internal/kernel"
	"github.com/windtunnel/windtunnel/internal/sim/fleet/kubelet/stream"
)

// Timing of commands and connections.
const (
	dialTimeout = 10 * time.Second
	lingering   = 2 * time.Second // for what a command left running to let go of its output
)

// serveExec runs a client's command, if an object allows it.
func (s *Server) serveExec(w http.ResponseWriter, r *http.Request) {
	wants, err := stream.WantsOf(r)
	if err != nil {
		s.writeError(w, newFailure(http.StatusBadRequest, "%w", err))
		return
	}
	argv := r.URL.Query()["command"]
	if len(argv) == 0 || argv[0] == "" {
		s.writeError(w, newFailure(http.StatusBadRequest, "want a command"))
		return
	}
	if err := s.requireKnown(r.Context(), r); err != nil {
		s.writeError(w, err)
		return
	}
	e, _, err := configuration.Find(&s.rules.Load().objects.Execs, r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
	if err != nil {
		s.writeError(w, newFailure(http.StatusBadRequest, "no Exec or ClusterExec: %w", err))
		return
	}
	if e.Local == nil {
		s.writeError(w, newFailure(http.StatusBadRequest, "the object has no local: nothing is run"))
		return
	}
	s.serveSession(w, r, wants, func(ctx context.Context, c *stream.Session) error {
		cmd := newCommand(ctx, argv)
		cmd.Dir = e.Local.WorkDir
		for _, v := range e.Local.Envs {
			cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
		}
		if err := setCredentials(cmd, e.Local.SecurityContext); err != nil {
			return err
		}
		if c.TTY {
			return s.runTerminal(cmd, c)
		}
		cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
		return s.runCommand(cmd, c.Stdin)
	})
}

// newCommand prepares a command in a process group of its own, all of which ends
// with ctx.
func newCommand(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = os.Environ()
	cmd.SysProcAttr = kernel.OwnGroup()
	cmd.Cancel = func() error { return killGroup(cmd) }
	cmd.WaitDelay = lingering
	return cmd
}

func killGroup(cmd *exec.Cmd) error {
	if err := kernel.KillGroup(cmd.Process.Pid); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// setCredentials sets the user and group of a command: those that are not given are this
// process's.
func setCredentials(cmd *exec.Cmd, c *configuration.SecurityContext) error {
	if c == nil || (c.RunAsUser == nil && c.RunAsGroup == nil) {
		return nil
	}
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	if c.RunAsUser != nil {
		uid = uint32(*c.RunAsUser)
	}
	if c.RunAsGroup != nil {
		gid = uint32(*c.RunAsGroup)
	}
	if os.Getuid() != 0 {
		if int(uid) != os.Getuid() || int(gid) != os.Getgid() {
			return fmt.Errorf("run as %d:%d: only root can", uid, gid)
		}
		return nil
	}
	return kernel.SetUser(cmd, uid, gid)
}

// runCommand runs a command to its end. What it left running in its group is ended.
func (s *Server) runCommand(cmd *exec.Cmd, stdin io.Reader) error {
	if stdin != nil {
		pipe, err := cmd.StdinPipe()
		if err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
		// Not cmd.Stdin: the command's end must not wait for a client that keeps
		// its own standard input open. The copy ends with the connection.
		s.wait.Go(func() {
			_, _ = io.Copy(pipe, stdin)
			_ = pipe.Close()
		})
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start command: %w", err)
	}
	err := cmd.Wait()
	_ = killGroup(cmd)
	return exitOf(cmd, err)
}

// exitOf says how a command ended.
func exitOf(cmd *exec.Cmd, err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success():
		return nil
	case !errors.As(err, &exit):
		return fmt.Errorf("run command: %w", err)
	}
	code := exit.ExitCode()
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return &stream.ExitError{Code: code}
}

// portForward connects a client's streams to what objects say.
func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	if err := s.requireKnown(r.Context(), r); err != nil {
		s.writeError(w, err)
		return
	}
	if !s.beginSession() {
		s.writeError(w, newFailure(http.StatusServiceUnavailable, "too many sessions"))
		return
	}
	defer s.endSession()
	namespace, pod := r.PathValue("namespace"), r.PathValue("pod")
	err := stream.Forward(w, r, func(ctx context.Context, port int32, data io.ReadWriter) error {
		f, _, err := configuration.Find(&s.rules.Load().objects.PortForwards, namespace, pod, port)
		if err != nil {
			return fmt.Errorf("no PortForward or ClusterPortForward: %w", err)
		}
		if len(f.Command) > 0 {
			cmd := newCommand(ctx, f.Command)
			cmd.Stdout = data
			return s.runCommand(cmd, data)
		}
		return s.proxyToAddress(ctx, f.Target, data)
	})
	if err != nil {
		s.log.Info("port-forward ended", "path", r.URL.Path, "err", err)
	}
}

// proxyToAddress copies both ways between a stream and an address, until the address
// ends.
func (s *Server) proxyToAddress(ctx context.Context, to *configuration.Target, data io.ReadWriter) error {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(to.Address, strconv.Itoa(int(to.Port))))
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		stop()
		_ = conn.Close()
	}()
	// The copy up ends with the client's stream, which may be after this.
	s.wait.Go(func() {
		_, _ = io.Copy(conn, data)
		if half, ok := conn.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	})
	_, err = io.Copy(data, conn)
	if err != nil && ctx.Err() != nil {
		return nil
	}
	return err
}

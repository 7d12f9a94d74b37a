package windtunnel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

// UpOptions say what plane to start.
type UpOptions struct {
	Nodes  int       // of a fleet that stays; flights bring their own
	Binary string    // the program windtunnel; default: see the package
	Output io.Writer // gets what the program says; nil: nobody
}

// Plane is a plane that outlives single tests. Flights on it share its boot, which
// is what a plane of their own costs, and are measured less closely: its
// components are somebody else's to them.
type Plane struct {
	Kubeconfig string
	Config     *rest.Config // its administrator; QPS is unset, so that client-go allows 5 requests/s

	cmd     *exec.Cmd
	line    io.Closer
	closing sync.Once
	err     error
}

// ErrNotUp says that the program ended before the plane was up.
var ErrNotUp = errors.New("the plane did not come up")

// upPrefix begins the line by which the program says that the plane is up.
const upPrefix = "export KUBECONFIG="

// Up starts a plane that ends with the test.
func Up(t testing.TB, o UpOptions) *Plane {
	t.Helper()
	if o.Output == nil {
		o.Output = t.Output()
	}
	p, err := Start(t.Context(), o)
	if err != nil {
		t.Fatalf("windtunnel: %v", err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("windtunnel: %v", err)
		}
	})
	return p
}

// Start starts a plane and returns when it is up; the caller closes it. It is for
// TestMain. What ctx ends is the start, not the plane.
func Start(ctx context.Context, o UpOptions) (*Plane, error) {
	binary, err := findProgram(o.Binary)
	if err != nil {
		return nil, err
	}
	if o.Output == nil {
		o.Output = io.Discard
	}
	ours, theirs, err := kernel.SocketPair() // closed by the kernel when this process is killed, which ends the plane
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	p := &Plane{cmd: exec.Command(binary, "up", "--nodes", strconv.Itoa(o.Nodes), "--caller", "3"), line: ours}
	p.cmd.ExtraFiles = []*os.File{theirs}
	p.cmd.Stderr = o.Output
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Signal(os.Interrupt) })
	defer stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if path, ok := strings.CutPrefix(lines.Text(), upPrefix); ok {
			p.Kubeconfig = path
			if p.Config, err = clientConfig(path); err != nil {
				return nil, errors.Join(err, p.Close())
			}
			return p, nil
		}
	}
	return nil, errors.Join(ErrNotUp, context.Cause(ctx), p.cmd.Wait(), ours.Close())
}

// closeWithin is how long the program gets to take its plane down.
const closeWithin = 20 * time.Second

// Close ends the plane and returns when nothing of it is left. It is idempotent.
func (p *Plane) Close() error {
	p.closing.Do(func() {
		_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended by itself: Wait says so
		late := time.AfterFunc(closeWithin, func() { _ = p.cmd.Process.Kill() })
		defer late.Stop()
		if err := p.cmd.Wait(); err != nil {
			p.err = fmt.Errorf("end the plane: %w", err)
		}
		_ = p.line.Close() // nothing was said over it
	})
	return p.err
}

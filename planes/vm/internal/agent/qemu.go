package agent

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// qemuBinary is what is looked for in PATH.
const qemuBinary = "qemu-system-x86_64"

// ErrNoQEMU says that real machines were asked for where there are none.
var ErrNoQEMU = errors.New("hypervisor qemu: " + qemuBinary + " is not in PATH; install QEMU or take the hypervisor model")

// qemu runs one minimal QEMU process for each machine, without an image: its
// firmware runs and finds nothing to boot. What is real is the process, its
// start and its memory, not a guest.
type qemu struct {
	dice
	path string

	mu   sync.Mutex
	live map[types.UID]*qemuProcess
}

type qemuProcess struct {
	kill func() error
	done chan struct{}
}

func newQEMU(d dice) (*qemu, error) {
	path, err := exec.LookPath(qemuBinary)
	if err != nil {
		return nil, ErrNoQEMU
	}
	return &qemu{dice: d, path: path, live: map[types.UID]*qemuProcess{}}, nil
}

// Start begins a process and returns when it is there. It ends with ctx, and
// with the agent, however that ends.
func (q *qemu) Start(ctx context.Context, vmi *api.Instance) error {
	started := make(chan error, 1)
	p := &qemuProcess{done: make(chan struct{})}
	go func() {
		// The kernel kills the child when the thread that began it ends, so
		// this goroutine keeps its thread until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		cmd := exec.CommandContext(ctx, q.path, "-name", vmi.Name, "-machine", "pc,accel=kvm:tcg", "-m", "32", "-nodefaults", "-nographic", "-serial", "none", "-monitor", "none", "-no-reboot")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		err := cmd.Start()
		if err == nil {
			p.kill = cmd.Process.Kill
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed, as a rule
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", qemuBinary, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.live[vmi.UID] = p
	return nil
}

// Guest has no guest to wait for. A machine that an earlier agent ran ended
// with it: its process is begun again.
func (q *qemu) Guest(ctx context.Context, vmi *api.Instance) error {
	q.mu.Lock()
	there := q.live[vmi.UID] != nil
	q.mu.Unlock()
	if !there {
		return q.Start(ctx, vmi)
	}
	return ctx.Err()
}

// Stop kills the process, if it is still there, and waits for its end.
func (q *qemu) Stop(_ context.Context, vmi *api.Instance) error {
	q.mu.Lock()
	p := q.live[vmi.UID]
	delete(q.live, vmi.UID)
	q.mu.Unlock()
	if p == nil {
		return nil
	}
	_ = p.kill() // it may have ended
	<-p.done
	return nil
}

// Close waits for the ends of processes whose context has ended.
func (q *qemu) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.live {
		_ = p.kill()
		<-p.done
	}
	clear(q.live)
}

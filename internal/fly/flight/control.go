package flight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/scenario"
)

// ControlSocket is the name of the Unix socket in the folder of Up, mode 0600, by
// which faults are asked for: POST /fault with a fault step's fields in YAML. The
// answer is FaultBegan once the fault holds and FaultEnded when it was taken back:
// after its time or, without one, when the caller hangs up. A fault that cannot be
// is answered with 400 and why.
const (
	ControlSocket = "control.sock"
	FaultBegan    = "began\n"
	FaultEnded    = "ended\n"
)

// maxFault bounds what is read of a request, in bytes.
const maxFault = 64 << 10

// control serves a running Up.
type control struct {
	plane *plane.Plane
	fleet *fleet.Fleet // nil: no nodes
	nodes int
	ended <-chan struct{} // of Up
}

// serveSocket listens until close, which waits for the faults that hold: they are taken
// back when ended is closed.
func (c *control) serveSocket(folder string) (close func(), err error) {
	path := filepath.Join(folder, ControlSocket)
	listener, err := net.Listen("unix", path) // in a folder of mode 0700
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for faults: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /fault", c.serveFault)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	guard.Go(func() { _ = s.Serve(listener); done <- struct{}{} })
	return func() { _ = s.Shutdown(context.Background()); <-done }, nil
}

func (c *control) serveFault(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFault))
	var d *scenario.Disturbance
	if err == nil {
		d, err = ParseFault(raw, c.nodes)
	}
	ctx := context.WithoutCancel(r.Context())
	var mend func(context.Context) error
	if err == nil {
		mend, err = steps.Inject(ctx, c.plane, c.fleet, d)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, FaultBegan)
	_ = http.NewResponseController(w).Flush()
	c.holdFault(r.Context(), d)
	if err := mend(ctx); err != nil {
		_, _ = io.WriteString(w, err.Error()+"\n")
		return
	}
	_, _ = io.WriteString(w, FaultEnded)
}

// holdFault returns when a fault is to be taken back.
func (c *control) holdFault(ctx context.Context, d *scenario.Disturbance) {
	if d.Action == "restart" || d.Action == "reconnect" {
		return // over in a moment
	}
	var over <-chan time.Time
	if d.For > 0 {
		timer := time.NewTimer(time.Duration(d.For))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-ctx.Done():
	case <-c.ended:
	}
}

// ParseFault reads and checks the fields of a fault step, in YAML, for a fleet of
// so many nodes.
func ParseFault(raw []byte, nodes int) (*scenario.Disturbance, error) {
	text := fmt.Sprintf("scenario: up\nfleet: {nodes: %d}\nsteps:\n- fault: %s\n", nodes, raw)
	s, err := scenario.Parse("fault", []byte(text), nil)
	if err != nil {
		return nil, err
	}
	if len(s.Steps) != 1 || s.Steps[0].Fault == nil {
		return nil, errors.New("a fault, and nothing else, is wanted")
	}
	return s.Steps[0].Fault, nil
}

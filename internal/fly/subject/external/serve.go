package external

import (
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/windtunnel/windtunnel/internal/guard"
)

// Program is the subject in the caller's process. It calls ready once and
// returns when ctx ends; an error before that is its death.
type Program func(ctx context.Context, s Start, ready func()) error

// Serve is the caller's end: it runs the program when windtunnel says so, ends it
// when windtunnel says so or is gone, and returns the program's error when
// windtunnel has closed the socket. pid is the number of this process.
func Serve(ctx context.Context, conn io.ReadWriteCloser, pid int, run Program) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wait    guard.Group
		writing sync.Mutex
		fault   error
	)
	say := func(m message) {
		writing.Lock()
		defer writing.Unlock()
		_ = json.NewEncoder(conn).Encode(m) // windtunnel that is gone needs no news
	}
	for lines := json.NewDecoder(conn); ; {
		var m message
		if lines.Decode(&m) != nil {
			break
		}
		switch {
		case m.Kind == kindStop:
			cancel()
		case m.Kind == kindStart && m.Start != nil:
			start := *m.Start
			wait.Go(func() {
				err := run(ctx, start, func() { say(message{Kind: kindReady, PID: pid}) })
				ended := message{Kind: kindEnded}
				if err != nil && ctx.Err() == nil {
					fault, ended.Error = err, err.Error()
				}
				say(ended)
			})
		}
	}
	cancel()
	wait.Wait()
	return fault
}

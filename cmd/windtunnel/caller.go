package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/fly/subject/external"
)

// callerFlags declares the flags by which a program that starts windtunnel says
// which open file is windtunnel's end of a socket between them, and which subject
// it is. They are for package windtunnel alone and not shown.
func callerFlags(verb *cobra.Command) (file *int, as *string) {
	file = verb.Flags().Int("caller", 0, "number of an open file: a socket to the program that started windtunnel, whose end ends the run")
	as = verb.Flags().String("as", "", "with --caller: the subject that this program is")
	for _, name := range []string{"caller", "as"} {
		if err := verb.Flags().MarkHidden(name); err != nil {
			panic(err) // the flag was declared above
		}
	}
	needOneOf(verb, []string{"caller"}, "as")
	return file, as
}

// openCaller returns the caller; nil when there is none.
func openCaller(file int) (*external.Caller, error) {
	if file <= 0 {
		return nil, nil
	}
	return external.Open(os.NewFile(uintptr(file), "caller"))
}

// underCaller returns a context that ends when the caller does: what a test
// started does not outlive it, even when it is killed.
func underCaller(ctx context.Context, file int) (context.Context, func(), error) {
	c, err := openCaller(file)
	if c == nil || err != nil {
		return ctx, func() {}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-c.Ended():
			cancel(flight.ErrInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
		_ = c.Close() // nothing was said over it
	}, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/record"
)

// resumeFrom takes over the state that an earlier call of a search has left in a file of its
// directory, and says whether there was one.
func resumeFrom[T any](out, name string, read func(path string, raw []byte) (T, error), resume func(T) error) (found bool, err error) {
	path := record.Dir(out).File(name)
	raw, err := record.Dir(out).Read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read search: %w", err)
	}
	earlier, err := read(path, raw)
	if err != nil {
		return false, err
	}
	if err := resume(earlier); err != nil {
		return false, fmt.Errorf("%s: %w; give another --out", path, err)
	}
	return true, nil
}

// tries is how often a run whose plane does not start is begun.
const tries = 3

// flyUntilBooted flies into a run directory. A plane that did not start is tried again:
// nothing was measured, and it need not have been the load's fault. failed is told of each.
func flyUntilBooted(ctx context.Context, path string, fly func() error, failed func(error)) (err error) {
	for range tries {
		if err = moveAside(path); err != nil {
			return err
		}
		if err = fly(); !errors.Is(err, flight.ErrBoot) || ctx.Err() != nil {
			return err
		}
		failed(err)
	}
	return err
}

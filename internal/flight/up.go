package flight

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fleet"
	"github.com/windtunnel/windtunnel/internal/plane"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// UpOptions say what to boot and where its files go.
type UpOptions struct {
	Nodes      int
	Durability string // memory or fsync
	Folder     string // for logs; the caller removes it
	Kubeconfig string // where to write it
	Log        *slog.Logger
	Ready      func(server string) // called when the nodes are schedulable
}

// Up boots a plane with a fleet and keeps it until ctx ends, which is no error.
// It returns an error when a component dies.
func Up(ctx context.Context, o UpOptions) (err error) {
	logs := filepath.Join(o.Folder, record.LogFolder)
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return fmt.Errorf("make a folder for logs: %w", err)
	}
	c := clock.Start()
	p, err := plane.Start(ctx, scenario.Plane{Durability: o.Durability}, plane.Options{LogDir: logs, Log: o.Log, Clock: c})
	if err != nil {
		return quiet(ctx, err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	records, err := record.Create(filepath.Join(o.Folder, record.StreamFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	f, err := fleet.Start(ctx, scenario.Fleet{
		Nodes: o.Nodes, Lease: unit.Duration(scenario.DefaultLease), Rate: scenario.DefaultNodeRate,
		Within: unit.Duration(scenario.DefaultFleetWithin),
	}, fleet.Options{Endpoint: p.Endpoint("fleet"), Records: records, Clock: c, Log: o.Log, Seed: scenario.DefaultSeed})
	if err != nil {
		return quiet(ctx, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Ready(ctx); err != nil {
		return quiet(ctx, err)
	}
	admin := p.Endpoint("admin")
	if err := admin.WriteKubeconfig(o.Kubeconfig); err != nil {
		return err
	}
	o.Ready(admin.Server())
	select {
	case <-ctx.Done():
		return nil
	case death := <-p.Died():
		return fmt.Errorf("%s died: %w", death.Component, death.Err)
	}
}

// quiet is no error when a person ended it.
func quiet(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), ErrInterrupted) {
		return nil
	}
	return err
}

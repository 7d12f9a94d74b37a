package flight

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/member"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/stages"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/scenario"
)

// UpOptions say what to boot and where its files go.
type UpOptions struct {
	Plane      scenario.Plane
	Fleet      scenario.Fleet
	Members    []scenario.Members
	BaseDir    string // that paths in Plane are relative to
	StagesDir  string // that files in Fleet.Stages are relative to
	Folder     string // for logs and the socket of faults; the caller removes it
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
	acts, err := stages.Compile(o.Fleet, o.StagesDir)
	if err != nil {
		return err
	}
	c := clock.Start()
	p, err := plane.Start(ctx, o.Plane, plane.Options{LogDir: logs, BaseDir: o.BaseDir, Log: o.Log, Clock: c})
	if err != nil {
		return ignoreInterrupt(ctx, err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	f, err := fleet.Start(ctx, o.Fleet, fleet.Options{ // without records: nobody reads them, and they would grow for weeks
		Endpoint: p.Endpoint("fleet"), Clock: c, Log: o.Log, Seed: scenario.DefaultSeed,
		Stages: acts.Machine, Objects: acts.Objects, Connections: o.Fleet.Connections,
	})
	if err != nil {
		return ignoreInterrupt(ctx, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Ready(ctx); err != nil {
		return ignoreInterrupt(ctx, err)
	}
	members, err := member.Start(ctx, p, o.Members, member.Options{
		Options: plane.Options{LogDir: logs, BaseDir: o.BaseDir, Log: o.Log, Clock: c}, Programs: o.Plane,
	})
	if err != nil {
		return ignoreInterrupt(ctx, err)
	}
	admin := p.Endpoint(plane.Admin)
	if err := writeContexts(o.Kubeconfig, p, members.All()); err != nil {
		return err
	}
	held, end := context.WithCancel(ctx)
	faults := control{plane: p, fleet: f, nodes: o.Fleet.Nodes, ended: held.Done()}
	stop, err := faults.serveSocket(o.Folder)
	if err != nil {
		end()
		return err
	}
	defer func() { end(); stop() }()
	o.Ready(admin.Server())
	for {
		select {
		case <-ctx.Done():
			return nil
		case death := <-p.Died():
			if !death.Member {
				return fmt.Errorf("%s died: %w", death.Component, death.Err)
			}
			o.Log.Warn("a member died; the others live on", slog.String("member", death.Component), slog.Any("error", death.Err))
		}
	}
}

// upContext is the context of the plane in the kubeconfig; those of members have
// their names.
const upContext = "windtunnel"

// writeContexts writes a kubeconfig of the plane and its members.
func writeContexts(path string, p *plane.Plane, members []*member.Member) error {
	contexts := map[string]endpoint.Endpoint{upContext: p.Endpoint(plane.Admin)}
	for _, m := range members {
		contexts[m.Name] = m.Endpoint(plane.Client)
	}
	return endpoint.WriteContexts(path, upContext, contexts)
}

// ignoreInterrupt is no error when a person ended it.
func ignoreInterrupt(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), ErrInterrupted) {
		return nil
	}
	return err
}

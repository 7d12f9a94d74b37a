// Package cli is the command line that the processes of reference planes
// share: a hidden verb with the plane's kubeconfig, an address for metrics, a
// log level and a shard.
//
// It does no work of a plane, and starts no process: package subject does.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/api/door"
	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// Host is the program that the processes are verbs of.
type Host struct {
	Stdout, Stderr io.Writer
	Interruptible  func(context.Context) (context.Context, context.CancelFunc) // ended by a signal
}

// Process is one process of a plane. Its fields are set when its work begins.
type Process struct {
	Registry      *instrument.Registry
	Clock         clock.Clock
	Log           *slog.Logger
	Shard, Shards int // does the Shard-th part, from 0, of Shards
	// NewConfig returns the configuration of a client with a user agent. In a cluster that
	// is not the run's own, its calls go through the run's door.
	NewConfig func(userAgent string) *rest.Config

	host                             Host
	kubeconfig, listen, level, shard string
}

// New returns a process of the host.
func New(host Host) *Process { return &Process{host: host} }

// Verb makes the verb that runs the process; work begins when it is connected.
// prefix is that of its metrics, as in instrument.New. The verb ends without an
// error when it is interrupted.
func (p *Process) Verb(use, short, prefix string, work func(context.Context) error) *cobra.Command {
	verb := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, Hidden: true}
	verb.Flags().StringVar(&p.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig `FILE` of the control plane")
	verb.Flags().StringVar(&p.listen, "listen", "127.0.0.1:0", "`HOST:PORT` of /metrics, /healthz and /readyz; the address is printed")
	verb.Flags().StringVar(&p.level, "log-level", "info", "debug, info, warn or error")
	verb.Flags().StringVar(&p.shard, "shard", "1/1", "do the K-th part of S, `K/S` from 1")
	verb.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := p.host.Interruptible(cmd.Context())
		defer cancel()
		if err := p.prepareProcess(prefix); err != nil {
			return err
		}
		err := work(ctx)
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	return verb
}

func (p *Process) prepareProcess(prefix string) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(p.level)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	if _, err := fmt.Sscanf(p.shard, "%d/%d", &p.Shard, &p.Shards); err != nil || p.Shard < 1 || p.Shard > p.Shards {
		return fmt.Errorf("--shard %q: want K/S such as 1/3, K from 1 to S", p.shard)
	}
	p.Shard--
	if p.kubeconfig == "" {
		return errors.New("--kubeconfig: none given, and KUBECONFIG is empty")
	}
	server, err := endpoint.FromKubeconfig(p.kubeconfig, "")
	if err != nil {
		return err
	}
	p.NewConfig = func(userAgent string) *rest.Config { return door.Guard(server.Config(userAgent), install.Stamp()) }
	p.Clock, p.Registry = clock.Start(), instrument.New(prefix)
	p.Log = slog.New(slog.NewJSONHandler(p.host.Stderr, &slog.HandlerOptions{Level: level}))
	return nil
}

// AddPreset gives a verb the flag --preset, which sets the options that the preset
// changes and that are not given as flags themselves.
func AddPreset(verb *cobra.Command, options words.Set, name, usage string) {
	chosen := ""
	verb.Flags().StringVar(&chosen, "preset", "", name+": "+usage)
	verb.PreRunE = func(cmd *cobra.Command, _ []string) error {
		switch chosen {
		case "":
		case name:
			options.Apply(name, func(flag string) bool { return cmd.Flags().Changed(flag) })
		default:
			return fmt.Errorf("--preset %q: want %s", chosen, name)
		}
		return nil
	}
}

// Serve answers /metrics, /healthz, /readyz and further routes while work runs.
func (p *Process) Serve(ctx context.Context, work func() error, routes ...instrument.Route) (err error) {
	server, err := p.Registry.Serve(ctx, p.listen, routes...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	fmt.Fprintf(p.host.Stdout, "metrics on http://%s/metrics\n", server.Address)
	return work()
}

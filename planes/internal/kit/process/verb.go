package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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

// Spec says what a process is.
type Spec struct {
	Name, Short string       // of the verb; the user agent is windtunnel-NAME
	Metrics     string       // prefix of its metrics, as in instrument.New
	Options     words.Set    // a flag each
	Check       func() error // what is wrong with the options; nil: what they say of themselves
	Preset      Preset
	Env         *Env // filled in before Run
	Run         func(context.Context) error
}

// Preset says how a user chooses one of the presets of the options.
type Preset struct {
	Flag    string // empty: preset
	Default string // the name of what the options are without a preset; may be empty
	Usage   string
	Same    map[string]string // other names of presets, such as releases
}

// Verb returns the hidden verb of the host that runs a process. The verb ends without an
// error when it is interrupted.
func (host Host) Verb(s Spec) *cobra.Command {
	verb := &cobra.Command{Use: s.Name, Short: s.Short, Args: cobra.NoArgs, Hidden: true}
	var c common
	c.options().Reset()
	c.kubeconfig = os.Getenv("KUBECONFIG")
	c.options().AddFlags(verb.Flags())
	s.Options.Reset()
	s.Options.AddFlags(verb.Flags())
	preset := s.addPreset(verb)
	verb.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := host.Interruptible(cmd.Context())
		defer cancel()
		if err := c.prepare(s, host.Stderr); err != nil {
			return err
		}
		if err := preset(); err != nil {
			return err
		}
		check := s.Check
		if check == nil {
			check = s.Options.Check
		}
		if err := check(); err != nil {
			return err
		}
		return unlessEnded(ctx, c.serve(ctx, host.Stdout, s))
	}
	return verb
}

// addPreset adds the flag by which a preset is chosen, where there are presets, and returns
// what sets the options that the chosen one changes and that no flag gives.
func (s Spec) addPreset(verb *cobra.Command) (apply func() error) {
	names := s.Options.Presets()
	if len(names) == 0 {
		return func() error { return nil }
	}
	flag, chosen := s.Preset.Flag, s.Preset.Default
	if flag == "" {
		flag = "preset"
	}
	if chosen != "" {
		names = append(names, chosen)
		slices.Sort(names)
	}
	known := strings.Join(names, ", ")
	words.Set{words.Of(&chosen, flag, s.Preset.Usage+", by `NAME`: "+known)}.AddFlags(verb.Flags())
	return func() error {
		if name := s.Preset.Same[chosen]; name != "" {
			chosen = name
		}
		if chosen != s.Preset.Default && !slices.Contains(names, chosen) {
			return fmt.Errorf("--%s %q: want %s", flag, chosen, oneOf(names))
		}
		s.Options.Apply(chosen)
		return nil
	}
}

// common are the options that every process has.
type common struct{ kubeconfig, listen, level, shard string }

func (c *common) options() words.Set {
	return words.Set{
		words.Of(&c.kubeconfig, "kubeconfig", "kubeconfig `FILE` of the control plane"),
		words.Of(&c.listen, "listen", "`HOST:PORT` of /metrics, /healthz and /readyz; the address is printed", words.Default("127.0.0.1:0", "")),
		words.Of(&c.level, "log-level", "lowest `LEVEL` of messages that are logged: debug, info, warn or error", words.Default("info", "")),
		words.Of(&c.shard, "shard", "do part K of S parts, as `K/S` from 1/S to S/S", words.Default("1/1", "")),
	}
}

// prepare fills in what a process works with.
func (c *common) prepare(s Spec, stderr io.Writer) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.level)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	e := s.Env
	if _, err := fmt.Sscanf(c.shard, "%d/%d", &e.Shard, &e.Shards); err != nil || e.Shard < 1 || e.Shard > e.Shards {
		return fmt.Errorf("--shard %q: want K/S such as 1/3, K from 1 to S", c.shard)
	}
	e.Shard--
	if c.kubeconfig == "" {
		return errors.New("--kubeconfig: none given, and KUBECONFIG is empty")
	}
	server, err := endpoint.FromKubeconfig(c.kubeconfig, "")
	if err != nil {
		return err
	}
	e.Config = door.Guard(server.Config("windtunnel-"+s.Name), install.Stamp())
	e.Clock, e.Registry = clock.Start(), instrument.New(s.Metrics)
	e.Log = slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: level}))
	return nil
}

// serve answers /metrics, /healthz, /readyz and what else the registry has while the
// process runs.
func (c *common) serve(ctx context.Context, stdout io.Writer, s Spec) (err error) {
	server, err := s.Env.Registry.Serve(ctx, c.listen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	s.Env.Registry.Times()
	fmt.Fprintf(stdout, "metrics on http://%s/metrics\n", server.Address)
	return s.Run(ctx)
}

// oneOf is what is wanted where one of names has to be given.
func oneOf(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return "one of " + strings.Join(names, ", ")
}

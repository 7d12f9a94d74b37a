package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/api/cleanup"
	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/slo"
)

// cleaning is the verb clean under way.
type cleaning struct {
	kubeconfig, run string
	dry             bool
	within          time.Duration
}

// cleanVerb removes what runs left in a cluster.
func cleanVerb(env *environment) *cobra.Command {
	var c cleaning
	verb := &cobra.Command{
		Use:   "clean --kubeconfig FILE",
		Short: "Remove what killed runs left in a cluster",
		Long: "clean finds what carries the label windtunnel.dev/run, over all kinds that the cluster\n" +
			"serves, and deletes it by UID. A run takes its objects away itself when it ends, also by\n" +
			"Ctrl-C; clean is for one that was killed. Runs that are being flown are left alone.\n" +
			"It ends with 0 when nothing is left, and with 1 when something is, which it names.",
		Example: "  windtunnel clean --kubeconfig ~/.kube/config --dry-run\n  windtunnel clean --kubeconfig ~/.kube/config --run k3vq2mzr7a",
		Args:    cobra.NoArgs,
	}
	verb.Flags().StringVar(&c.kubeconfig, "kubeconfig", "", "of the cluster: a `file`")
	verb.Flags().StringVar(&c.run, "run", "", "of this run alone: the `id` that manifest.json has as run")
	verb.Flags().BoolVar(&c.dry, "dry-run", false, "name what would be deleted, and delete nothing")
	verb.Flags().DurationVar(&c.within, "within", 3*time.Minute, "how long each part of it may take to go")
	_ = verb.MarkFlagRequired("kubeconfig") // it is there
	verb.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := env.interruptible(cmd.Context(), "stopping", func() {})
		defer cancel()
		e, err := endpoint.FromKubeconfig(c.kubeconfig, "")
		if err != nil {
			return err
		}
		client, err := wire.New(e, wire.Options{UserAgent: "windtunnel-clean", Clock: clock.Start()})
		if err != nil {
			return err
		}
		defer client.Close()
		return c.clean(ctx, env, client)
	}
	return verb
}

func (c *cleaning) clean(ctx context.Context, env *environment, client *wire.Client) error {
	found, unread, err := cleanup.Find(ctx, client, c.run)
	if err != nil {
		return err
	}
	byRun := map[string][]cleanup.Found{}
	for _, f := range found {
		byRun[f.Run] = append(byRun[f.Run], f)
	}
	if len(found) == 0 {
		fmt.Fprintln(env.stdout, "nothing was left by "+cmp.Or(c.run, "any run"))
	}
	left := unread
	for _, run := range slices.Sorted(maps.Keys(byRun)) {
		if run == fleetRunID && c.run == "" {
			fmt.Fprintf(env.stderr, "%d objects are of the verb fleet, which may be at work: --run %s removes them\n", len(byRun[run]), run)
			continue
		}
		left = errors.Join(left, c.cleanRun(ctx, env, client, run, byRun[run]))
	}
	if left == nil {
		return nil
	}
	fmt.Fprintf(env.stderr, "left: %s\n", strings.ReplaceAll(left.Error(), "\n", "\nleft: "))
	return verdictError{slo.Fail}
}

// cleanRun removes what one run left; the error says what stays, and why.
func (c *cleaning) cleanRun(ctx context.Context, env *environment, client *wire.Client, run string, found []cleanup.Found) error {
	flown, err := cleanup.Flown(ctx, client, run)
	switch {
	case err != nil:
		return fmt.Errorf("%d objects of run %s: it is not known whether it is being flown: %w", len(found), run, err)
	case flown:
		return fmt.Errorf("%d objects of run %s: it is being flown now", len(found), run)
	case c.dry:
		fmt.Fprintf(env.stdout, "run %s, %d objects:\n", run, len(found))
		for _, f := range found {
			fmt.Fprintf(env.stdout, "  %s\n", f)
		}
		return nil
	}
	s := cleanup.Sweeper{Client: client, Within: c.within, Orphaned: true}
	if err := s.Remove(ctx, found); err != nil {
		return err
	}
	if err := s.Sweep(ctx, run); err != nil { // what controllers made meanwhile
		return err
	}
	fmt.Fprintf(env.stdout, "run %s: %d objects were deleted\n", run, len(found))
	return nil
}

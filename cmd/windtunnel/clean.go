package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windtunnel/windtunnel/internal/api/cleanup"
	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// cleaning is the verb clean under way.
type cleaning struct {
	kubeconfig, run string
	dry, yes        bool
	namespaces      []string
	within          time.Duration
}

// cleanVerb removes what runs left in a cluster.
func cleanVerb(env *environment) *cobra.Command {
	var c cleaning
	verb := &cobra.Command{
		Use:   "clean --kubeconfig FILE",
		Short: "Remove what killed runs left in a cluster",
		Long: "clean lists the objects with the label windtunnel.dev/run, over all resources that the\n" +
			"cluster serves, asks, and deletes them by UID. It deletes an object only if windtunnel has\n" +
			"set the label (the API server records the field manager), or if the object belongs to such\n" +
			"an object. A run deletes its objects itself when it ends, also by Ctrl-C; clean is for runs\n" +
			"that were killed. It does not touch active runs. The exit code is 0 when nothing\n" +
			"is left, 1 when something is left, which clean names, and 3 when nobody confirmed.",
		Example: "  windtunnel clean --kubeconfig ~/.kube/config --dry-run\n  windtunnel clean --kubeconfig ~/.kube/config --run k3vq2mzr7a --yes",
		Args:    cobra.NoArgs,
	}
	verb.Flags().StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig `FILE` of the cluster")
	verb.Flags().StringVar(&c.run, "run", "", "delete only objects of the run with this `ID`, the field run of its manifest.json")
	verb.Flags().BoolVar(&c.dry, "dry-run", false, "list what would be deleted, and delete nothing")
	verb.Flags().BoolVarP(&c.yes, "yes", "y", false, "delete without asking; needed where standard input is no terminal")
	verb.Flags().DurationVar(&c.within, "within", 3*time.Minute, "`DURATION` after which clean gives up on the objects that are still there, of all runs together, and names them")
	verb.Flags().StringArrayVar(&c.namespaces, "namespace", []string{"default"}, "`NAMESPACE` in which to look for objects that the user may not list in all namespaces; repeatable")
	_ = verb.MarkFlagRequired("kubeconfig") // it is there
	standAlone(verb, []string{"dry-run"}, "yes", "within")
	verb.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", func() {})
		defer cancel()
		if c.within <= 0 {
			return fmt.Errorf("--within %v: want more than 0s", c.within)
		}
		if len(validation.IsValidLabelValue(c.run)) > 0 {
			return fmt.Errorf("--run %s: it is the ID of no run: see the field run of its manifest.json", c.run)
		}
		e, err := endpoint.FromKubeconfig(c.kubeconfig, "")
		if err != nil {
			return err
		}
		client, err := wire.New(e, wire.Options{UserAgent: "windtunnel-clean", Clock: clock.Start()})
		if err != nil {
			return err
		}
		defer client.Close()
		return c.cleanUp(ctx, env, client)
	}
	return verb
}

func (c *cleaning) cleanUp(ctx context.Context, env *environment, client *wire.Client) error {
	found, unread, err := cleanup.Look{Client: client, Run: c.run, Namespaces: c.namespaces, Looked: c.showLooking(env)}.Find(ctx)
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
	left, mine := []error{unread}, map[string][]cleanup.Found{}
	for _, run := range slices.Sorted(maps.Keys(byRun)) {
		if run == fleetRunID && c.run == "" {
			fmt.Fprintf(env.stderr, "the verb fleet made %s, and may be at work: --run %s deletes what it made\n", unit.Count(len(byRun[run]), "objects"), run)
			continue
		}
		list, err := c.listDeletable(ctx, env, client, run, byRun[run])
		if left = append(left, err); len(list) > 0 {
			mine[run] = list
		}
	}
	if len(mine) > 0 && !c.dry {
		if err := c.askToDelete(env, mine); err != nil {
			return err
		}
		left = append(left, c.deleteLeftovers(ctx, env, client, mine))
	}
	if err := errors.Join(left...); err != nil {
		fmt.Fprintf(env.stderr, "left: %s\n", strings.ReplaceAll(err.Error(), "\n", "\nleft: "))
		return verdictError{slo.Fail}
	}
	return nil
}

// lookingEvery is how often clean says how far it has looked.
const lookingEvery = 5 * time.Second

// showLooking says how far the look over all resources is: one that does not answer, and a
// large cluster, take a minute and more.
func (c *cleaning) showLooking(env *environment) func(done, of int) {
	fmt.Fprintf(env.stderr, "looking for objects with the label %s\n", object.RunLabel)
	began, said := clock.Start(), clock.Time(0)
	return func(done, of int) {
		if now := began.Now(); now.Sub(said) >= lookingEvery && done < of {
			said = now
			fmt.Fprintf(env.stderr, "looked at %d of %d resources\n", done, of)
		}
	}
}

// listDeletable prints what of a run can be deleted, and returns it; the error says what stays, and
// why.
func (c *cleaning) listDeletable(ctx context.Context, env *environment, client *wire.Client, run string, found []cleanup.Found) ([]cleanup.Found, error) {
	fmt.Fprintf(env.stderr, "checking for up to %v whether run %s is being flown\n", cleanup.FlownWithin, run)
	flown, err := cleanup.Flown(ctx, client, run)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s of run %s: it is not known whether it is being flown: %w", unit.Count(len(found), "objects"), run, err)
	case flown:
		return nil, fmt.Errorf("%s of run %s: it is being flown now", unit.Count(len(found), "objects"), run)
	}
	made, others := cleanup.Prove(found, nil)
	if len(made) > 0 {
		fmt.Fprintf(env.stdout, "run %s, %s:\n", run, unit.Count(len(made), "objects"))
	}
	for _, f := range made {
		fmt.Fprintf(env.stdout, "  %s\n", f)
	}
	if len(made) > 0 && !c.dry {
		return made, nil // the sweep says what it leaves
	}
	return made, cleanup.Foreign(others)
}

// errUnconfirmed is the end of clean where nobody can be asked.
var errUnconfirmed = errors.New("nothing was deleted: standard input is no terminal, so nobody can confirm it: add --yes to delete these objects, or --dry-run to list them")

// askToDelete asks whether to delete.
func (c *cleaning) askToDelete(env *environment, mine map[string][]cleanup.Found) error {
	n := 0
	for _, list := range mine {
		n += len(list)
	}
	switch {
	case c.yes:
		return nil
	case !env.asks:
		return fmt.Errorf("clean: %w", errUnconfirmed)
	}
	fmt.Fprintf(env.stderr, "Delete %s? [y/N] ", unit.Count(n, "objects"))
	line, err := bufio.NewReader(env.stdin).ReadString('\n')
	if err != nil && line == "" {
		return fmt.Errorf("clean: %w", errUnconfirmed)
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.New("clean: nothing was deleted: not confirmed")
	}
	return nil
}

// deleteLeftovers deletes what runs have left, all within one deadline; the error says what
// stays, and why.
func (c *cleaning) deleteLeftovers(ctx context.Context, env *environment, client *wire.Client, mine map[string][]cleanup.Found) error {
	var faults []error
	began, runs := clock.Start(), slices.Sorted(maps.Keys(mine))
	for i, run := range runs {
		within := cleanup.ShareOf(max(0, c.within-began.Now().Sub(0)), len(runs)-1-i)
		fmt.Fprintf(env.stderr, "deleting %s of run %s, for up to %v\n", unit.Count(len(mine[run]), "objects"), run, within.Round(time.Second))
		s := cleanup.Sweeper{Client: client, Within: within, Namespaces: c.namespaces, Orphaned: true}
		if err := s.Sweep(ctx, run, mine[run]); err != nil {
			faults = append(faults, fmt.Errorf("run %s: %w", run, err))
			continue
		}
		fmt.Fprintf(env.stdout, "run %s: deleted %s\n", run, unit.Count(len(mine[run]), "objects"))
	}
	return errors.Join(faults...)
}

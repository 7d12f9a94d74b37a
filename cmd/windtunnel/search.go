package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/opinion/capacity"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text/chart"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// envelopeFile is the name of the chart in a search's folder.
const envelopeFile = "envelope.svg"

// searchVerb finds the largest load that still passes.
func searchVerb(env *environment) *cobra.Command {
	var vary, set []string
	var goal, resolution, output, out string
	var cluster clusterFlags
	var budget time.Duration
	var seed uint64
	plan := capacity.Plan{}
	verb := &cobra.Command{
		Use:   "search SCENARIO --vary NAME=FROM..TO",
		Short: "Find the largest load that passes, or the throughput",
		Long: "search increases a parameter until the scenario no longer passes, bisects between the last\n" +
			"pass and the first other verdict, and repeats both ends. With --goal throughput it\n" +
			"increases the load until the achieved rate no longer rises. With a second --vary it\n" +
			"searches for several values of the first parameter: the envelope. The directory contains\n" +
			"search.json, " + envelopeFile + " and every run. The same command resumes where\n" +
			"an earlier one was stopped, also with another goal.",
		Example: "  windtunnel search examples/density.yaml --vary podsPerNode=10..100 --budget 1h\n" +
			"  windtunnel search examples/density.yaml --vary rate=10..640:log --goal throughput\n" +
			"  windtunnel search examples/density.yaml --vary nodes=10..1000:log --vary podsPerNode=5..100 --runs 60",
		Args: cobra.ExactArgs(1),
	}
	flags := verb.Flags()
	flags.StringArrayVar(&vary, "vary", nil, "parameter and its range, as `NAME=FROM..TO` or NAME=FROM..TO:log; once or twice")
	flags.StringVar(&goal, "goal", searchGoals()[0], "`GOAL` of the search: "+strings.Join(searchGoals(), " or "))
	flags.StringVar(&plan.Rate, "rate", "", "`NAME` of the rate to look at, as in search.json (default: one that the parameter changes)")
	flags.DurationVar(&budget, "budget", 0, "start no run that would end after this `DURATION`; 0: no limit")
	flags.IntVar(&plan.MaxRuns, "runs", 0, "maximum `NUMBER` of runs; 0: no limit")
	flags.IntVar(&plan.Repeats, "repeats", capacity.DefaultRepeats, "`NUMBER` of runs of each of the two values at the edge")
	flags.IntVar(&plan.Columns, "columns", capacity.DefaultColumns, "with two parameters: `NUMBER` of values of the first one")
	flags.StringVar(&resolution, "resolution", "5%", "distance of neighboring values: a `SHARE` of the range, or with :log of the value")
	flags.StringArrayVar(&set, "set", nil, "set another parameter, as `NAME=VALUE`; repeatable")
	flags.StringVar(&out, "out", "", "`DIR` for the search (default runs/SCENARIO/search-NAME)")
	cluster.addFlags(verb, "test the cluster of this kubeconfig `FILE`; each run waits until preflight finds the cluster clean")
	flags.Uint64Var(&seed, "seed", 0, "`SEED` of the first run of each point; each repeat has the next one (default: the scenario's)")
	var others neighbours
	others.addFlag(verb)
	addOutput(verb, &output, outputForms()...)
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		if err := wantOneOf("--output", output, outputForms()...); err != nil {
			return err
		}
		if err := errors.Join(wantOneOf("--goal", goal, searchGoals()...), cluster.checkFlags()); err != nil {
			return err
		}
		if goal == string(capacity.ThroughputGoal) {
			plan.Goal = capacity.ThroughputGoal
		}
		var err error
		if plan.Resolution, err = parseShare("--resolution", resolution); err != nil {
			return err
		}
		if cmd.Flags().Changed("columns") && len(vary) < 2 {
			return errors.New("search: --columns does nothing without a second --vary")
		}
		plan.Seconds = budget.Seconds()
		x := &searching{file: args[0], out: out, cluster: cluster, env: env, fly: flight.Run}
		x.state.Plan, x.state.MaxNeighbours = plan, float64(others)
		if err := x.checkInput(vary, set); err != nil {
			return err
		}
		if cmd.Flags().Changed("seed") {
			x.state.Seed = seed
		}
		ctx, cancel := env.flightContext(cmd.Context())
		defer cancel()
		return x.flySearch(ctx, output)
	}
	return verb
}

// searchGoals are the values of --goal; the first is the default.
func searchGoals() []string { return []string{"objectives", string(capacity.ThroughputGoal)} }

// searching is a search under way.
type searching struct {
	file    string
	out     string
	cluster clusterFlags
	text    []byte // of file: all runs are of one
	set     map[string]string
	state   capacity.State
	env     *environment
	fly     flyFunc
}

// checkInput checks the input, and that the scenario takes both ends of each
// range, so that a fault is known before the first run.
func (x *searching) checkInput(vary, set []string) error {
	values, err := parseSet(set)
	if err != nil {
		return err
	}
	for _, text := range vary {
		a, err := capacity.ParseAxis(text)
		if err != nil {
			return fmt.Errorf("--vary %w", err)
		}
		if _, twice := values[a.Name]; twice {
			return fmt.Errorf("--set %s: it is varied", a.Name)
		}
		x.state.Plan.Axes = append(x.state.Plan.Axes, a)
	}
	if len(vary) == 0 {
		return errors.New("--vary: want a parameter and its range, such as pods=1000..50000")
	}
	x.set = values
	if err := x.readParameters(); err != nil {
		return err
	}
	if err := x.state.Plan.Validate(); err != nil {
		return err
	}
	low, high := x.state.Plan.Ends()
	for _, point := range [][]float64{low, high} {
		given := x.parametersAt(point)
		sc, err := scenario.Parse(x.file, x.text, given)
		if err == nil {
			err = sc.CheckSet(given)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readParameters reads the scenario for what it says of the varied parameters.
func (x *searching) readParameters() error {
	var err error
	if x.text, err = scenario.Read(x.file); err != nil {
		return err
	}
	sc, err := scenario.Parse(x.file, x.text, x.set)
	if err != nil {
		return err
	}
	x.env.printNotice(sc.Warnings...)
	var names []string
	for i := range x.state.Plan.Axes {
		a := &x.state.Plan.Axes[i]
		switch sc.Values[a.Name].(type) {
		case int64: // unless fractions of it are asked for
			a.Whole = a.From == math.Trunc(a.From) && a.To == math.Trunc(a.To)
		case float64:
		case nil:
			return fmt.Errorf("--vary %s: parameter not found in %s", a.Name, x.file)
		default:
			return fmt.Errorf("--vary %s: it is not a number", a.Name)
		}
		names = append(names, a.Name)
	}
	if x.out == "" {
		x.out = filepath.Join("runs", sc.Name, "search-"+fileName(strings.Join(names, "-")))
	}
	made, _ := versionsWithPlane() // a cluster that runs already needs none
	s := &x.state
	s.Format, s.Scenario, s.Set, s.Seed = capacity.StateFormat, sc.Name, x.set, sc.Seed
	s.Text, s.Machine, s.Versions = fmt.Sprintf("%x", sha256.Sum256(x.text)), usage.Machine(), made
	return nil
}

// parametersAt are the parameters of a point.
func (x *searching) parametersAt(point []float64) map[string]string {
	out := map[string]string{}
	maps.Copy(out, x.set)
	for i, v := range point {
		out[x.state.Plan.Axes[i].Name] = capacity.Text(v)
	}
	return out
}

// flySearch flies what the search asks for until it is at its end, the budget is
// spent or a person stops it.
func (x *searching) flySearch(ctx context.Context, output string) (err error) {
	unlock, err := lockFolder(x.out)
	if err != nil {
		return err
	}
	defer unlock()
	if x.state.Plane, err = searchPlane(ctx, x.cluster.kubeconfig); err != nil {
		return err
	}
	if err := x.resumeState(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		step := capacity.Next(x.state.Plan, x.state.Runs)
		if step.Point == nil {
			fmt.Fprintln(x.env.stderr, step.Why)
			break
		}
		fmt.Fprintf(x.env.stderr, "run %d: %s\n", len(x.state.Runs)+1, step.Why)
		if err := x.flyWithRetries(ctx, step); errors.Is(err, flight.ErrInterrupted) {
			break
		} else if err != nil {
			return fmt.Errorf("%w\nthe same command goes on from here: %s", err, x.out)
		}
		if err := x.saveState(); err != nil {
			return err
		}
		if err := x.knowsRate(x.state.Runs[len(x.state.Runs)-1]); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		fmt.Fprintf(x.env.stderr, "stopped after %s: the same command goes on from here: %s\n", unit.Count(len(x.state.Runs), "runs"), x.out)
	}
	return x.printResult(output)
}

// resumeState takes over what an earlier call has left in the folder.
func (x *searching) resumeState() error {
	found, err := resumeFrom(x.out, capacity.StateFile, capacity.ReadState, x.state.Resume)
	if err != nil || !found {
		return err
	}
	for _, r := range x.state.Runs {
		if err := x.knowsRate(r); err != nil {
			return err
		}
	}
	fmt.Fprintf(x.env.stderr, "going on after %s\n", unit.Count(len(x.state.Runs), "runs"))
	return nil
}

// flyWithRetries flies a run.
func (x *searching) flyWithRetries(ctx context.Context, step capacity.Step) error {
	path := filepath.Join(x.out, x.runName(step))
	return flyUntilBooted(ctx, path, func() error { return x.flyOnce(ctx, step, path) }, func(err error) {
		fmt.Fprintf(x.env.stderr, "the plane did not start, trying again: %v\n", err)
	})
}

func (x *searching) runName(step capacity.Step) string {
	var parts []string
	for i, v := range step.Point {
		parts = append(parts, x.state.Plan.Axes[i].Name+"="+capacity.Text(v))
	}
	return fmt.Sprintf("%s-%02d", fileName(strings.Join(parts, "_")), step.Repeat+1)
}

func (x *searching) flyOnce(ctx context.Context, step capacity.Step, path string) error {
	watch := clock.Start()
	seed := x.state.Seed + uint64(step.Repeat)
	shown := newProgress(x.env)
	result, err := x.fly(ctx, flight.Options{
		File: x.file, Text: x.text, Set: x.parametersAt(step.Point), Kubeconfig: x.cluster.kubeconfig, Trust: x.cluster.trust, Out: path, Seed: &seed, MaxNeighbours: x.state.MaxNeighbours, Command: x.env.args,
		Versions: binaryVersions(), Log: x.env.newLogger(), Status: shown.showStatus, StatusEvery: shown.redrawInterval(),
	})
	shown.clearLine()
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return flight.ErrInterrupted
	case errors.Is(result.Err, flight.ErrBoot), errors.Is(result.Err, flight.ErrNoRecords), errors.Is(result.Err, flight.ErrInterrupted):
		return fmt.Errorf("%w\nrun directory: %s", result.Err, result.Dir)
	}
	r := capacity.NewRun(step.Point, result.Judgement)
	r.Bound = limitedBy(path)
	r.Seconds, r.Seed, r.Dir = watch.Now().Seconds(), seed, filepath.Base(path)
	x.state.Runs = append(x.state.Runs, r)
	fmt.Fprintf(x.env.stderr, "%s (%.0f s)\n", x.state.Plan.Short(r), r.Seconds)
	return nil
}

// saveState leaves the state and the chart in the folder, each in one step.
func (x *searching) saveState() error {
	x.state.Result = capacity.Conclude(x.state.Plan, x.state.Runs)
	dir := record.Dir(x.out)
	if err := dir.WriteJSON(capacity.StateFile, x.state); err != nil {
		return err
	}
	var picture strings.Builder
	title := "What " + x.state.Scenario + " holds"
	if x.state.Plan.Goal == capacity.ThroughputGoal {
		title = "Throughput of " + x.state.Scenario
	}
	if err := capacity.Envelope(title, x.state.Plan, x.state.Runs).SVG(&picture); err != nil && !errors.Is(err, chart.ErrEmpty) {
		return err
	}
	return dir.Write(envelopeFile, []byte(picture.String()))
}

// printResult prints the result and ends with its verdict.
func (x *searching) printResult(output string) error {
	if len(x.state.Runs) == 0 {
		return verdictError{slo.Unknown}
	}
	if err := x.saveState(); err != nil { // also where a budget or the repeats have changed
		return err
	}
	if err := printAs(x.env, output, x.state); err != nil {
		return err
	}
	fmt.Fprintf(x.env.stderr, "search: %s\nchart:  %s\n", x.out, filepath.Join(x.out, envelopeFile))
	return verdictError{x.state.Result.Verdict}
}

// lockFolder makes the folder of an experiment, and keeps a second windtunnel out of
// it: it would take the runs of the first for unfinished ones.
func lockFolder(path string) (unlock func(), err error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	if unlock, err = record.Dir(path).Lock(); errors.Is(err, record.ErrBusy) {
		return nil, fmt.Errorf("%w; wait for it, or give another --out", err)
	}
	return unlock, err
}

// moveAside makes room for a run directory where one that was not finished
// lies: nothing is deleted. One that is being flown is an error.
func moveAside(path string) error {
	if entries, err := os.ReadDir(path); err != nil || len(entries) == 0 {
		return nil // CreateDir says what is wrong with it, if anything
	}
	unlock, err := record.Dir(path).Lock()
	if err != nil {
		return err
	}
	defer unlock()
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s-unfinished-%d", path, n)
		if _, err := os.Lstat(aside); errors.Is(err, os.ErrNotExist) {
			return os.Rename(path, aside)
		}
	}
}

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/opinion/bisect"
	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// bisectVerb finds the change that makes bad unlike good.
func bisectVerb(env *environment) *cobra.Command {
	x := &bisecting{env: env, fly: flight.Run}
	var good, bad, between, set []string
	var output string
	var seed uint64
	var others neighbours
	verb := &cobra.Command{
		Use:   "bisect SCENARIO --good NAME=X --bad NAME=Y",
		Short: "Find the change that causes a regression",
		Long: "bisect runs the scenario with the parameters of --good and of --bad until it knows in which\n" +
			"measure they differ, then with some of the changes, and names the change that causes the\n" +
			"difference, or the set that causes it only together. Each run has a fresh control plane. The\n" +
			"directory contains bisect.json, bisect.md and every run. The same command resumes where an\n" +
			"earlier one was stopped.",
		Example: "  windtunnel bisect examples/compare/limiter.yaml --bad limiter=5/10 --bad nodes=10\n" +
			"  windtunnel bisect operator.yaml --good commit=v1.2 --bad commit=v1.3 --build ./build.sh\n" +
			"  windtunnel bisect small.yaml --good plane.release=v1.34.0 --bad plane.release=v1.37.1 --between plane.release=v1.35.0,v1.36.0",
		Args: cobra.ExactArgs(1),
	}
	flags := verb.Flags()
	flags.StringArrayVar(&good, "good", nil, "parameter or field of the better side, as `NAME=VALUE` (default: the scenario's value); repeatable")
	flags.StringArrayVar(&bad, "bad", nil, "parameter or field of the worse side, as `NAME=VALUE` (default: the scenario's value); repeatable")
	flags.StringArrayVar(&between, "between", nil, "values between those of good and bad in their order, such as releases, as `NAME=VALUES`, separated by commas; repeatable")
	flags.StringSliceVar(&x.file.Setup.Patterns, "measure", nil, "look only at measures and counters whose name contains `PATTERN`; * matches any text; repeatable (default: find the one that differs most surely)")
	flags.IntVar(&x.file.Search.Plan.Runs, "runs", bisect.DefaultRuns, "maximum `NUMBER` of runs")
	flags.StringArrayVar(&set, "set", nil, "set a parameter of both sides, as `NAME=VALUE`; repeatable")
	flags.StringVar(&x.file.Setup.Build, "build", "", "shell `COMMAND` that builds what a run starts, before each run; it finds the parameters in its environment, commit as WINDTUNNEL_COMMIT")
	flags.StringVar(&x.out, "out", "", "`DIR` for the search (default runs/SCENARIO/bisect)")
	x.cluster.addFlags(verb, "test the cluster of this kubeconfig `FILE` instead of fresh control planes; each run waits until preflight finds the cluster clean")
	flags.Uint64Var(&seed, "seed", 0, "`SEED` of the first pair of runs; each further pair has the next one (default: the scenario's)")
	others.addFlag(verb)
	addOutput(verb, &output, outputForms()...)
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(wantOneOf("--output", output, outputForms()...), x.cluster.checkFlags()); err != nil {
			return err
		}
		x.file.File, x.file.Setup.MaxNeighbours = args[0], float64(others)
		if err := x.checkInput(bisectSides{good: good, bad: bad, between: between}, set); err != nil {
			return err
		}
		if cmd.Flags().Changed("seed") {
			x.file.Setup.Seed = seed
		}
		ctx, cancel := env.flightContext(cmd.Context())
		defer cancel()
		return x.flySearch(ctx, output)
	}
	return verb
}

// bisecting is a search for a cause under way.
type bisecting struct {
	out     string
	cluster clusterFlags
	text    []byte // of the scenario: all runs are of one
	file    bisect.File
	env     *environment
	fly     flyFunc
}

// bisectSides are the flags of good and bad.
type bisectSides struct{ good, bad, between []string }

// parse reads the sides; what is lacking on one is the scenario's own.
func (s bisectSides) parse(defaults map[string]any) (bisect.Sides, error) {
	good, err := parseSide("--good", s.good)
	bad, badErr := parseSide("--bad", s.bad)
	between, betweenErr := bisect.ParseBetween(s.between)
	if err := errors.Join(err, badErr, betweenErr); err != nil {
		return bisect.Sides{}, err
	}
	return bisect.NewSides(good, bad, between, defaults)
}

func parseSide(flag string, values []string) (map[string]string, error) {
	out, err := parseSet(values)
	if err != nil {
		return nil, fmt.Errorf("%s%s", flag, strings.TrimPrefix(err.Error(), "--set"))
	}
	return out, nil
}

// checkInput checks the input, so that a faulty side is known before the first run, and says
// if so few runs cannot name anything.
func (x *bisecting) checkInput(sides bisectSides, set []string) error {
	values, err := parseSet(set)
	if err != nil {
		return err
	}
	if x.text, err = scenario.Read(x.file.File); err != nil {
		return err
	}
	sc, err := scenario.Parse(x.file.File, x.text, values)
	if err != nil {
		return err
	}
	x.env.printNotice(sc.Warnings...)
	s := &x.file.Setup
	if s.Sides, err = sides.parse(sc.Values); err != nil {
		return err
	}
	plan := &x.file.Search.Plan
	plan.Changes = s.Sides.Changes()
	if err := plan.Validate(); err != nil {
		return err
	}
	for name := range s.Sides.Good {
		if _, twice := values[name]; twice {
			return fmt.Errorf("--set %s: it is a parameter of good and bad", name)
		}
	}
	if x.out == "" {
		x.out = filepath.Join("runs", sc.Name, "bisect")
	}
	made, _ := versionsWithPlane() // a cluster that runs already needs none
	x.file.Format, s.Scenario, s.Set, s.Seed = bisect.StateFormat, sc.Name, values, sc.Seed
	s.Text, s.Machine, s.Versions = fmt.Sprintf("%x", sha256.Sum256(x.text)), usage.Machine(), made
	if s.Build != "" {
		if _, err := candidateVariables(x.parametersWith(nil)); err != nil {
			return err
		}
	}
	for _, side := range [][]int{nil, allOf(plan.Changes)} {
		given := x.parametersWith(side)
		sc, err := scenario.Parse(x.file.File, x.text, given)
		if err == nil && s.Build == "" { // which may be what takes them
			err = sc.CheckSet(given)
		}
		if err != nil {
			return err
		}
	}
	measures := 200 // about as many as a run has
	if len(s.Patterns) > 0 {
		measures = 2
	}
	if needed := bisect.NeededRuns(plan.Changes, measures); plan.Runs < needed {
		x.env.printNotice(fmt.Sprintf("--runs %d is too few to name one of %s: at least %d, if runs hardly vary", plan.Runs, unit.Count(len(plan.Changes), "changes"), needed))
	}
	return nil
}

func allOf(changes []bisect.Change) (out []int) {
	for i := range changes {
		out = append(out, i)
	}
	return out
}

// parametersWith are the parameters of a run with some of the changes.
func (x *bisecting) parametersWith(with []int) map[string]string {
	out := x.file.Setup.Sides.Parameters(x.file.Search.Plan.Changes, with)
	maps.Copy(out, x.file.Setup.Set)
	return out
}

// flySearch flies what the search asks for until it is at its end or a person stops it.
func (x *bisecting) flySearch(ctx context.Context, output string) error {
	unlock, err := lockFolder(x.out)
	if err != nil {
		return err
	}
	defer unlock()
	if x.file.Setup.Plane, err = searchPlane(ctx, x.cluster.kubeconfig); err != nil {
		return err
	}
	if err := x.resumeState(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		step, more := bisect.Next(&x.file.Search)
		if !more {
			break
		}
		x.sayStep(step)
		r, found, err := x.flyStep(ctx, step)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return fmt.Errorf("%w\nthe same command goes on from here: %s", err, x.out)
		}
		x.keepRun(r, found)
		if err := x.saveState(); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		fmt.Fprintf(x.env.stderr, "stopped after %s: the same command goes on from here: %s\n", unit.Count(x.file.Search.Spent(), "runs"), x.out)
	}
	return x.printResult(output)
}

// resumeState takes over what an earlier call has left in the folder.
func (x *bisecting) resumeState() error {
	found, err := resumeFrom(x.out, bisect.StateFile, bisect.ReadFile, x.file.Resume)
	if found {
		fmt.Fprintf(x.env.stderr, "going on after %s\n", unit.Count(x.file.Search.Spent(), "runs"))
	}
	return err
}

// sayStep says what is flown next and why, and how long the rest may take.
func (x *bisecting) sayStep(step bisect.Step) {
	s := &x.file.Search
	why := map[bisect.Purpose]string{
		bisect.Verify: "do good and bad differ?", bisect.Narrow: "which changes can it be?", bisect.Confirm: "is it " + s.Plan.Describe(step.Suspect) + "?",
	}[step.Purpose]
	seconds, n := 0.0, 0
	for _, r := range s.Runs {
		if r.State == bisect.Measured {
			seconds, n = seconds+r.Seconds, n+1
		}
	}
	left := ""
	if n > 0 {
		left = fmt.Sprintf(", at most %s left", (time.Duration(seconds/float64(n)*float64(s.Plan.Runs-s.Spent())) * time.Second).Round(time.Minute))
	}
	fmt.Fprintf(x.env.stderr, "run %d of at most %d%s: %s: %s\n", s.Spent()+1, s.Plan.Runs, left, why, s.Plan.Describe(step.With))
}

// flyStep flies a run. One whose plane does not start, or whose parameters the scenario does
// not take, is skipped, unless it is good or bad itself: then the input is at fault. One
// that came to no end says nothing.
func (x *bisecting) flyStep(ctx context.Context, step bisect.Step) (r bisect.Run, found compare.Run, err error) {
	r = bisect.Run{Step: step, State: bisect.Skipped}
	values := x.parametersWith(step.With)
	if _, err = scenario.Parse(x.file.File, x.text, values); err == nil {
		r.Dir = fmt.Sprintf("%03d%c", step.Pair+1, "ab"[step.Side])
		watch := clock.Start()
		if x.file.Setup.Build != "" {
			err = buildCandidate(ctx, x.file.Setup.Build, values, filepath.Join(x.out, r.Dir+".build.log"))
		}
		if err == nil {
			err = x.flyWithRetries(ctx, values, r)
		}
		r.Seconds = watch.Now().Seconds()
	}
	switch {
	case ctx.Err() != nil, errors.Is(err, flight.ErrNoRecords), err != nil && step.Purpose == bisect.Verify:
		return r, found, err
	case err != nil:
		first, _, _ := strings.Cut(err.Error(), "\n")
		r.Reason = first
		return r, found, nil
	}
	if found, err = compare.Open(filepath.Join(x.out, r.Dir)); err != nil {
		return r, found, err
	}
	r.State, r.Reason = bisect.Measured, found.Unfit()
	if r.Reason != "" {
		r.State = bisect.Unknown
	}
	return r, found, nil
}

// flyWithRetries flies into the run's folder; a plane that did not start is tried again.
func (x *bisecting) flyWithRetries(ctx context.Context, values map[string]string, r bisect.Run) error {
	path, seed := filepath.Join(x.out, r.Dir), x.file.Setup.Seed+uint64(r.Pair)
	return flyUntilBooted(ctx, path, func() error {
		shown := newProgress(x.env)
		result, err := x.fly(ctx, flight.Options{
			File: x.file.File, Text: x.text, Set: values, Kubeconfig: x.cluster.kubeconfig, Trust: x.cluster.trust, Out: path, Seed: &seed, MaxNeighbours: x.file.Setup.MaxNeighbours, Command: x.env.args,
			Versions: binaryVersions(), Log: x.env.newLogger(), Status: shown.showStatus, StatusEvery: shown.redrawInterval(),
		})
		shown.clearLine()
		if err == nil && (errors.Is(result.Err, flight.ErrBoot) || errors.Is(result.Err, flight.ErrNoRecords)) {
			err = fmt.Errorf("%w\nrun directory: %s", result.Err, result.Dir)
		}
		return err
	}, func(error) {}) // the reason of the last one is kept with the run
}

// keepRun adds a run to the search and says what became of it.
func (x *bisecting) keepRun(r bisect.Run, found compare.Run) {
	s := &x.file.Search
	if r.State == bisect.Measured {
		s.AddRun(r, found, x.file.Setup.Patterns)
		r = s.Runs[len(s.Runs)-1]
	} else {
		s.Runs = append(s.Runs, r)
	}
	if r.State != bisect.Measured {
		fmt.Fprintf(x.env.stderr, "%s: %s\n", r.State, r.Reason)
		return
	}
	result := bisect.Conclude(s)
	if v, ok := r.Values[result.Measure]; ok {
		m := s.Measures[result.Measure]
		fmt.Fprintf(x.env.stderr, "%s %s (%.0f s)\n", m.Title, unit.Text(v, m.Unit), r.Seconds)
	}
}

// saveState leaves the state and the page in the folder, each in one step.
func (x *bisecting) saveState() error {
	x.file.Result = bisect.Conclude(&x.file.Search)
	dir := record.Dir(x.out)
	if err := dir.WriteJSON(bisect.StateFile, x.file); err != nil {
		return err
	}
	var page strings.Builder
	if err := x.file.Write(&page, true); err != nil {
		return err
	}
	return dir.Write("bisect.md", []byte(page.String()))
}

// printResult prints the result: 0 for a cause, 1 where there is none to find, 2 for an open end.
func (x *bisecting) printResult(output string) error {
	if len(x.file.Search.Runs) == 0 {
		return verdictError{slo.Unknown}
	}
	if err := x.saveState(); err != nil { // also where the number of runs has changed
		return err
	}
	if err := printAs(x.env, output, x.file); err != nil {
		return err
	}
	fmt.Fprintf(x.env.stderr, "search: %s\n", x.out)
	switch answer := x.file.Result.Answer; {
	case slices.Contains([]bisect.Answer{bisect.One, bisect.Together, bisect.Interval}, answer):
		return nil
	case answer == bisect.Nothing, answer == bisect.Reversed:
		return verdictError{slo.Fail}
	}
	return verdictError{slo.Unknown}
}

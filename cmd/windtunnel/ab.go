package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// flyFunc is flight.Run.
type flyFunc func(context.Context, flight.Options) (flight.Result, error)

// abVerb flies a scenario with two values of one parameter in turns, and
// compares them.
func abVerb(env *environment) *cobra.Command {
	var flags compareFlags
	var a, b []string
	var out string
	var cluster clusterFlags
	var set []string
	var repeats int
	var seed uint64
	verb := &cobra.Command{
		Use:   "ab SCENARIO --a NAME=X --b NAME=Y",
		Short: "Run two values of one parameter alternately and compare them",
		Long: "ab runs the scenario with NAME=X and NAME=Y in the order A B B A A B B A ..., each run on a\n" +
			"fresh control plane, so that a drift of the machine favors neither side. Both runs of a\n" +
			"pair have the same seed. ab retries a run whose control plane does not start, then leaves\n" +
			"it out by name. The same command resumes an experiment that was stopped.",
		Example: "  windtunnel ab examples/density.yaml --a rate=50 --b rate=100 --repeats 10 --fail-above 5%",
		Args:    cobra.ExactArgs(1),
	}
	flags.addFlags(verb)
	verb.Flags().StringArrayVar(&a, "a", nil, "parameter of side A, as `NAME=VALUE`")
	verb.Flags().StringArrayVar(&b, "b", nil, "the same parameter of side B, as `NAME=VALUE`")
	verb.Flags().IntVar(&repeats, "repeats", 10, "`NUMBER` of runs of each side")
	verb.Flags().StringArrayVar(&set, "set", nil, "set a parameter of both sides, as `NAME=VALUE`; repeatable")
	verb.Flags().StringVar(&out, "out", "", "`DIR` for all runs (default runs/SCENARIO/ab-A-B)")
	cluster.addFlags(verb, "test the cluster of this kubeconfig `FILE` instead of fresh control planes; each run waits until preflight finds the cluster clean")
	var others neighbours
	others.addFlag(verb)
	verb.Flags().Uint64Var(&seed, "seed", 0, "`SEED` of the first pair; each further pair has the next one (default: the scenario's)")
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.compareOptions()
		if err := errors.Join(err, cluster.checkFlags()); err != nil {
			return err
		}
		arms := &arms{file: args[0], repeats: repeats, out: out, cluster: cluster, others: float64(others), options: options, env: env, fly: calibrated(flight.Run)}
		if len(a) != 1 || len(b) != 1 {
			return errors.New("ab: want one --a and one --b, two values of one parameter")
		}
		if err := arms.checkInput(a[0], b[0], set); err != nil {
			return err
		}
		if cmd.Flags().Changed("seed") {
			arms.seed = seed
		}
		ctx, cancel := env.flightContext(cmd.Context())
		defer cancel()
		return arms.flyTurns(ctx, &flags)
	}
	return verb
}

// arms is an experiment of two arms, or of several.
type arms struct {
	file    string
	name    string              // of the parameter
	names   []string            // of the arms, with which their folders begin; empty: a and b
	set     []map[string]string // parameters of A and B
	values  []map[string]any    // in force, defaults included
	text    string              // of the scenario
	seed    uint64              // of the first pair
	repeats int
	out     string

	cluster clusterFlags // without a kubeconfig: a fresh plane for each run
	others  float64      // share of this machine that other processes may take; 0: the default
	options compare.Options
	env     *environment
	fly     flyFunc

	kept int // runs that can be compared
	lost int // runs in a row that could not be flown
}

// checkInput checks the input, so that a faulty arm is known before the first run.
func (x *arms) checkInput(a, b string, set []string) error {
	raw, err := scenario.Read(x.file)
	if err != nil {
		return err
	}
	x.text = string(raw)
	var scenarios [2]*scenario.Scenario
	for i, one := range []string{a, b} {
		name, value, ok := strings.Cut(one, "=")
		if !ok || name == "" {
			return fmt.Errorf("--%c %q: want name=value, the value of a parameter in these runs", "ab"[i], one)
		}
		if i > 0 && name != x.name {
			return fmt.Errorf("--a %s --b %s: want two values of one parameter", a, b)
		}
		x.name = name
		values, err := parseSet(set)
		if err != nil {
			return err
		}
		if _, twice := values[name]; twice {
			return fmt.Errorf("--set %s: the arms set it", name)
		}
		values[name] = value
		sc, err := scenario.Parse(x.file, raw, values)
		if err != nil {
			return err
		}
		if err := sc.CheckSet(values); err != nil {
			return err
		}
		if err := x.addArm(values, sc); err != nil {
			return err
		}
		x.seed, scenarios[i] = sc.Seed, sc
		if i == 0 {
			x.env.printNotice(sc.Warnings...)
		}
		if x.out == "" && i > 0 {
			x.out = filepath.Join("runs", sc.Name, "ab-"+fileName(a)+"-"+fileName(b))
		}
	}
	if a == b {
		x.env.newLogger().Warn("both sides are the same: what is found is chance")
	}
	if err := x.checkRepeats(); err != nil {
		return err
	}
	x.options.NameA, x.options.NameB, x.options.Seed = a, b, x.seed
	x.options.Asked = askedDifferences(scenarios[0], scenarios[1])
	return nil
}

// addArm adds an arm with the parameters that are set; sc is the scenario with them.
func (x *arms) addArm(set map[string]string, sc *scenario.Scenario) error {
	values, err := asSaved(flight.KeptParameters(sc.Values))
	x.set, x.values = append(x.set, set), append(x.values, values)
	return err
}

// checkRepeats says before the first flight that so few runs will show nothing; a
// gate that could only be unknown is refused.
func (x *arms) checkRepeats() error {
	switch {
	case x.repeats < 1:
		return fmt.Errorf("--repeats %d: want at least 1", x.repeats)
	case x.repeats >= compare.MinRuns():
		return nil
	case x.options.FailAbove > 0:
		return fmt.Errorf("--repeats %d: no measure can be shown to be worse, so that --fail-above could only end unknown: %s", x.repeats, compare.WouldDo())
	}
	x.env.printNotice(fmt.Sprintf("--repeats %d cannot show any difference: %s", x.repeats, compare.WouldDo()))
	return nil
}

// asSaved returns parameters as they are read from a manifest.
func asSaved(parameters map[string]any) (out map[string]any, err error) {
	raw, err := json.Marshal(parameters)
	if err != nil {
		return nil, fmt.Errorf("encode parameters: %w", err)
	}
	return out, json.Unmarshal(raw, &out)
}

// fileName makes a part of a folder's name of an arm.
func fileName(arm string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '=' {
			return c
		}
		return '_'
	}, arm)
}

// turn is one run of the experiment.
type turn struct{ arm, pair int }

// turnOrder is A B B A A B B A ...: what drifts in the machine hits both sides alike.
func turnOrder(repeats int) []turn {
	var out []turn
	for pair := range repeats {
		first := pair % 2
		out = append(out, turn{first, pair}, turn{1 - first, pair})
	}
	return out
}

func (x *arms) runDir(t turn) string {
	name := string(rune('a' + t.arm))
	if len(x.names) > 0 {
		name = fileName(x.names[t.arm])
	}
	return filepath.Join(x.out, fmt.Sprintf("%s-%02d", name, t.pair+1))
}

// flyTurns flies what is not there yet, and compares what there is.
func (x *arms) flyTurns(ctx context.Context, flags *compareFlags) error {
	unlock, err := lockFolder(x.out)
	if err != nil {
		return err
	}
	defer unlock()
	flown, stopped, err := x.flyAll(ctx, turnOrder(x.repeats))
	if err != nil {
		return err
	}
	return x.compareFlown(flown, stopped, flags)
}

// flyAll flies of these turns what is not there yet, and returns what there is of each arm,
// and whether somebody or something ended it before all was flown.
func (x *arms) flyAll(ctx context.Context, turns []turn) (flown [][]compare.Run, stopped bool, err error) {
	flown = make([][]compare.Run, len(x.set))
	for i, t := range turns {
		r, there, err := x.openEarlier(t)
		if err != nil {
			return flown, stopped, err
		}
		if !there {
			if stopped || ctx.Err() != nil {
				stopped = true
				continue // later ones may be there
			}
			fmt.Fprintf(x.env.stderr, "run %d of %d: %s\n", i+1, len(turns), strings.TrimPrefix(fmt.Sprintf("%s, pair %d", x.armName(t), t.pair+1), ", "))
			if r, there, err = x.flyAndOpen(ctx, t); err != nil {
				return flown, stopped, err
			}
			stopped = ctx.Err() != nil || x.lost >= maxLost
		}
		if there {
			flown[t.arm] = append(flown[t.arm], r)
		}
	}
	return flown, stopped, nil
}

// compareFlown compares what there is. Runs that are missing because somebody or
// something ended the experiment make its verdict unknown.
func (x *arms) compareFlown(flown [][]compare.Run, stopped bool, flags *compareFlags) error {
	if stopped {
		fmt.Fprintf(x.env.stderr, "not all runs were flown: the same command goes on from here: %s\n", x.out)
	}
	c, err := compare.Compare(flown[0], flown[1], x.options)
	if err != nil {
		if stopped {
			fmt.Fprintln(x.env.stderr, err)
			return verdictError{slo.Unknown}
		}
		return err
	}
	if err := x.saveComparison(c); err != nil {
		return err
	}
	if err := flags.writePage(flown, []*compare.Comparison{c}); err != nil {
		return err
	}
	flags.where = ", as do comparison.txt and .json in " + x.out
	if err := flags.printComparison(x.env, c); err != nil || !stopped {
		return err
	}
	return verdictError{slo.Unknown}
}

func (x *arms) armName(t turn) string {
	if len(x.names) > 0 {
		return x.names[t.arm]
	}
	return [2]string{x.options.NameA, x.options.NameB}[t.arm]
}

// maxLost is how many runs in a row may fail to be flown, each tried several
// times, before the experiment ends: then the machine is at fault.
const maxLost = 2

// flyAndOpen flies a run and opens it. One that cannot be flown is tried again; then
// it is left out by name and the experiment goes on, unless nothing was flown
// yet: what is at fault is then the input or the machine. A plane that died in
// the run is a result of its arm, which the comparison names.
func (x *arms) flyAndOpen(ctx context.Context, t turn) (r compare.Run, there bool, err error) {
	for n := 1; ; n++ {
		err = x.flyTurn(ctx, t)
		if err == nil || ctx.Err() != nil || errors.Is(err, flight.ErrNoRecords) {
			break
		}
		fmt.Fprintf(x.env.stderr, "the run could not be flown: %v\n", err)
		if n == tries {
			break
		}
		if err := moveAside(x.runDir(t)); err != nil {
			return r, false, err
		}
	}
	switch {
	case err != nil && ctx.Err() == nil && x.kept == 0:
		return r, false, err
	case err != nil && ctx.Err() == nil:
		x.lost++
		if errors.Is(err, flight.ErrNoRecords) {
			x.lost = maxLost // the next one could not be recorded either
		}
		first, _, _ := strings.Cut(err.Error(), "\n")
		x.options.Notes = append(x.options.Notes, fmt.Sprintf("%s could not be flown: %s.", x.runDir(t), strings.TrimSuffix(first, ".")))
		return r, false, nil
	}
	if r, err = compare.Open(x.runDir(t)); err != nil {
		if ctx.Err() != nil {
			return r, false, nil // stopped before there was anything
		}
		return r, false, err
	}
	x.lost = 0
	x.kept++
	return r, true, nil
}

// flyTurn flies one run. An error says why there is none.
func (x *arms) flyTurn(ctx context.Context, t turn) error {
	seed := x.seed + uint64(t.pair)
	shown := newProgress(x.env)
	result, err := x.fly(ctx, flight.Options{
		File: x.file, Text: []byte(x.text), Set: x.set[t.arm], Kubeconfig: x.cluster.kubeconfig, Trust: x.cluster.trust, Out: x.runDir(t), Seed: &seed, MaxNeighbours: x.others, Command: x.env.args,
		Versions: binaryVersions(), Log: x.env.newLogger(), Status: shown.showStatus, StatusEvery: shown.redrawInterval(),
	})
	shown.clearLine()
	switch {
	case err != nil:
		return err
	case errors.Is(result.Err, flight.ErrBoot), errors.Is(result.Err, flight.ErrNoRecords):
		return fmt.Errorf("%w\nrun directory: %s", result.Err, result.Dir)
	}
	return nil
}

// openEarlier returns a run that an earlier call finished. One that did not come to
// its end, or of which a crash left only a part, is moved aside to be flown again;
// one of another experiment is an error.
func (x *arms) openEarlier(t turn) (r compare.Run, there bool, err error) {
	path := x.runDir(t)
	if entries, err := os.ReadDir(path); err != nil || len(entries) == 0 {
		return r, false, nil // CreateDir says what is wrong with it, if anything
	}
	r, err = compare.Open(path)
	var cut *json.SyntaxError
	if err != nil && !errors.Is(err, record.ErrNotRun) && !errors.As(err, &cut) {
		return r, false, err
	}
	if err == nil && (r.Scenario != x.text || !reflect.DeepEqual(r.Manifest.Parameters, x.values[t.arm]) || r.Manifest.Seed != x.seed+uint64(t.pair) || r.Manifest.MaxNeighbours != x.others) {
		return r, false, fmt.Errorf("%s: it is a run of another scenario, or with other parameters, another seed or another --max-neighbours; give another --out", path)
	}
	if err == nil && r.Unfit() == "" {
		x.kept++
		return r, true, nil
	}
	return r, false, moveAside(path)
}

// saveComparison leaves the comparison beside the runs.
func (x *arms) saveComparison(c *compare.Comparison) error {
	dir := record.Dir(x.out)
	for name, write := range map[string]func(io.Writer) error{"comparison.json": c.JSON, "comparison.md": c.Markdown, "comparison.txt": c.Text} {
		var out strings.Builder
		if err := write(&out); err != nil {
			return err
		}
		if err := dir.Write(name, []byte(out.String())); err != nil {
			return err
		}
	}
	return nil
}

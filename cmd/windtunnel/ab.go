package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/compare"
	"github.com/windtunnel/windtunnel/experiment"
	"github.com/windtunnel/windtunnel/record"
	"github.com/windtunnel/windtunnel/scenario"
	"github.com/windtunnel/windtunnel/slo"
)

// flight is experiment.Run.
type flight func(context.Context, experiment.Options) (experiment.Result, error)

// abVerb flies a scenario with two values of one parameter in turns, and
// compares them.
func abVerb(env *environment) *cobra.Command {
	var flags compareFlags
	var a, b, out string
	var set []string
	var repeats int
	var seed uint64
	verb := &cobra.Command{
		Use:   "ab SCENARIO --a NAME=X --b NAME=Y",
		Short: "Fly two values of one parameter in turns, each run on a fresh plane, and compare them",
		Long: "ab flies the scenario with NAME=X and NAME=Y in the order A B B A A B B A ..., so that a\n" +
			"machine that grows slower or faster favours neither. Both runs of a pair have one seed.\n" +
			"The same command goes on where an earlier one was stopped.",
		Example: "  windtunnel ab examples/density.yaml --a rate=50 --b rate=100 --repeats 10 --fail-above 5%",
		Args:    cobra.ExactArgs(1),
	}
	flags.add(verb)
	verb.Flags().StringVar(&a, "a", "", "the parameter in A, `name=value`")
	verb.Flags().StringVar(&b, "b", "", "the same parameter in B, `name=value`")
	verb.Flags().IntVar(&repeats, "repeats", 10, "runs of each side")
	verb.Flags().StringArrayVar(&set, "set", nil, "a parameter of both sides, `name=value`; repeatable")
	verb.Flags().StringVar(&out, "out", "", "`directory` of all runs; default runs/SCENARIO/ab-A-B")
	verb.Flags().Uint64Var(&seed, "seed", 0, "of the first pair, in place of the scenario's; each further pair has the next")
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.options()
		if err != nil {
			return err
		}
		arms := &arms{file: args[0], repeats: repeats, out: out, options: options, env: env, fly: experiment.Run}
		if err := arms.prepare(a, b, set); err != nil {
			return err
		}
		if cmd.Flags().Changed("seed") {
			arms.seed = seed
		}
		ctx, cancel := env.interruptible(cmd.Context(),
			"interrupted: saving what was measured and cleaning up; once more ends at once",
			func() { os.Exit(exitUnknown) }) // the keeper cleans up after us
		defer cancel()
		return arms.run(ctx, &flags)
	}
	return verb
}

// arms is an experiment of two arms.
type arms struct {
	file    string
	name    string               // of the parameter
	set     [2]map[string]string // parameters of A and B
	values  [2]map[string]any    // in force, defaults included
	text    string               // of the scenario
	seed    uint64               // of the first pair
	repeats int
	out     string
	options compare.Options
	env     *environment
	fly     flight
}

// prepare checks the input, so that a faulty arm is known before the first run.
func (x *arms) prepare(a, b string, set []string) error {
	for i, one := range []string{a, b} {
		name, value, ok := strings.Cut(one, "=")
		if !ok || name == "" {
			return fmt.Errorf("--%c %s: want name=value", "ab"[i], one)
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
		sc, err := scenario.Load(x.file, values)
		if err != nil {
			return err
		}
		if x.values[i], err = asSaved(sc.Values); err != nil {
			return err
		}
		x.set[i], x.seed = values, sc.Seed
		if x.out == "" && i > 0 {
			x.out = filepath.Join("runs", sc.Name, "ab-"+fileName(a)+"-"+fileName(b))
		}
	}
	if a == b {
		x.env.logger().Warn("both sides are alike: what is found is chance")
	}
	if x.repeats < 1 {
		return fmt.Errorf("--repeats %d: want at least 1", x.repeats)
	}
	raw, err := os.ReadFile(x.file)
	if err != nil {
		return fmt.Errorf("read scenario: %w", err)
	}
	x.text = string(raw)
	x.options.NameA, x.options.NameB, x.options.Seed = a, b, x.seed
	x.options.Asked = []string{"parameter " + x.name}
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

// order is A B B A A B B A ...: what drifts in the machine hits both sides alike.
func order(repeats int) []turn {
	var out []turn
	for pair := range repeats {
		first := pair % 2
		out = append(out, turn{first, pair}, turn{1 - first, pair})
	}
	return out
}

func (x *arms) dir(t turn) string {
	return filepath.Join(x.out, fmt.Sprintf("%c-%02d", "ab"[t.arm], t.pair+1))
}

// run flies what is not there yet, and compares what there is.
func (x *arms) run(ctx context.Context, flags *compareFlags) error {
	turns := order(x.repeats)
	var flown [2][]compare.Run
	stopped := false
	for i, t := range turns {
		r, there, err := x.kept(t)
		if err != nil {
			return err
		}
		if !there {
			if stopped || ctx.Err() != nil {
				stopped = true
				continue // later ones may be there
			}
			fmt.Fprintf(x.env.stderr, "run %d of %d: %s, pair %d\n", i+1, len(turns), x.arm(t), t.pair+1)
			if err := x.flyTurn(ctx, t); errors.Is(err, experiment.ErrInterrupted) {
				stopped = true
			} else if err != nil {
				return err
			}
			if r, err = compare.Open(x.dir(t), experiment.Judge); err != nil {
				return err
			}
		}
		flown[t.arm] = append(flown[t.arm], r)
	}
	c, err := compare.Compare(flown[0], flown[1], x.options)
	if err != nil {
		if stopped {
			fmt.Fprintln(x.env.stderr, err)
			return verdictError{slo.Unknown}
		}
		return err
	}
	if err := x.save(c); err != nil {
		return err
	}
	if err := flags.print(x.env, c); err != nil || !stopped {
		return err
	}
	return verdictError{slo.Unknown}
}

func (x *arms) arm(t turn) string { return [2]string{x.options.NameA, x.options.NameB}[t.arm] }

// flyTurn flies one run. It returns why the experiment ends, if it does: a
// plane that did not start, or an interruption. A plane that died in the run is
// a result of its arm, which the comparison names.
func (x *arms) flyTurn(ctx context.Context, t turn) error {
	seed := x.seed + uint64(t.pair)
	live := newLive(x.env)
	result, err := x.fly(ctx, experiment.Options{
		File: x.file, Set: x.set[t.arm], Out: x.dir(t), Seed: &seed, Command: x.env.args,
		Versions: versions(), Log: x.env.logger(), Status: live.show, StatusEvery: live.every(),
	})
	live.end()
	if err != nil {
		return err
	}
	switch {
	case errors.Is(result.Err, experiment.ErrInterrupted):
		return result.Err
	case errors.Is(result.Err, experiment.ErrBoot), errors.Is(result.Err, experiment.ErrNoRecords):
		return fmt.Errorf("%w\nrun directory: %s", result.Err, result.Dir)
	}
	return nil
}

// kept returns a run that an earlier call finished. One that did not come to
// its end is moved aside to be flown again; one of another experiment is an error.
func (x *arms) kept(t turn) (r compare.Run, there bool, err error) {
	path := x.dir(t)
	if entries, err := os.ReadDir(path); err != nil || len(entries) == 0 {
		return r, false, nil // CreateDir says what is wrong with it, if anything
	}
	r, err = compare.Open(path, experiment.Judge)
	if err != nil && !errors.Is(err, record.ErrNotRun) {
		return r, false, err
	}
	if err == nil && (r.Scenario != x.text || !reflect.DeepEqual(r.Manifest.Parameters, x.values[t.arm]) || r.Manifest.Seed != x.seed+uint64(t.pair)) {
		return r, false, fmt.Errorf("%s: it is a run of another scenario, or with other parameters or another seed; give another --out", path)
	}
	if err == nil && r.Unfit() == "" {
		return r, true, nil
	}
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s-unfinished-%d", path, n)
		if _, err := os.Lstat(aside); errors.Is(err, os.ErrNotExist) {
			return r, false, os.Rename(path, aside)
		}
	}
}

// save leaves the comparison beside the runs.
func (x *arms) save(c *compare.Comparison) error {
	var whole, markdown strings.Builder
	if err := errors.Join(c.JSON(&whole), c.Markdown(&markdown)); err != nil {
		return err
	}
	dir := record.Dir(x.out)
	return errors.Join(dir.Write("comparison.json", []byte(whole.String())), dir.Write("comparison.md", []byte(markdown.String())))
}

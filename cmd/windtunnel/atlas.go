package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/examples"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/opinion/atlas"
	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// atlasExample is the scenario that atlas runs unless another is given.
const atlasExample = "atlas"

// atlasVerb measures every feature gate.
func atlasVerb(env *environment) *cobra.Command {
	x := &atlasing{env: env, fly: flight.Run}
	var set, patterns []string
	var output, stage string
	var seed uint64
	var plan bool
	var others neighbours
	verb := &cobra.Command{
		Use:   "atlas [SCENARIO]",
		Short: "Measure what each alpha and beta feature gate costs",
		Long: "atlas runs the scenario (default: the example atlas) six times as it is, then twice with each\n" +
			"gate turned, on all components that know the gate. If a counter moves, it runs five fresh pairs\n" +
			"with the gate off and on, and compares latency, CPU and memory too. The directory contains\n" +
			"atlas.json, atlas.md and one page for each gate. The same command resumes an atlas that was\n" +
			"stopped. --plan lists the gates and says how long it takes.",
		Example: "  windtunnel atlas --plan\n  windtunnel atlas --component kube-scheduler --gate 'Scheduler*'",
		Args:    cobra.MaximumNArgs(1),
	}
	flags := verb.Flags()
	flags.StringSliceVar(&x.components, "component", []string{component.APIServer, component.ControllerManager, component.Scheduler}, "turn the gates of this `COMPONENT`, where it knows them; repeatable")
	flags.StringSliceVar(&patterns, "gate", nil, "only gates whose name matches `PATTERN`; * matches any text; repeatable")
	flags.StringVar(&stage, "stage", "", "only gates of this `STAGE`: alpha or beta")
	flags.BoolVar(&plan, "plan", false, "list the gates and the time that they take; start no control plane")
	flags.StringArrayVar(&set, "set", nil, "set a parameter or a field of all runs, as `NAME=VALUE`; repeatable")
	flags.StringVar(&x.out, "out", "", "`DIR` for the atlas (default runs/SCENARIO/gates)")
	flags.Uint64Var(&seed, "seed", 0, "`SEED` of the first run of each side; each further one has the next (default: the scenario's)")
	others.addFlag(verb)
	addOutput(verb, &output, outputForms()...)
	standAlone(verb, []string{"plan"}, "output")
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(wantOneOf("--output", output, outputForms()...), wantOneOf("--stage", cmp.Or(stage, "beta"), "alpha", "beta")); err != nil {
			return err
		}
		x.file.Setup.MaxNeighbours = float64(others)
		if err := x.checkInput(cmd.Context(), args, set); err != nil {
			return err
		}
		if err := x.chooseGates(patterns, stage); err != nil {
			return err
		}
		if cmd.Flags().Changed("seed") {
			x.file.Setup.Seed = seed
		}
		if plan {
			return x.printPlan()
		}
		ctx, cancel := env.flightContext(cmd.Context())
		defer cancel()
		return x.flyAtlas(ctx, output)
	}
	return verb
}

// atlasing is an atlas under way.
type atlasing struct {
	out, name  string
	text       []byte // of the scenario: all runs are of one
	set        map[string]string
	components []string
	own        map[string]string // gates that the scenario sets itself, by component
	gates      []atlas.Gate
	defaults   []compare.Run
	file       atlas.File
	env        *environment
	fly        flyFunc
}

// checkInput reads the scenario and asks the components for their gates.
func (x *atlasing) checkInput(ctx context.Context, args, set []string) (err error) {
	if x.set, err = parseSet(set); err != nil {
		return err
	}
	x.name = atlasExample + ".yaml"
	if len(args) > 0 {
		x.name = args[0]
		x.text, err = scenario.Read(x.name)
	} else {
		x.text, err = examples.Read(atlasExample)
	}
	if err != nil {
		return err
	}
	sc, err := scenario.Parse(x.name, x.text, x.set)
	if err == nil {
		err = sc.CheckSet(x.set)
	}
	if err != nil {
		return err
	}
	x.env.printNotice(sc.Warnings...)
	if sc.Plane.Binaries != "" {
		return fmt.Errorf("%s: plane.binaries: atlas asks a release for its gates; name plane.release instead", x.name)
	}
	x.own = map[string]string{}
	for _, name := range x.components {
		if !slices.Contains(component.Names(), name) {
			return fmt.Errorf("--component %s: want one of %s", name, strings.Join(component.Names(), ", "))
		}
		x.own[name] = sc.Plane.Components[name].Flags["feature-gates"]
	}
	if x.out == "" {
		x.out = filepath.Join("runs", sc.Name, "gates")
	}
	made := binaryVersions()
	tool, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own executable: %w", err)
	}
	p, err := release.Find(release.Wanted{Kubernetes: sc.Plane.Release, Etcd: sc.Plane.Etcd}, tool)
	if err != nil {
		return err
	}
	maps.Copy(made, p.Versions())
	slices.Sort(x.components)
	x.file.Format = atlas.StateFormat
	x.file.Setup = atlas.Setup{Scenario: sc.Name, Text: fmt.Sprintf("%x", sha256.Sum256(x.text)), Set: x.set, Components: x.components, Seed: sc.Seed,
		Machine: usage.Machine(), Versions: made, MaxNeighbours: x.file.Setup.MaxNeighbours}
	return x.askGates(ctx, p)
}

// askGates asks the components of a release for the gates that they know.
func (x *atlasing) askGates(ctx context.Context, p release.Plane) (err error) {
	var all [][]atlas.Gate
	for _, name := range x.components {
		help, err := release.AskHelp(ctx, p, name)
		if err != nil {
			return err
		}
		known := atlas.ParseHelp(name, help)
		if len(known) == 0 {
			return fmt.Errorf("the help of %s %s names no feature gates", name, p.Kubernetes)
		}
		all = append(all, known)
	}
	x.gates, err = atlas.Merge(all...)
	return err
}

// chooseGates keeps the gates that are asked for.
func (x *atlasing) chooseGates(patterns []string, stage string) error {
	for _, pattern := range patterns {
		if _, err := filepath.Match(pattern, ""); err != nil {
			return fmt.Errorf("--gate %s: %w", pattern, err)
		}
		if !slices.ContainsFunc(x.gates, func(g atlas.Gate) bool { return matches(pattern, g.Name) }) {
			return fmt.Errorf("--gate %s: no component knows such an alpha or beta gate: it may be unknown, generally available, or locked", pattern)
		}
	}
	x.gates = slices.DeleteFunc(x.gates, func(g atlas.Gate) bool {
		return stage != "" && g.Stage != stage || len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p string) bool { return matches(p, g.Name) })
	})
	if len(x.gates) == 0 {
		return fmt.Errorf("--stage %s: none of these gates has this stage", stage)
	}
	x.file.Asked = len(x.gates)
	return nil
}

func matches(pattern, name string) bool {
	ok, _ := filepath.Match(pattern, name) // checked before
	return ok
}

// side makes the parameters of the runs with a gate off or on; with are other gates, as
// NAME=VALUE, that are turned with it.
func (x *atlasing) side(g atlas.Gate, on bool, with []string) map[string]string {
	out := maps.Clone(x.set)
	value := fmt.Sprintf("%s=%t", g.Name, on)
	if on != g.Default {
		value = strings.Join(append([]string{value}, with...), ",")
	}
	for _, name := range g.Components {
		out["plane.components."+name+".flags.feature-gates"] = strings.TrimPrefix(x.own[name]+","+value, ",")
	}
	return out
}

// armsOf prepares the runs of two sides in a folder of the atlas.
func (x *atlasing) armsOf(folder string, a, b map[string]string) (*arms, error) {
	out := &arms{
		file: x.name, text: string(x.text), seed: x.file.Setup.Seed, out: filepath.Join(x.out, folder),
		others: x.file.Setup.MaxNeighbours, env: x.env, fly: x.fly,
	}
	out.options = compare.Options{NameA: "off", NameB: "on", Seed: x.file.Setup.Seed}
	for _, set := range []map[string]string{a, b} {
		sc, err := scenario.Parse(x.name, x.text, set)
		if err != nil {
			return nil, err
		}
		if err := out.addArm(set, sc); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// estimate returns how long a run takes: as measured, or by the scenario's plan.
func (x *atlasing) estimate() (time.Duration, error) {
	if x.file.Seconds > 0 {
		return time.Duration(x.file.Seconds * float64(time.Second)), nil
	}
	f, err := flight.Plan(flight.Options{File: x.name, Text: x.text, Set: x.set, Log: x.env.newLogger()})
	return f.Estimate.Duration + runOverhead, err
}

// runOverhead is about how long a control plane takes to boot, and a run to be judged, on two
// cores (experiments/0034).
const runOverhead = 15 * time.Second

// sayTime says how many runs there are and how long they may take.
func (x *atlasing) sayTime(w io.Writer) error {
	each, err := x.estimate()
	if err != nil {
		return err
	}
	least, most := atlas.Runs(len(x.gates))
	_, err = fmt.Fprintf(w, "%s, %d to %d runs of about %s: %s if no counter moves, at most %s\n", unit.Count(len(x.gates), "gates"), least, most, each.Round(time.Second),
		(time.Duration(least) * each).Round(time.Minute), (time.Duration(most) * each).Round(time.Minute))
	return err
}

func (x *atlasing) printPlan() error {
	for _, g := range x.gates {
		fmt.Fprintf(x.env.stdout, "%-5s default=%-5t %s (%s)\n", g.Stage, g.Default, g.Name, strings.Join(g.Components, ", "))
	}
	return x.sayTime(x.env.stdout)
}

// flyAtlas flies what is not there yet, until a person stops it.
func (x *atlasing) flyAtlas(ctx context.Context, output string) error {
	unlock, err := lockFolder(x.out)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := resumeFrom(x.out, atlas.StateFile, atlas.ReadFile, x.file.Resume); err != nil {
		return err
	}
	if err := errors.Join(x.sayTime(x.env.stderr), x.flyDefaults(ctx)); err != nil {
		return err
	}
	for i, g := range x.gates {
		if _, there := x.file.Find(g.Name); there || ctx.Err() != nil {
			continue
		}
		fmt.Fprintf(x.env.stderr, "gate %d of %d: %s\n", i+1, len(x.gates), g.Name)
		e, err := x.flyGate(ctx, g)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return fmt.Errorf("%w\nthe same command goes on from here: %s", err, x.out)
		}
		x.file.Entries = append(x.file.Entries, e)
		fmt.Fprintf(x.env.stderr, "%s: %s\n", g.Name, e.State)
		if err := errors.Join(x.savePage(e), x.saveState()); err != nil {
			return err
		}
	}
	return x.printResult(ctx, output)
}

// flyDefaults flies the scenario as it is, which tells how much like runs differ.
func (x *atlasing) flyDefaults(ctx context.Context) error {
	runs, err := x.armsOf("defaults", x.set, x.set)
	if err != nil {
		return err
	}
	var turns []turn
	for pair := range atlas.Defaults {
		turns = append(turns, turn{0, pair})
	}
	watch := clock.Start()
	flown, _, err := runs.flyAll(ctx, turns)
	if err != nil || ctx.Err() != nil {
		return err
	}
	x.defaults = fitRuns(flown[0])
	if len(x.defaults) < atlas.Defaults {
		return fmt.Errorf("%d of %d runs of the defaults came to their end: %s", len(x.defaults), atlas.Defaults, whyUnfit(flown[0], runs.options.Notes))
	}
	if x.file.Seconds == 0 {
		x.file.Seconds = watch.Now().Seconds() / atlas.Defaults
	}
	x.file.Defaults, x.file.Spread = atlas.Sums(x.defaults), atlas.Spread(x.defaults)
	return x.saveState()
}

func fitRuns(runs []compare.Run) []compare.Run {
	return slices.DeleteFunc(slices.Clone(runs), func(r compare.Run) bool { return r.Unfit() != "" || r.Facts == nil })
}

// whyUnfit says why runs are missing: the first reason.
func whyUnfit(runs []compare.Run, notes []string) string {
	for _, r := range runs {
		if why := r.Unfit(); why != "" {
			return r.Name + ": " + why
		}
	}
	return strings.Join(notes, " ")
}

// maxTogether is how often other gates are added that must be turned with one.
const maxTogether = 4

// flyGate flies a gate: turned, and where a counter moved off against on.
func (x *atlasing) flyGate(ctx context.Context, g atlas.Gate) (e atlas.Entry, err error) {
	e = atlas.Entry{Gate: g, Counters: []atlas.Moved{}, Costs: []atlas.Moved{}, NewKinds: []string{}}
	turned := 1
	if g.Default {
		turned = 0
	}
	var runs *arms
	var flown [][]compare.Run
	for range maxTogether {
		if runs, err = x.armsOf(filepath.Join("gates", g.Name), x.side(g, false, e.With), x.side(g, true, e.With)); err != nil {
			return e, err
		}
		flown, _, err = runs.flyAll(ctx, []turn{{turned, 0}, {turned, 1}})
		with := g.Together(fmt.Sprint(err))
		if !errors.Is(err, flight.ErrBoot) || len(with) == 0 || ctx.Err() != nil {
			break
		}
		e.With = append(e.With, with...)
		if err := moveAside(runs.runDir(turn{turned, 0})); err != nil {
			return e, err
		}
	}
	switch fit := fitRuns(flown[turned]); {
	case ctx.Err() != nil:
		return e, err
	case errors.Is(err, flight.ErrBoot):
		e.State, e.Reason = atlas.NotStarted, atlas.LastWords(err.Error())
		if atlas.SaysLocked(e.Reason) {
			e.State = atlas.Locked
		}
		return e, nil
	case err != nil:
		return e, err
	case len(fit) < atlas.Screened:
		e.State, e.Runs, e.Reason = atlas.Unknown, len(fit), whyUnfit(flown[turned], runs.options.Notes)
		return e, nil
	default:
		return e, x.screenGate(ctx, &e, runs, fit)
	}
}

// screenGate compares the runs of a turned gate with those of the defaults.
func (x *atlasing) screenGate(ctx context.Context, e *atlas.Entry, runs *arms, turned []compare.Run) error {
	e.State, e.Runs, e.Sums = atlas.Still, len(turned), atlas.Sums(turned)
	off, on := x.defaults, turned
	if e.Default {
		off, on = turned, x.defaults
	}
	e.NewKinds = append(e.NewKinds, atlas.NewKinds(off, on)...)
	if e.Counters = append(e.Counters, atlas.Screen(x.defaults, turned, e.Gate)...); len(e.Counters) == 0 {
		return nil
	}
	return x.measureCosts(ctx, e, runs)
}

// measureCosts flies fresh pairs of a gate off and on.
func (x *atlasing) measureCosts(ctx context.Context, e *atlas.Entry, runs *arms) error {
	fmt.Fprintf(x.env.stderr, "%s moved, such as %s\n", unit.Count(len(e.Counters), "counters"), e.Counters[0].Name)
	turns := turnOrder(atlas.Screened + atlas.Measured)[2*atlas.Screened:]
	flown, stopped, err := runs.flyAll(ctx, turns)
	if err != nil || ctx.Err() != nil {
		return err
	}
	off, on := fitRuns(flown[0]), fitRuns(flown[1])
	e.Runs += len(off) + len(on)
	if stopped || len(off) < atlas.Measured || len(on) < atlas.Measured {
		e.State, e.Reason = atlas.Unknown, "counters moved in two runs; the runs that measure costs came to no end: "+whyUnfit(slices.Concat(flown[0], flown[1]), runs.options.Notes)
		return nil
	}
	e.State = atlas.Movement
	if e.Counters = append([]atlas.Moved{}, atlas.Confirm(e.Counters, off, on)...); len(e.Counters) == 0 {
		e.State = atlas.Unshown
	}
	c, err := compare.Compare(off, on, runs.options)
	if err != nil {
		return err
	}
	e.Costs = append(e.Costs, atlas.Costs(c)...)
	return runs.saveComparison(c)
}

// savePage leaves the page of a gate in its folder.
func (x *atlasing) savePage(e atlas.Entry) error {
	folder := filepath.Join(x.out, "gates", e.Name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("page of %s: %w", e.Name, err)
	}
	return record.Dir(folder).Write("README.md", []byte(e.Page()))
}

// saveState leaves the state and the table in the folder.
func (x *atlasing) saveState() error {
	dir := record.Dir(x.out)
	if err := dir.WriteJSON(atlas.StateFile, x.file); err != nil {
		return err
	}
	var table strings.Builder
	if err := x.file.Write(&table, true); err != nil {
		return err
	}
	return dir.Write("atlas.md", []byte(table.String()))
}

// printResult prints the table: 2 if gates are missing.
func (x *atlasing) printResult(ctx context.Context, output string) error {
	if err := printAs(x.env, output, x.file); err != nil {
		return err
	}
	fmt.Fprintf(x.env.stderr, "atlas: %s\n", x.out)
	if ctx.Err() != nil {
		fmt.Fprintf(x.env.stderr, "stopped: the same command goes on from here: %s\n", x.out)
	}
	complete := !slices.ContainsFunc(x.gates, func(g atlas.Gate) bool {
		e, there := x.file.Find(g.Name)
		return !there || e.State == atlas.Unknown
	})
	if ctx.Err() != nil || !complete {
		return verdictError{slo.Unknown}
	}
	return nil
}

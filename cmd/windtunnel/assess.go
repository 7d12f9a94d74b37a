package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/opinion/assess"
	"github.com/windtunnel/windtunnel/internal/opinion/atlas"
	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/publish"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// assessVerb answers the scalability questions that a project is asked.
func assessVerb(env *environment) *cobra.Command {
	x := &assessing{env: env, fly: calibrated(flight.Run), asked: assess.Asked{}}
	var set, off, on, programs []string
	var output, key string
	var seed uint64
	var plan bool
	var others neighbours
	params := map[assess.Topic]*string{}
	verb := &cobra.Command{
		Use:   "assess operator|feature|release SCENARIO",
		Short: "Answer the scalability questions of a review with figures",
		Long: "assess runs a scenario with several sizes, rates, workers, limits and restarts, and answers the\n" +
			"questions of an operator's scalability page, of CNCF's general technical review (release) or,\n" +
			"with --off and --on, of a KEP (feature). It writes a page to paste, assess.json and a bundle\n" +
			"with claims for windtunnel verify. What was not measured is named with the reason. The same\n" +
			"command resumes where an earlier one was stopped. --plan says how long it takes.",
		Example: "  windtunnel assess operator scale.yaml --plan\n" +
			"  windtunnel assess operator scale.yaml --size-param websites=50,100,200 --workers-param workers=1,4\n" +
			"  windtunnel assess feature scale.yaml --off qps=50 --on qps=-1",
		Args: cobra.ExactArgs(2),
	}
	flags := verb.Flags()
	for topic, usage := range map[assess.Topic]string{
		assess.Size: "number of managed objects: `PARAMETER=VALUES`, separated by commas (default: the one that changes the number of created objects)",
		assess.Rate: "rate of changes, as `PARAMETER=VALUES` (default: a search over rate)", assess.Workers: "number of workers, as `PARAMETER=VALUES` (default: workers, threads, concurrency)",
		assess.Limiter: "client-side rate limit, as `PARAMETER=VALUES` (default: qps, limiter)", assess.Restart: "restart of the program, as `PARAMETER=VALUES` (default: restart)",
		assess.Resync: "time between resyncs, as `PARAMETER=VALUES` (default: resync)", assess.Webhook: "admission webhooks, as `PARAMETER=VALUES` (default: webhook, webhooks)",
	} {
		params[topic] = flags.String(string(topic)+"-param", "", usage)
	}
	flags.StringArrayVar(&off, "off", nil, "feature: parameter or field of the runs without it, as `NAME=VALUE`; repeatable")
	flags.StringArrayVar(&on, "on", nil, "feature: parameter or field of the runs with it, as `NAME=VALUE`; repeatable")
	flags.StringSliceVar(&programs, "program", nil, "assess this `PROGRAM`: a subject or component; repeatable (default: all subjects, or kube-apiserver)")
	flags.IntVar(&x.repeats, "repeats", 0, "`NUMBER` of runs of each point or side (default 2, feature 5)")
	flags.BoolVar(&plan, "plan", false, "list the runs and the time that they take; start no control plane")
	flags.StringArrayVar(&set, "set", nil, "set a parameter of all runs, as `NAME=VALUE`; repeatable")
	flags.StringVar(&x.out, "out", "", "`DIR` for the assessment (default runs/SCENARIO/assess-KIND)")
	flags.StringVar(&key, "key", "", "sign the bundle with this SSH private key `FILE` (Ed25519, without a passphrase)")
	flags.Uint64Var(&seed, "seed", 0, "`SEED` of the first run of each point; each repeat has the next one (default: the scenario's)")
	others.addFlag(verb)
	addOutput(verb, &output, outputForms()...)
	standAlone(verb, []string{"plan"}, "output", "key")
	verb.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err := errors.Join(wantOneOf("--output", output, outputForms()...), wantOneOf("assess", args[0], assess.Kinds()...)); err != nil {
			return err
		}
		if x.repeats < 0 || x.repeats == 0 && flags.Changed("repeats") {
			return fmt.Errorf("--repeats %d: want at least 1", x.repeats)
		}
		for _, topic := range assess.Topics() {
			x.asked[topic] = *params[topic]
			if x.asked[topic] != "" && args[0] == string(assess.Feature) {
				return fmt.Errorf("assess feature: --%s-param does nothing: it compares --off and --on", topic)
			}
		}
		x.file.Kind, x.name, x.others, x.file.Subject.Programs = assess.Kind(args[0]), args[1], float64(others), programs
		if x.publish.Key, err = readKey(key); err != nil {
			return err
		}
		if err := x.checkInput(set, off, on); err != nil {
			return err
		}
		if cmd.Flags().Changed("seed") {
			x.arms.seed, x.file.Subject.Seed = seed, seed
		}
		if err := x.sayPlan(env.stderr, plan); plan || err != nil {
			return err
		}
		ctx, cancel := env.flightContext(cmd.Context())
		defer cancel()
		return x.flyAssessment(ctx, output)
	}
	return verb
}

// assessing is an assessment under way.
type assessing struct {
	name, out string
	text      []byte // of the scenario: all runs are of one
	asked     assess.Asked
	repeats   int
	others    float64
	file      assess.File
	publish   publish.Options
	arms      *arms
	env       *environment
	fly       flyFunc
}

// checkInput reads the scenario and makes the plan.
func (x *assessing) checkInput(set, off, on []string) error {
	values, err := parseSet(set)
	if err != nil {
		return err
	}
	if x.text, err = scenario.Read(x.name); err != nil {
		return err
	}
	sc, err := scenario.Parse(x.name, x.text, values)
	if err != nil {
		return err
	}
	x.env.printNotice(sc.Warnings...)
	if x.out == "" {
		x.out = filepath.Join("runs", sc.Name, "assess-"+string(x.file.Kind))
	}
	f := &x.file
	var subjects []string
	for _, s := range sc.Subjects {
		subjects = append(subjects, s.Name)
	}
	for _, name := range f.Subject.Programs {
		of, _ := component.Of(name)
		if known := slices.Concat(subjects, component.Names()); !slices.Contains(known, of) {
			return fmt.Errorf("--program %s: want a subject of the scenario or a component: %s", name, strings.Join(known, ", "))
		}
	}
	if len(f.Subject.Programs) == 0 {
		f.Subject.Programs = subjects
	}
	if len(f.Subject.Programs) == 0 {
		f.Subject.Programs = []string{component.APIServer}
	}
	made, _ := versionsWithPlane()
	f.Format, f.Scenario, f.Set, f.Subject.Seed, f.Machine, f.Versions = assess.Format, sc.Name, values, sc.Seed, usage.Machine(), made
	f.LeftOut = []string{}
	x.arms = &arms{file: x.name, text: string(x.text), seed: sc.Seed, out: x.out, others: x.others, env: x.env, fly: x.fly}
	if f.Kind == assess.Feature {
		err = x.planSides(off, on)
	} else {
		err = x.planSweeps(sc, off, on)
	}
	if err != nil {
		return err
	}
	for _, arm := range f.Plan.Arms {
		if err := x.addArm(arm); err != nil {
			return err
		}
	}
	return nil
}

// addArm makes an arm of the plan one that can be flown.
func (x *assessing) addArm(arm assess.Arm) error {
	all := maps.Clone(x.file.Set)
	maps.Copy(all, arm.Set)
	sc, err := scenario.Parse(x.name, x.text, all)
	if err != nil {
		return err
	}
	if x.file.Kind != assess.Feature {
		x.arms.names = append(x.arms.names, arm.Name)
	}
	return cmp.Or(sc.CheckSet(all), x.arms.addArm(all, sc))
}

// planSweeps plans the runs of an operator or a release.
func (x *assessing) planSweeps(sc *scenario.Scenario, off, on []string) (err error) {
	if len(off)+len(on) > 0 {
		return fmt.Errorf("--off and --on are for assess %s", assess.Feature)
	}
	objects, err := x.objectsWith("", "")
	if err != nil {
		return err
	}
	x.file.Plan, err = assess.NewPlan(sc.Values, x.asked, max(1, cmp.Or(x.repeats, 2)), func(name, value string) bool {
		n, err := x.objectsWith(name, value)
		return err == nil && n > objects
	})
	return err
}

// objectsWith is how many objects the load creates if a parameter has a value.
func (x *assessing) objectsWith(name, value string) (int, error) {
	f, err := x.forecast(map[string]string{name: value})
	return f.Estimate.Objects, err
}

// forecast is the plan of a run with further parameters.
func (x *assessing) forecast(more map[string]string) (flight.Forecast, error) {
	set := maps.Clone(x.file.Set)
	maps.Copy(set, more)
	delete(set, "")
	return flight.Plan(flight.Options{File: x.name, Text: x.text, Set: set, Log: x.env.newLogger()})
}

// planSides plans the pairs of a feature.
func (x *assessing) planSides(off, on []string) error {
	without, err := parseSide("--off", off)
	with, onErr := parseSide("--on", on)
	if err := errors.Join(err, onErr); err != nil {
		return err
	}
	if len(without)+len(with) == 0 {
		return errors.New("assess feature: want --off NAME=VALUE, --on NAME=VALUE or both")
	}
	x.file.Plan = assess.Plan{Sweeps: []assess.Sweep{}, Repeats: max(1, cmp.Or(x.repeats, atlas.Measured)), Arms: []assess.Arm{{Name: "off", Set: without}, {Name: "on", Set: with}}}
	x.arms.options = compare.Options{NameA: "off", NameB: "on", Seed: x.arms.seed}
	x.arms.repeats = x.file.Plan.Repeats
	return x.arms.checkRepeats()
}

// sayPlan says which runs there are and how long they take; in full where that is asked for.
func (x *assessing) sayPlan(w io.Writer, full bool) error {
	var whole time.Duration
	p := x.file.Plan
	if full {
		w = x.env.stdout
	}
	for _, arm := range p.Arms {
		f, err := x.forecast(arm.Set)
		if err != nil {
			return err
		}
		each := f.Estimate.Duration + runOverhead
		whole += time.Duration(p.Repeats) * each
		if full {
			fmt.Fprintf(w, "%-30s %d x %s\n", arm.Name, p.Repeats, each.Round(time.Second))
		}
	}
	if full && x.file.Kind != assess.Feature {
		for _, t := range assess.Topics() {
			if _, ok := p.Sweep(t); !ok {
				fmt.Fprintf(w, "not varied: %s: the scenario has no parameter of the usual name and type; name one with --%s-param\n", t, t)
			}
		}
	}
	more := ""
	if p.Search != nil {
		more = fmt.Sprintf(", and then up to %s that search for the sustained %s", unit.Count(p.Search.MaxRuns, "runs"), p.Search.Axes[0].Name)
	}
	_, err := fmt.Fprintf(w, "%s: about %s%s, or longer if the program does not keep up\n", unit.Count(p.Runs(), "runs"), whole.Round(time.Second), more)
	return err
}

// flyAssessment flies what is not there yet, and answers from what there is.
func (x *assessing) flyAssessment(ctx context.Context, output string) error {
	unlock, err := lockFolder(x.out)
	if err != nil {
		return err
	}
	defer unlock()
	var turns []turn
	for _, t := range x.file.Plan.Turns() {
		turns = append(turns, turn{t[0], t[1]})
	}
	if x.file.Kind == assess.Feature {
		turns = turnOrder(x.file.Plan.Repeats)
	}
	flown, stopped, err := x.arms.flyAll(ctx, turns)
	if err != nil {
		return err
	}
	var all []assess.Observation
	if x.file.Kind != assess.Feature {
		if all, err = x.observe(flown); err == nil && !stopped {
			flown, all, stopped, err = x.searchRate(ctx, flown, all)
		}
		if err != nil {
			return err
		}
	}
	x.file.LeftOut = append(x.file.LeftOut, x.arms.options.Notes...)
	for _, r := range slices.Concat(flown...) {
		if why := r.Unfit(); why != "" {
			x.file.LeftOut = append(x.file.LeftOut, filepath.Base(r.Name)+": "+why)
			continue
		}
		x.file.Finished++
	}
	if x.file.Finished == 0 {
		fmt.Fprintf(x.env.stderr, "no run finished: %s\n", strings.Join(x.file.LeftOut, "; "))
		return verdictError{slo.Unknown}
	}
	if x.file.Kind != assess.Feature {
		x.answerSweeps(all)
	} else if err := x.answerFeature(flown); err != nil {
		return err
	}
	return x.saveAssessment(ctx, stopped, output)
}

// searchRate flies the rates that the runs so far make worth a look, until the sustained
// rate is found.
func (x *assessing) searchRate(ctx context.Context, flown [][]compare.Run, all []assess.Observation) ([][]compare.Run, []assess.Observation, bool, error) {
	for {
		arm, ok := x.file.Plan.NextRate(all)
		if !ok {
			return flown, all, false, nil
		}
		if arm == len(flown) {
			if err := x.addArm(x.file.Plan.Arms[arm]); err != nil {
				return flown, all, false, err
			}
			flown = append(flown, nil)
		}
		var turns []turn
		for repeat := range x.file.Plan.Repeats {
			turns = append(turns, turn{arm, repeat})
		}
		more, stopped, err := x.arms.flyAll(ctx, turns)
		if err != nil {
			return flown, all, false, err
		}
		flown[arm] = more[arm]
		one := make([][]compare.Run, len(flown))
		one[arm] = more[arm]
		seen, err := x.observe(one)
		all = append(all, seen...)
		if err != nil || stopped || len(seen) == 0 { // of runs that could not be flown nothing follows
			return flown, all, stopped, err
		}
	}
}

// observe reads runs by arm.
func (x *assessing) observe(flown [][]compare.Run) (all []assess.Observation, err error) {
	for arm, runs := range flown {
		for _, r := range runs {
			read, err := run.Open(r.Name)
			if err != nil {
				return nil, err
			}
			j, err := slo.Judge(read)
			if err != nil {
				return nil, err
			}
			r.Judgement.Rates = j.Rates
			all = append(all, assess.Observe(arm, r, read.Facts))
		}
	}
	return all, nil
}

// answerSweeps answers from the runs of an operator or a release.
func (x *assessing) answerSweeps(all []assess.Observation) {
	x.file.Noise = assess.Noise(all)
	x.file.Answers = assess.Answers(x.file.Plan, x.file.Subject, all)
	x.file.Claims = assess.Claims(x.file.Plan, x.file.Subject, all)
}

// answerFeature answers from pairs of runs.
func (x *assessing) answerFeature(flown [][]compare.Run) error {
	off, on := fitRuns(flown[0]), fitRuns(flown[1])
	c, err := compare.Compare(off, on, x.arms.options)
	if err != nil {
		return err
	}
	e := atlas.Compared(x.file.Scenario, off, on, c)
	var sides [2][]assess.Observation
	for i, runs := range [][]compare.Run{off, on} {
		for _, r := range runs {
			sides[i] = append(sides[i], assess.Observation{Run: r})
		}
	}
	x.file.Noise, x.file.Lengths = assess.Noise(slices.Concat(sides[:]...)), assess.Lengths(sides[0], sides[1])
	x.file.Feature, x.file.Claims = &e, assess.ChangeClaims(c)
	return x.arms.saveComparison(c)
}

// saveAssessment leaves bundle, figures and page, and prints the page: 2 if runs are missing.
func (x *assessing) saveAssessment(ctx context.Context, stopped bool, output string) error {
	dir := record.Dir(x.out)
	x.publish.Source, x.publish.Claims = x.out, assess.ClaimsFile(x.file.Claims)
	if err := dir.Write("claims.yaml", x.publish.Claims); err != nil {
		return err
	}
	said := *x.env
	said.stdout = x.env.stderr // the page is what is asked for
	r, err := said.publish(ctx, dir.File(assess.BundleFile), x.publish)
	switch {
	case err == nil:
		x.file.Level = publish.LevelSentence(r)
	case ctx.Err() != nil:
		stopped = true
		x.file.Level = "Level: measured. The runs are not in a bundle: it was interrupted."
	default:
		x.file.Level = "Level: measured. The runs are not in a bundle: " + strings.TrimSuffix(err.Error(), ".") + "."
	}
	if err := dir.WriteJSON(assess.StateFile, x.file); err != nil {
		return err
	}
	var page strings.Builder
	if err := x.file.Write(&page, true); err != nil {
		return err
	}
	if err := errors.Join(dir.Write(assess.PageFile, []byte(page.String())), printAs(x.env, output, x.file)); err != nil {
		return err
	}
	fmt.Fprintf(x.env.stderr, "assessment: %s\n", x.out)
	if stopped {
		fmt.Fprintf(x.env.stderr, "stopped: the same command goes on from here: %s\n", x.out)
	}
	if stopped || x.file.Finished < x.file.Plan.Runs() || err != nil {
		return verdictError{slo.Unknown}
	}
	return nil
}

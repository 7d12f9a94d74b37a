package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/publish"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// reproduceVerb flies a bundle again and holds the figures of both flights against each other.
func reproduceVerb(env *environment) *cobra.Command {
	x := &reproducing{env: env, fly: calibrated(flight.Run)}
	var signers []string
	var output, key string
	var exec bool
	var others neighbours
	verb := &cobra.Command{
		Use:   "reproduce BUNDLE",
		Short: "Run the experiment of a published bundle here and compare each claim",
		Long: "reproduce checks a bundle as verify does, runs its experiment with the same parameters, seeds\n" +
			"and releases, and says of each claim whether the figure agrees, differs, or cannot be told.\n" +
			"Counts must be equal. Times are expected to differ as the two machines do, which a short\n" +
			"calibration before and after each run measures. It exits with 0 if all claims agree, with 1 if one differs, and\n" +
			"with 2 otherwise. The same command resumes where an earlier one was stopped.",
		Example: "  windtunnel reproduce density.wtb --signer SHA256:jZ2qmQ7hYk3yKpLwQm1cZ8mC0y8v8kq1y4S1m2b7oXk\n" +
			"  windtunnel reproduce density.wtb --key ~/.ssh/id_ed25519 --add density-reproduced.wtb",
		Args: cobra.ExactArgs(1),
	}
	flags := verb.Flags()
	flags.StringArrayVar(&signers, "signer", nil, "accept the signature of this `KEY`: a fingerprint SHA256:..., or a file of public keys or allowed signers; repeatable")
	flags.IntVar(&x.repeats, "repeats", 0, "`NUMBER` of runs of each side (default: as many as were published, at least 5)")
	flags.StringVar(&x.file, "scenario", "", "take the scenario from this `FILE`, beside which the files are that it names; its text must be that of the bundle")
	flags.BoolVar(&exec, "allow-exec", false, "allow the bundle's scenario to run programs and to let the plane read files of this machine")
	flags.StringVar(&x.out, "out", "", "`DIR` for all runs (default runs/SCENARIO/reproduce-BUNDLE)")
	flags.StringVar(&x.add, "add", "", "write the bundle with a signed statement of the result to this `FILE`; needs --key")
	flags.StringVar(&key, "key", "", "sign with this SSH private key `FILE` (Ed25519, without a passphrase)")
	flags.StringVar(&x.kubeconfig, "kubeconfig", "", "test the cluster of this kubeconfig `FILE` instead of fresh control planes; each run waits until preflight finds the cluster clean")
	others.addFlag(verb)
	addOutput(verb, &output, "text", "json")
	verb.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err := wantOneOf("--output", output, "text", "json"); err != nil {
			return err
		}
		if (x.add == "") != (key == "") {
			return errors.New("reproduce: --add and --key go together")
		}
		if x.key, err = readKey(key); err != nil {
			return err
		}
		if x.signers, err = readSigners(signers); err != nil {
			return err
		}
		x.bundle, x.noExec, x.others, x.json = args[0], !exec, float64(others), output == "json"
		ctx, cancel := env.flightContext(cmd.Context())
		defer cancel()
		return x.reproduce(ctx)
	}
	return verb
}

// reproducing is a bundle that is flown again.
type reproducing struct {
	bundle, file, out, kubeconfig string
	add                           string // file of the bundle with the statement; empty: none
	key                           ssh.Signer
	signers                       []string
	repeats                       int
	others                        float64
	noExec, json                  bool
	env                           *environment
	fly                           flyFunc
}

func (x *reproducing) reproduce(ctx context.Context) error {
	p, v, err := publish.Open(ctx, x.bundle, x.signers, buildName())
	if err != nil {
		return err
	}
	if p == nil {
		if err := x.env.printVerification(v, "text"); err != nil {
			return err
		}
		fmt.Fprintln(x.env.stderr, "Nothing was run.")
		return verdictError{verdictOf(v.State)}
	}
	for _, c := range v.Checks {
		if c.Name == "signature" && c.State != publish.Holds {
			x.env.printNotice(text.Clean(c.Why))
		}
	}
	arms, turns, err := x.prepare(p)
	if err != nil {
		return err
	}
	unlock, err := lockFolder(x.out)
	if err != nil {
		return err
	}
	defer unlock()
	if err := x.placeScenario(arms); err != nil {
		return err
	}
	flown, stopped, err := arms.flyAll(ctx, turns)
	if err != nil {
		return err
	}
	if stopped {
		fmt.Fprintf(x.env.stderr, "not all runs were flown: the same command goes on from here: %s\n", x.out)
		return verdictError{slo.Unknown}
	}
	return x.conclude(p, flown[:sidesOf(turns)])
}

// sidesOf is on how many sides these turns are.
func sidesOf(turns []turn) int {
	n := 0
	for _, t := range turns {
		n = max(n, t.arm+1)
	}
	return n
}

// minReproduced is how many runs of a side are flown if few were published: those that a
// claim needs for its interval.
const minReproduced = 5

// prepare says what is to be flown: the sides of the bundle in turns, from its first seed.
func (x *reproducing) prepare(p *publish.Published) (*arms, []turn, error) {
	sides, err := p.Arms()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", x.bundle, err)
	}
	if x.kubeconfig == "" && sides[0].Plane.Kind == record.KindAttached {
		return nil, nil, fmt.Errorf("%s: its runs tested a cluster that was there; name yours with --kubeconfig", x.bundle)
	}
	if what := p.TakenOut(); what != "" {
		x.env.printNotice("the author took this out of the scenario: " + what)
	}
	if x.out == "" {
		x.out = filepath.Join("runs", fileName(sides[0].Manifest.Scenario), "reproduce-"+fileName(filepath.Base(x.bundle)))
	}
	a := &arms{
		file: x.file, text: sides[0].Scenario, seed: p.Index.Experiment.Seed, out: x.out, others: x.others, env: x.env, fly: x.fly,
		cluster: clusterFlags{kubeconfig: x.kubeconfig, trust: flight.Trust{NoExec: x.noExec}},
	}
	a.repeats = x.repeats
	name := [2]*string{&a.options.NameA, &a.options.NameB}
	for i, side := range sides {
		a.set = append(a.set, scenario.Settings(side.Parameters))
		maps.Copy(a.set[i], releaseOf(side.Manifest, x.kubeconfig))
		*name[i] = side.Name
		if x.repeats == 0 {
			a.repeats = max(a.repeats, side.Runs, minReproduced)
		}
	}
	if a.repeats < 1 {
		return nil, nil, fmt.Errorf("--repeats %d: want at least 1", x.repeats)
	}
	if x.file != "" {
		raw, err := scenario.Read(x.file)
		if err != nil {
			return nil, nil, err
		}
		if string(raw) != a.text {
			return nil, nil, fmt.Errorf("--scenario %s: its text is not that of the bundle", x.file)
		}
	} else {
		a.file = record.Dir(x.out).File(record.ScenarioFile)
	}
	sets := a.set
	a.set = nil
	for _, set := range sets {
		sc, err := scenario.Parse(a.file, []byte(a.text), set)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", x.bundle, err)
		}
		if err := a.addArm(set, sc); err != nil {
			return nil, nil, err
		}
	}
	return a, turnsOf(len(sides), a.repeats), nil
}

// turnsOf are the turns of one side or two.
func turnsOf(sides, repeats int) (out []turn) {
	if sides == 2 {
		return turnOrder(repeats)
	}
	for pair := range repeats {
		out = append(out, turn{0, pair})
	}
	return out
}

// releaseOf are the fields that make the plane one of the releases that were published,
// where this tool would take others.
func releaseOf(m record.Manifest, kubeconfig string) map[string]string {
	out := map[string]string{}
	if kubeconfig != "" || m.Plane.Build == nil {
		return out // a cluster that runs already, or executables that the scenario names
	}
	here, _ := versionsWithPlane() // without a plane, the flight says how to get one
	for part, field := range map[string]string{"kubernetes": "plane.release", "etcd": "plane.etcd"} {
		if was := m.Versions[part]; was != "" && was != here[part] {
			out[field] = "v" + strings.TrimPrefix(was, "v")
		}
	}
	return out
}

// placeScenario writes the bundle's scenario where it is flown from.
func (x *reproducing) placeScenario(a *arms) error {
	if x.file != "" {
		return nil
	}
	return record.Dir(x.out).Write(record.ScenarioFile, []byte(a.text))
}

// conclude says what the flights give.
func (x *reproducing) conclude(p *publish.Published, flown [][]compare.Run) error {
	var folders []string
	for _, r := range slices.Concat(flown...) {
		folders = append(folders, r.Name)
	}
	r, err := p.Reproduce(flown, publish.CalibrationOf(folders))
	if err != nil {
		return err
	}
	if err := record.Dir(x.out).WriteJSON("reproduction.json", r); err != nil {
		return err
	}
	if x.add != "" {
		if err := x.writeBundle(p, r); err != nil {
			return err
		}
	}
	if x.json {
		if err := text.JSON(x.env.data(), r); err != nil {
			return err
		}
		return verdictError{r.Verdict()}
	}
	fmt.Fprint(x.env.stdout, r.Text())
	fmt.Fprintf(x.env.stderr, "%s of each side: %s\n", unit.Count(len(flown[0]), "runs"), x.out)
	return verdictError{r.Verdict()}
}

// writeBundle writes the bundle with the statement.
func (x *reproducing) writeBundle(p *publish.Published, r *publish.Reproduction) error {
	file, err := record.Dir(filepath.Dir(x.add)).Create(filepath.Base(x.add), 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := p.AddReproduction(file, x.bundle, r, x.key); err != nil {
		return err
	}
	return file.Keep()
}

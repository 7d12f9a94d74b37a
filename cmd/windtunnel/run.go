package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// runVerb runs a scenario and ends with its verdict.
func runVerb(env *environment) *cobra.Command {
	var set, overrides, named []string
	var out string
	var cluster clusterFlags
	var seed uint64
	var plan, rbac, skew bool
	verb := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a scenario and judge it",
		Long: "run runs a scenario, or a config of ClusterLoader2 or kube-burner (recognized by its\n" +
			"content), and writes a run directory with records, verdict and report. A FILE of - is read\n" +
			"from standard input. Exit code: 0 pass, 1 fail, 2 unknown, 3 bad input or a fault of the\n" +
			"tool.",
		Example: "  windtunnel run examples/density.yaml --set nodes=500\n" +
			"  windtunnel run examples/density.yaml --kubeconfig ~/.kube/config\n" +
			"  windtunnel run clusterloader2/testing/density/config.yaml --set Nodes=100",
		Args: cobra.ExactArgs(1),
	}
	verb.Flags().StringArrayVar(&set, "set", nil, "set a parameter of the scenario, or a field such as plane.durability, as `NAME=VALUE`; repeatable")
	verb.Flags().StringArrayVar(&overrides, "overrides", nil, "`FILE` of variables of a ClusterLoader2 or kube-burner config; repeatable")
	verb.Flags().StringArrayVar(&named, "env", nil, "allow a ClusterLoader2 or kube-burner config to read the environment variable `NAME`, although it looks like a secret; repeatable")
	cluster.addFlags(verb, "test the cluster of this kubeconfig `FILE` and start no control plane")
	verb.Flags().StringVar(&out, "out", "", "run directory `DIR` (default runs/SCENARIO/UTC-TIME, with a link latest)")
	verb.Flags().Uint64Var(&seed, "seed", 0, "`SEED` (default: the scenario's)")
	var others neighbours
	others.addFlag(verb)
	var workers workerFlags
	workers.addFlags(verb)
	callerFile, as := callerFlags(verb)
	var left leftover
	left.addFlags(verb)
	verb.Flags().BoolVar(&skew, "allow-unsupported-skew", false, "let upgrade steps also do what the version skew policy of Kubernetes does not allow")
	verb.Flags().BoolVar(&plan, "plan", false, "print the requests that the run would send, and start nothing")
	verb.Flags().BoolVar(&rbac, "print-rbac", false, "print the Role and ClusterRole that the scenario needs with --kubeconfig, and start nothing")
	standAlone(verb, []string{"plan", "print-rbac"}, "print-manifests")
	standAlone(verb, []string{"plan"}, "print-rbac")
	standAlone(verb, []string{"print-rbac", "print-manifests"}, "output")
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		values, err := parseSet(set)
		if err == nil {
			err = errors.Join(cluster.checkFlags(), left.checkFlags(), workers.checkFlags())
		}
		if err != nil {
			return err
		}
		if skew {
			values[scenario.AllowSkewField] = "true"
		}
		if plan || rbac {
			options := flight.Options{File: args[0], Set: values, Overrides: overrides, Env: named, Kubeconfig: cluster.kubeconfig, Trust: cluster.trust, Out: out, Workers: workers.Settings, Log: env.newLogger()}
			if cmd.Flags().Changed("seed") {
				options.Seed = &seed
			}
			if rbac {
				return printRBAC(env, options)
			}
			if err := wantOneOf("--output with --plan", left.output, "table", "json"); err != nil {
				return err
			}
			return printPlan(env, options, left.output)
		}
		if workers.print {
			return workers.printManifests(env)
		}
		if workers.access != "" {
			env.printNotice(fmt.Sprintf("once %s is there, start windtunnel worker %s INDEX RECORDS, for INDEX from 0 to %d", workers.access, workers.access, workers.Workers+workers.Fleets-1))
		}
		ctx, cancel := env.flightContext(cmd.Context())
		defer cancel()
		shown := newProgress(env)
		options := env.flightOptions(shown)
		options.File, options.Set, options.Overrides, options.Env, options.Out, options.MaxNeighbours = args[0], values, overrides, named, out, float64(others)
		options.Kubeconfig, options.Trust, options.Effects, options.Workers = cluster.kubeconfig, cluster.trust, cluster.effectsWriter(env), workers.Settings
		if cmd.Flags().Changed("seed") {
			options.Seed = &seed
		}
		if options.Caller, err = openCaller(*callerFile); err != nil {
			return err
		}
		if options.Caller != nil {
			defer options.Caller.Close()
			options.As = *as
		}
		result, err := flight.Run(ctx, options)
		shown.clearLine()
		if err != nil {
			return err
		}
		return left.printResult(env, result)
	}
	return verb
}

// flightOptions are those that every run has which a person watches.
func (env *environment) flightOptions(shown *progress) flight.Options {
	return flight.Options{
		Command: env.args, Versions: binaryVersions(), Log: env.newLogger(), Notice: func(line string) { env.printNotice(line) },
		Status: shown.showStatus, StatusEvery: shown.redrawInterval(),
	}
}

// parseSet cuts name=value.
func parseSet(set []string) (map[string]string, error) {
	out := map[string]string{}
	for _, one := range set {
		name, value, ok := strings.Cut(one, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--set %s: want name=value", one)
		}
		out[name] = value
	}
	return out, nil
}

// progress shows progress: one line rewritten on a terminal, plain lines elsewhere.
type progress struct {
	env   *environment
	step  string
	what  string // that it waited for
	last  time.Duration
	drawn bool
}

// plainEvery is how often a step that goes on is mentioned where there is no
// terminal.
const plainEvery = 15 * time.Second

func newProgress(env *environment) *progress { return &progress{env: env} }

func (l *progress) redrawInterval() time.Duration {
	if l.env.terminal {
		return 200 * time.Millisecond
	}
	return time.Second
}

func (l *progress) showStatus(s flight.Status) {
	shown := statusLine(s)
	if l.env.terminal {
		_ = l.env.rewriteLastLine(shown) // the next one comes soon
		l.drawn = true
		return
	}
	if s.Step != l.step || l.what == "" && s.For != "" || s.Elapsed-l.last >= plainEvery {
		l.step, l.what, l.last = s.Step, s.For, s.Elapsed
		fmt.Fprintln(l.env.stderr, shown)
	}
}

func (l *progress) clearLine() {
	if l.drawn {
		_ = l.env.rewriteLastLine("")
	}
}

// lineWidth is what a terminal of 80 columns shows without wrapping.
const lineWidth = 79

// statusLine writes a status in at most lineWidth characters. Where they are not
// enough the step's name is cut first, and then the last figures are left out.
func statusLine(s flight.Status) string {
	head, name, tail := fmt.Sprintf("%s [%d/%d] ", clockFace(s.Elapsed), s.Index, s.Of), []rune(s.Step), ""
	minLength := min(len(name), minName)
	for _, f := range statusFigures(s) {
		if len(head)+minLength+len(tail)+len(f) > lineWidth {
			break
		}
		tail += f
	}
	room := lineWidth - len(head) - len(tail)
	if len(name) > room {
		name = append(name[:room-1], '…')
	}
	what := []rune(text.Clean(s.For))
	if room -= len(name) + len(": "); len(what) > room && room > 0 {
		what = append(what[:room-1], '…')
	}
	if len(what) > 0 && room >= minName {
		tail = ": " + string(what) + tail
	}
	return head + string(name) + tail
}

// minName is how many characters of a step's name are always shown.
const minName = 12

// statusFigures are the numbers of a status, the most useful first.
func statusFigures(s flight.Status) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if s.Total > 0 {
		add(" %d/%d", s.Done, s.Total)
	}
	if s.Requested > 0 {
		add(" %s of %s/s p99 %v", unit.Number(s.Achieved), unit.Number(s.Requested), roundForDisplay(s.P99))
	} else if s.Achieved > 0 && s.Total > 0 {
		add(" %s/s", unit.Number(s.Achieved))
	}
	if s.Failed > 0 {
		add(" errors %d", s.Failed)
	}
	if s.Late > 0 {
		add(" late %d", s.Late)
	}
	if s.Left > 0 {
		add(" left %v", s.Left.Round(time.Second))
	}
	return out
}

func clockFace(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

func roundForDisplay(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}

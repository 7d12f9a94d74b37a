package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/experiment"
	"github.com/windtunnel/windtunnel/plane/process"
	"github.com/windtunnel/windtunnel/record"
	"github.com/windtunnel/windtunnel/slo"
)

// runVerb runs a scenario and ends with its verdict.
func runVerb(env *environment) *cobra.Command {
	var set, overrides []string
	var kubeconfig, out string
	var seed uint64
	var plan bool
	verb := &cobra.Command{
		Use:   "run FILE",
		Short: "Fly a scenario and judge it",
		Long: "run flies a scenario, or a config of ClusterLoader2 or kube-burner (recognised by its\n" +
			"content), and leaves a run directory with records, verdict and report.",
		Example: "  windtunnel run examples/density.yaml --set nodes=500\n" +
			"  windtunnel run examples/density.yaml --kubeconfig ~/.kube/config\n" +
			"  windtunnel run clusterloader2/testing/density/config.yaml --set Nodes=100",
		Args: cobra.ExactArgs(1),
	}
	verb.Flags().StringArrayVar(&set, "set", nil, "a parameter of the scenario, `name=value`; repeatable")
	verb.Flags().StringArrayVar(&overrides, "overrides", nil, "a `file` of variables of a ClusterLoader2 or kube-burner config; repeatable")
	verb.Flags().StringVar(&kubeconfig, "kubeconfig", "", "fly the cluster of this `file` and start nothing")
	verb.Flags().StringVar(&out, "out", "", "run `directory`; default runs/SCENARIO/UTC-TIME with a link latest")
	verb.Flags().Uint64Var(&seed, "seed", 0, "in place of the scenario's seed")
	verb.Flags().BoolVar(&plan, "plan", false, "print what would be sent, and start nothing")
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		values, err := parseSet(set)
		if err != nil {
			return err
		}
		if plan {
			options := experiment.Options{File: args[0], Set: values, Overrides: overrides, Kubeconfig: kubeconfig, Out: out}
			if cmd.Flags().Changed("seed") {
				options.Seed = &seed
			}
			return printPlan(env, options)
		}
		ctx, cancel := env.interruptible(cmd.Context(),
			"interrupted: saving what was measured and cleaning up; once more ends at once",
			func() { os.Exit(exitUnknown) }) // the keeper cleans up after us
		defer cancel()
		process.Prefer()
		trim()
		live := newLive(env)
		options := experiment.Options{
			File: args[0], Set: values, Overrides: overrides, Kubeconfig: kubeconfig, Out: out, Command: env.args,
			Versions: versions(), Log: env.logger(), Status: live.show, StatusEvery: live.every(),
		}
		if cmd.Flags().Changed("seed") {
			options.Seed = &seed
		}
		result, err := experiment.Run(ctx, options)
		live.end()
		if err != nil {
			return err
		}
		return conclude(env, result)
	}
	return verb
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

// conclude prints the summary and where everything lies.
func conclude(env *environment, result experiment.Result) error {
	if errors.Is(result.Err, experiment.ErrBoot) {
		return fmt.Errorf("%w\nrun directory: %s", result.Err, result.Dir)
	}
	if summary, err := os.ReadFile(result.Dir.File(record.SummaryFile)); err == nil {
		fmt.Fprintf(env.stdout, "%s\n", summary)
	}
	fmt.Fprintf(env.stdout, "run directory: %s\nreport:        %s\n", result.Dir, filepath.ToSlash(result.Dir.File(record.ReportFile)))
	if result.Err == nil {
		return verdictError{result.Judgement.Verdict}
	}
	if errors.Is(result.Err, experiment.ErrNoRecords) || result.Judgement.Verdict == "" {
		return result.Err
	}
	fmt.Fprintf(env.stderr, "the run did not end as it should: %v\n", result.Err)
	return verdictError{slo.Unknown}
}

// live shows progress: one line rewritten on a terminal, plain lines elsewhere.
type live struct {
	env   *environment
	step  string
	last  time.Duration
	drawn bool
}

// plainEvery is how often a step that goes on is mentioned where there is no
// terminal.
const plainEvery = 15 * time.Second

func newLive(env *environment) *live { return &live{env: env} }

func (l *live) every() time.Duration {
	if l.env.terminal {
		return 200 * time.Millisecond
	}
	return time.Second
}

func (l *live) show(s experiment.Status) {
	text := line(s)
	if l.env.terminal {
		fmt.Fprintf(l.env.stderr, "\r\x1b[K%.79s", text)
		l.drawn = true
		return
	}
	if s.Step != l.step || s.Elapsed-l.last >= plainEvery {
		l.step, l.last = s.Step, s.Elapsed
		fmt.Fprintln(l.env.stderr, text)
	}
}

func (l *live) end() {
	if l.drawn {
		fmt.Fprint(l.env.stderr, "\r\x1b[K")
	}
}

// line writes a status in at most 79 characters, the most useful first.
func line(s experiment.Status) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s [%d/%d] %s", clockFace(s.Elapsed), s.Index, s.Of, s.Step)
	if s.Total > 0 {
		fmt.Fprintf(b, " %d/%d", s.Done, s.Total)
	}
	if s.Requested > 0 {
		fmt.Fprintf(b, " %.3g of %.3g/s p99 %v", s.Achieved, s.Requested, round(s.P99))
	} else if s.Achieved > 0 && s.Total > 0 {
		fmt.Fprintf(b, " %.3g/s", s.Achieved)
	}
	if s.Failed > 0 {
		fmt.Fprintf(b, " errors %d", s.Failed)
	}
	if s.Late > 0 {
		fmt.Fprintf(b, " late %d", s.Late)
	}
	if s.Left > 0 {
		fmt.Fprintf(b, " left %v", s.Left.Round(time.Second))
	}
	return b.String()
}

func clockFace(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

func round(d time.Duration) time.Duration {
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

package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
)

// compareFlags are common to compare and ab.
type compareFlags struct {
	failAbove, output string
	page              string // file that the comparison is written to as a page
	all               bool   // print everything in the form text
	where             string // the rest of what is printed is, besides --all
	measures          []string
}

func (f *compareFlags) addFlags(verb *cobra.Command) {
	verb.Flags().StringVar(&f.failAbove, "fail-above", "", "exit with 1 if a judged measure is worse in B by more than `SHARE`, such as 5%; with 2 if that is inconclusive")
	verb.Flags().StringVar(&f.output, "output", "text", "output `FORMAT`: text (or table), markdown or json")
	verb.Flags().StringVar(&f.page, "html", "", "also write the comparison to `FILE` as an HTML page with charts")
	verb.Flags().BoolVar(&f.all, "all", false, "print every measure and counter, without a limit on width")
	verb.Flags().StringSliceVar(&f.measures, "measure", nil, "compare only measures, indicators, queries, objectives and counters whose name contains `PATTERN`; * matches any text; repeatable")
}

// compareOptions checks the flags.
func (f *compareFlags) compareOptions() (compare.Options, error) {
	o := compare.Options{Only: f.measures}
	if !slices.Contains([]string{"text", "table", "markdown", "json"}, f.output) {
		return o, fmt.Errorf("--output %s: want text, markdown or json", f.output)
	}
	if f.failAbove == "" {
		return o, nil
	}
	var err error
	o.FailAbove, err = parseShare("--fail-above", f.failAbove)
	return o, err
}

// parseShare reads a flag such as 5% or 0.05.
func parseShare(flag, text string) (float64, error) {
	number, isPercent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		v /= 100
	}
	if err != nil || !(v > 0) || math.IsInf(v, 0) || !isPercent && v >= 1 {
		return 0, fmt.Errorf("%s %s: want a share such as 5%%", flag, text)
	}
	return v, nil
}

// printComparison writes a comparison in the form asked for and ends with its gate.
func (f *compareFlags) printComparison(env *environment, c *compare.Comparison) error {
	out, write := env.stdout, func(w io.Writer) error { return c.Short(w, "--all shows everything"+f.where) }
	if f.all {
		write = c.Text
	}
	switch f.output {
	case "markdown":
		write = c.Markdown
	case "json":
		out, write = env.data(), c.JSON
	}
	if err := write(out); err != nil {
		return err
	}
	if c.Gate != nil {
		return verdictError{c.Gate.Verdict}
	}
	return nil
}

// printAll prints the comparisons of several arms with the first one; the worst
// of their gates is the end.
func (f *compareFlags) printAll(env *environment, all []*compare.Comparison) error {
	var end error
	for i, c := range all {
		if i > 0 && f.output != "json" {
			fmt.Fprintln(env.stdout)
		}
		err := f.printComparison(env, c)
		var verdict, worst verdictError
		switch {
		case err == nil:
		case !errors.As(err, &verdict):
			return err
		case !errors.As(end, &worst) || isWorse(verdict.verdict, worst.verdict):
			end = err
		}
	}
	return end
}

// isWorse orders verdicts: fail, unknown, pass.
func isWorse(a, b slo.Verdict) bool {
	order := []slo.Verdict{slo.Pass, slo.Unknown, slo.Fail}
	return slices.Index(order, a) > slices.Index(order, b)
}

// compareVerb compares the runs of two variants.
func compareVerb(env *environment) *cobra.Command {
	var flags compareFlags
	verb := &cobra.Command{
		Use:   "compare A... -- B... [-- C...]",
		Short: "Compare the runs of B with the runs of A",
		Long: "compare reads run directories of two variants. It lists the facts of their manifests that\n" +
			"differ, compares counters exactly, and tests measures with a correction for their number.\n" +
			"Each further variant is compared with the first one. Paths that are no run directories,\n" +
			"such as exports next to the runs, are skipped by name.",
		Example: "  windtunnel compare runs/before/* -- runs/after/*\n" +
			"  windtunnel compare --fail-above 5% --output markdown a-01 a-02 a-03 a-04 -- b-01 b-02 b-03 b-04\n" +
			"  windtunnel compare runs/before/* -- runs/after/* --html comparison.html",
	}
	flags.addFlags(verb)
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		variants, err := variantsOf(cmd, args)
		if err != nil {
			return err
		}
		options, err := flags.compareOptions()
		if err != nil {
			return err
		}
		runs := make([][]compare.Run, len(variants))
		for i, paths := range variants {
			if runs[i], err = env.openRuns(paths); err != nil {
				return err
			}
		}
		var pairs []*compare.Comparison
		for i := range runs[1:] {
			options.NameA, options.NameB = variantLetter(0), variantLetter(i+1)
			c, err := compare.Compare(runs[0], runs[i+1], options)
			if err != nil {
				return err
			}
			pairs = append(pairs, c)
		}
		if err := flags.writePage(runs, pairs); err != nil {
			return err
		}
		return flags.printAll(env, pairs)
	}
	return verb
}

// variantLetter names a variant: A, B, C ...
func variantLetter(i int) string { return string(rune('A' + i)) }

// maxVariants is how many have a letter.
const maxVariants = 26

// variantsOf splits the arguments at each "--". Flags are taken wherever they
// stand, so that they may follow the last variant.
func variantsOf(cmd *cobra.Command, args []string) ([][]string, error) {
	want := errors.New("compare: want run directories of A, then --, then those of B")
	at := cmd.ArgsLenAtDash()
	if at < 1 {
		return nil, want
	}
	out := [][]string{slices.Clone(args[:at])}
	for rest := args[at:]; ; {
		next := slices.Index(rest, "--")
		part := rest
		if next >= 0 {
			part = rest[:next]
		}
		if err := cmd.Flags().Parse(part); err != nil {
			return nil, fmt.Errorf("compare: %w", cmd.FlagErrorFunc()(cmd, err))
		}
		paths := slices.Clone(cmd.Flags().Args())
		if len(part) == 0 || len(paths) == 0 || len(out) == maxVariants {
			return nil, want
		}
		if out = append(out, paths); next < 0 {
			return out, nil
		}
		rest = rest[next+1:]
	}
}

// openRuns reads run directories; one without a verdict is judged. A pattern such as
// runs/density/* also names exports and results of a search: what is no run directory is
// skipped and named, unless nothing is left.
func (env *environment) openRuns(paths []string) ([]compare.Run, error) {
	var out []compare.Run
	var skipped []string
	var first error
	for _, path := range paths {
		path = filepath.Clean(path)
		r, err := compare.Open(path)
		if _, none := os.Stat(path); none == nil && errors.Is(err, record.ErrNotRun) {
			if skipped = append(skipped, path); first == nil {
				first = err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	if len(out) == 0 && first != nil {
		return nil, first
	}
	if len(skipped) > 0 {
		env.printNotice("skipped, not a run directory: " + strings.Join(skipped, ", "))
	}
	return out, nil
}

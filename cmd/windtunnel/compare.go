package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/compare"
	"github.com/windtunnel/windtunnel/experiment"
)

// compareFlags are common to compare and ab.
type compareFlags struct {
	failAbove, output string
	measures          []string
}

func (f *compareFlags) add(verb *cobra.Command) {
	verb.Flags().StringVar(&f.failAbove, "fail-above", "", "exit 1 when a measure is worse in B by more than `SHARE` such as 5%, 2 when that cannot be told")
	verb.Flags().StringVar(&f.output, "output", "text", "`form`: text, markdown or json")
	verb.Flags().StringSliceVar(&f.measures, "measure", nil, "compare only measures whose keys in verdict.json begin with `PREFIX`; repeatable")
}

// options checks the flags.
func (f *compareFlags) options() (compare.Options, error) {
	o := compare.Options{Only: f.measures}
	if !slices.Contains([]string{"text", "markdown", "json"}, f.output) {
		return o, fmt.Errorf("--output %s: want text, markdown or json", f.output)
	}
	if f.failAbove == "" {
		return o, nil
	}
	number, isPercent := strings.CutSuffix(f.failAbove, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		v /= 100
	}
	if err != nil || !(v > 0) || math.IsInf(v, 0) || !isPercent && v >= 1 {
		return o, fmt.Errorf("--fail-above %s: want a share such as 5%%", f.failAbove)
	}
	o.FailAbove = v
	return o, nil
}

// print writes a comparison in the form asked for and ends with its gate.
func (f *compareFlags) print(env *environment, c *compare.Comparison) error {
	write := c.Text
	switch f.output {
	case "markdown":
		write = c.Markdown
	case "json":
		write = c.JSON
	}
	if err := write(env.stdout); err != nil {
		return err
	}
	if c.Gate != nil {
		return verdictError{c.Gate.Verdict}
	}
	return nil
}

// compareVerb compares the runs of two variants.
func compareVerb(env *environment) *cobra.Command {
	var flags compareFlags
	verb := &cobra.Command{
		Use:   "compare A... -- B...",
		Short: "Say in what the runs of B differ from those of A, and how surely",
		Long: "compare takes run directories of two variants, names what is not the same in their\n" +
			"manifests, compares counters exactly and measures by a test that is corrected for\n" +
			"their number, and says where the runs cannot tell.",
		Example: "  windtunnel compare runs/before/* -- runs/after/*\n" +
			"  windtunnel compare --fail-above 5% --output markdown a-01 a-02 a-03 a-04 -- b-01 b-02 b-03 b-04",
	}
	flags.add(verb)
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := flags.options()
		if err != nil {
			return err
		}
		at := cmd.ArgsLenAtDash()
		if at < 1 || at == len(args) {
			return fmt.Errorf("compare: want run directories of A, then --, then those of B")
		}
		a, err := openRuns(args[:at])
		if err != nil {
			return err
		}
		b, err := openRuns(args[at:])
		if err != nil {
			return err
		}
		c, err := compare.Compare(a, b, options)
		if err != nil {
			return err
		}
		return flags.print(env, c)
	}
	return verb
}

// openRuns reads run directories; one without a verdict is judged.
func openRuns(paths []string) ([]compare.Run, error) {
	var out []compare.Run
	for _, path := range paths {
		r, err := compare.Open(filepath.Clean(path), experiment.Judge)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

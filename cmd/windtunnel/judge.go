package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/judge"
	"github.com/windtunnel/windtunnel/internal/record"
)

// judgeVerb computes a run's verdict again from its records, also of a run that
// was killed.
func judgeVerb(env *environment) *cobra.Command {
	var output string
	verb := &cobra.Command{
		Use:     "judge RUN",
		Short:   "Judge a run directory again from its records",
		Example: "  windtunnel judge runs/density/latest --output json | jq .verdict",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := wantOneOf("--output", output, "table", "markdown", "json", "github"); err != nil {
				return err
			}
			judgement, err := judge.Write(args[0])
			if err != nil {
				return err
			}
			if err := printResult(env, record.Dir(args[0]), output); err != nil {
				return err
			}
			return verdictError{judgement.Verdict}
		},
	}
	addOutput(verb, &output, "table", "markdown", "json", "github")
	return verb
}

// reportVerb writes a run's report again from its records and prints where it is.
func reportVerb(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "report RUN",
		Short: "Write report.html and summary.txt of a run again from its records",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := judge.Write(args[0]); err != nil {
				return err
			}
			fmt.Fprintln(env.stdout, record.Dir(args[0]).File(record.ReportFile))
			return nil
		},
	}
}

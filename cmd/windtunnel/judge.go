package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/experiment"
	"github.com/windtunnel/windtunnel/record"
)

// judgeVerb computes a run's verdict again from its records, also of a run that
// was killed.
func judgeVerb(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "judge RUN",
		Short: "Judge a run directory again from its records",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			judgement, err := experiment.Judge(record.Dir(args[0]))
			if err != nil {
				return err
			}
			summary, err := os.ReadFile(record.Dir(args[0]).File(record.SummaryFile))
			if err != nil {
				return fmt.Errorf("read summary: %w", err)
			}
			fmt.Fprintf(env.stdout, "%s", summary)
			return verdictError{judgement.Verdict}
		},
	}
}

// reportVerb writes a run's report again from its records and prints where it is.
func reportVerb(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "report RUN",
		Short: "Write a run's report.html and summary.txt again from its records",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := experiment.Judge(record.Dir(args[0])); err != nil {
				return err
			}
			fmt.Fprintln(env.stdout, record.Dir(args[0]).File(record.ReportFile))
			return nil
		},
	}
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/opinion/judge"
	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
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
			switch {
			case err != nil && (judgement.Verdict == "" || !isUnwritable(err)):
				return err
			case err != nil: // the records were read: a folder that cannot be written to takes the answer from nobody
				fmt.Fprintf(env.stderr, "warning: the verdict was computed, and not all files of it were written: %v\n", err)
				err = printUnwritten(env, args[0], judgement, output)
			default:
				err = printResult(env, record.Dir(args[0]), output)
			}
			if err != nil {
				return err
			}
			return verdictError{judgement.Verdict}
		},
	}
	addOutput(verb, &output, "table", "markdown", "json", "github")
	return verb
}

// isUnwritable reports whether it is the folder's fault that a file was not written: the
// disk is full, or read-only, or something else has the file's place. What leads out of
// the folder is the run directory's.
func isUnwritable(err error) bool {
	return slices.ContainsFunc([]error{
		syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EACCES, syscall.EPERM, syscall.EISDIR, syscall.EEXIST, syscall.ENOTEMPTY,
	}, func(one error) bool { return errors.Is(err, one) })
}

// printUnwritten prints what a judgement says that could not be written.
func printUnwritten(env *environment, run string, j slo.Judgement, output string) error {
	if output == "json" {
		raw, err := json.MarshalIndent(j, "", "  ")
		if err == nil {
			_, err = fmt.Fprintf(env.data(), "%s\n", raw)
		}
		return err
	}
	built, err := judge.Report(run)
	switch {
	case err != nil:
		return err
	case output == "markdown":
		return report.WriteMarkdown(env.stdout, built)
	}
	return report.WriteSummary(env.stdout, built, summaryColumns)
}

// summaryColumns is how wide a summary is that goes to a terminal.
const summaryColumns = 80

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

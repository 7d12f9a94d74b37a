package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/interop/parquet"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
)

// leftover says what a run prints at its end and leaves besides.
type leftover struct {
	output  string
	columns bool // the records as Parquet files, too
}

func (l *leftover) addFlags(verb *cobra.Command) {
	addOutput(verb, &l.output, "table", "markdown", "json", "github")
	verb.Flags().BoolVar(&l.columns, "parquet", false, "also write the records as Parquet files at the end")
}

func (l *leftover) checkFlags() error {
	return wantOneOf("--output", l.output, "table", "markdown", "json", "github")
}

// printResult prints the result and where everything lies. Only the result goes to
// stdout where a program or a page is to read it.
func (l *leftover) printResult(env *environment, result flight.Result) error {
	if result.Dir == "" { // it was refused, and left nothing
		return result.Err
	}
	if errors.Is(result.Err, flight.ErrBoot) {
		return fmt.Errorf("%w\nrun directory: %s", result.Err, result.Dir)
	}
	where := env.stderr
	if l.output == "table" {
		where = env.stdout
	}
	if result.Judgement.Verdict != "" {
		switch err := printResult(env, result.Dir, l.output); {
		case err != nil && result.Err == nil:
			return err
		case err != nil: // the reason why there is nothing to print comes last, as what ended the run
			fmt.Fprintln(env.stderr, err)
		}
		if l.output == "table" {
			fmt.Fprintln(env.stdout)
		}
	}
	fmt.Fprintf(where, "run directory: %s\nreport:        %s\n", result.Dir, filepath.ToSlash(result.Dir.File(record.ReportFile)))
	if l.columns && !errors.Is(result.Err, flight.ErrNoRecords) {
		files, err := parquet.Write(string(result.Dir), besideRun(string(result.Dir), "parquet"))
		if err != nil {
			return err
		}
		printFiles(where, files)
	}
	if result.Err == nil {
		return verdictError{result.Judgement.Verdict}
	}
	if errors.Is(result.Err, flight.ErrNoRecords) || result.Judgement.Verdict == "" {
		return result.Err
	}
	fmt.Fprintf(env.stderr, "run aborted: %v\n", result.Err)
	if result.Judgement.Verdict == slo.Fail {
		return verdictError{slo.Fail} // what ended it came of what is judged
	}
	return verdictError{slo.Unknown}
}

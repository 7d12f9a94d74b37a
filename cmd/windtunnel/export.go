package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/interop/openmetrics"
	"github.com/windtunnel/windtunnel/internal/interop/parquet"
	"github.com/windtunnel/windtunnel/internal/opinion/judge"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/rows"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// exportVerb writes a run's records or results in another tool's form.
func exportVerb(env *environment) *cobra.Command {
	verb := &cobra.Command{
		Use:   "export",
		Short: "Write a run's records or results in another tool's format",
		Args: func(verb *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			var formats []string
			for _, v := range verb.Commands() {
				formats = append(formats, v.Name())
			}
			return fmt.Errorf("export: %q is not an export format: %s", args[0], strings.Join(formats, ", "))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	verb.AddCommand(
		exportTables(env, "parquet", "Write the records as Parquet files, for DuckDB and pandas", parquet.Write),
		exportTables(env, "csv", "Write the records as CSV files", rows.WriteCSV),
		exportOpenMetrics(env),
		exportGitHub(env),
		exportGrafana(env),
		exportDocuments(env, "clusterloader2", "Write PerfData in ClusterLoader2's file names, for perf-dash and PerfLens"),
		exportDocuments(env, "kube-burner", "Write kube-burner's jobSummary and pod latency documents"),
	)
	return verb
}

// newExportForm is a form of export: its verb with the flag for where to write.
func newExportForm(use, short, example string, do func(run, out string) error) *cobra.Command {
	var out string
	verb := &cobra.Command{
		Use: use + " RUN", Short: short, Example: "  windtunnel export " + example, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			// A link that the user names is meant; one that lies where an export goes
			// by default came with the run, and is refused.
			if real, err := filepath.EvalSymlinks(out); out != "" && err == nil {
				out = real
			}
			return do(args[0], out)
		},
	}
	verb.Flags().StringVarP(&out, "out", "o", "", "`PATH` to write to (default: next to the run directory, as RUN-"+use+")")
	return verb
}

// besideRun is where an export of a run goes by default: beside the run directory,
// which stays as the run left it, and under its own name where a link such as
// latest was given.
func besideRun(run, suffix string) string {
	if real, err := filepath.EvalSymlinks(run); err == nil {
		run = real
	}
	if base := filepath.Base(run); base == "." || base == ".." {
		if abs, err := filepath.Abs(run); err == nil {
			run = abs
		}
	}
	return filepath.Clean(run) + "-" + suffix
}

// exportTables writes the tables of docs/reference/records.md.
func exportTables(env *environment, format, short string, write func(run, folder string) ([]rows.File, error)) *cobra.Command {
	return newExportForm(format, short, format+" runs/density/latest -o tables", func(run, out string) error {
		if out == "" {
			out = besideRun(run, format)
		}
		files, err := write(run, out)
		if err != nil {
			return err
		}
		printFiles(env.stdout, files)
		return nil
	})
}

func printFiles(w io.Writer, files []rows.File) {
	for _, f := range files {
		fmt.Fprintf(w, "%s: %s rows, %s\n", f.Path, unit.Number(float64(f.Rows)), unit.Bytes(f.Bytes).Human())
	}
}

// exportDocuments writes the files of another tool.
func exportDocuments(env *environment, format, short string) *cobra.Command {
	return newExportForm(format, short, format+" runs/density/latest -o artifacts", func(run, out string) error {
		if out == "" {
			out = besideRun(run, format)
		}
		names, err := judge.Export(run, format, out)
		for _, name := range names {
			fmt.Fprintln(env.stdout, filepath.Join(out, name))
		}
		return err
	})
}

// exportOpenMetrics writes all series of a run; what the format cannot carry is said.
func exportOpenMetrics(env *environment) *cobra.Command {
	var maxBytes unit.Bytes
	verb := newExportForm("openmetrics", "Write all series, which promtool turns into blocks of a Prometheus server",
		"openmetrics runs/density/latest -o density.om\n  promtool tsdb create-blocks-from openmetrics density.om data/", func(run, out string) error {
			if info, err := os.Stat(out); out != "" && err == nil && !info.Mode().IsRegular() {
				return printOpenMetrics(env, run, out, int64(maxBytes))
			}
			if out == "" {
				out = besideRun(run, "openmetrics.txt")
			}
			return writeOpenMetrics(env, run, out, int64(maxBytes))
		})
	verb.Flags().TextVar(&maxBytes, "most", unit.Bytes(0), "maximum `SIZE` of the text, such as 20Gi (default: 1,000 times the size of the records, at least 256Mi)")
	return verb
}

func writeOpenMetrics(env *environment, run, out string, maxBytes int64) error {
	if _, _, err := record.OpenDir(run); err != nil {
		return err
	}
	// A file of a run without series has only its end.
	if err := checkReplaced(out, []byte("# TYPE ")); err != nil && checkReplaced(out, []byte("# EOF")) != nil {
		return err
	}
	file, err := record.Dir(filepath.Dir(out)).Create(filepath.Base(out), 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	written, err := openmetrics.Write(file, run, openmetrics.Options{Most: maxBytes})
	if err == nil {
		err = file.Keep()
	}
	if err != nil {
		return tooLarge(err)
	}
	sayWritten(env.stdout, env.stderr, out, written)
	return nil
}

// printOpenMetrics writes to a pipe or a device that the user named, such as
// /dev/stdout.
func printOpenMetrics(env *environment, run, out string, maxBytes int64) error {
	file, err := os.OpenFile(out, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write OpenMetrics: %w", err)
	}
	written, err := openmetrics.Write(file, run, openmetrics.Options{Most: maxBytes})
	if failed := file.Close(); err == nil && failed != nil {
		err = fmt.Errorf("write OpenMetrics: %w", failed)
	}
	if err == nil {
		sayWritten(env.stderr, env.stderr, out, written)
	}
	return tooLarge(err)
}

// tooLarge says what to do about a text that outgrew its bound.
func tooLarge(err error) error {
	if errors.Is(err, openmetrics.ErrTooLarge) {
		return fmt.Errorf("%w: allow it more with --most, if you trust who made the run", err)
	}
	return err
}

func sayWritten(w, warnings io.Writer, out string, written openmetrics.Written) {
	fmt.Fprintf(w, "%s: %s, %s, %s\n", out, unit.Count(written.Families, "families"), unit.Count(written.Series, "series"), unit.Count(written.Samples, "samples"))
	if written.Natives > 0 {
		fmt.Fprintf(warnings, "left out %s, which the text form cannot carry; their classic buckets are there\n", unit.Count(written.Natives, "native histograms"))
	}
}

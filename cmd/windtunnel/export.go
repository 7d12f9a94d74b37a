package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/experiment"
	"github.com/windtunnel/windtunnel/openmetrics"
)

// exportVerb writes a run's results in another tool's form.
func exportVerb(env *environment) *cobra.Command {
	var format, out string
	verb := &cobra.Command{
		Use:   "export RUN",
		Short: "Write a run's results in another tool's form",
		Long: "export writes the results of a run directory as\n" +
			"  openmetrics     all series, which `promtool tsdb create-blocks-from openmetrics` turns into blocks\n" +
			"  clusterloader2  PerfData in ClusterLoader2's file names, for perf-dash and PerfLens\n" +
			"  kube-burner     jobSummary and pod latency documents",
		Example: "  windtunnel export runs/density/latest --format openmetrics --out density.om",
		Args:    cobra.ExactArgs(1),
	}
	formats := []string{"openmetrics", "clusterloader2", "kube-burner"}
	verb.Flags().StringVar(&format, "format", formats[0], "one of "+strings.Join(formats, ", "))
	verb.Flags().StringVar(&out, "out", "", "`file` (openmetrics) or folder (the others); default: in the run directory")
	verb.RunE = func(_ *cobra.Command, args []string) error {
		if out == "" {
			out = filepath.Join(args[0], map[string]string{"openmetrics": "openmetrics.txt"}[format])
			if format != "openmetrics" {
				out = filepath.Join(args[0], format)
			}
		}
		switch format {
		case "openmetrics":
			return exportSeries(env, args[0], out)
		case "clusterloader2", "kube-burner":
			names, err := experiment.Export(args[0], format, out)
			for _, name := range names {
				fmt.Fprintln(env.stdout, filepath.Join(out, name))
			}
			return err
		}
		return fmt.Errorf("format %q: want one of %s", format, strings.Join(formats, ", "))
	}
	return verb
}

// exportSeries writes all series of a run; what the format cannot carry is said.
func exportSeries(env *environment, run, out string) error {
	file, err := os.OpenFile(out, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write OpenMetrics: %w", err)
	}
	written, err := openmetrics.Write(file, run, openmetrics.Options{})
	if failed := file.Close(); err == nil && failed != nil {
		err = fmt.Errorf("write OpenMetrics: %w", failed)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "%s: %d families, %d series, %d samples\n", out, written.Families, written.Series, written.Samples)
	if written.Natives > 0 {
		fmt.Fprintf(env.stderr, "%d native histograms are left out: the text form cannot carry them; their classic buckets are there\n", written.Natives)
	}
	return nil
}

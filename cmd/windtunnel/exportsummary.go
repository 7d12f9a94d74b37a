package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/interop/grafana"
	"github.com/windtunnel/windtunnel/internal/opinion/judge"
	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
)

// stepSummary is the variable by which GitHub names the file that a step's
// summary is appended to.
const stepSummary = "GITHUB_STEP_SUMMARY"

// writeMarkdown judges a run directory again and writes its summary in Markdown. It
// changes nothing in the directory.
func writeMarkdown(run string, w io.Writer) error {
	built, err := judge.Report(run)
	if err != nil {
		return err
	}
	return report.WriteMarkdown(w, built)
}

// exportGitHub writes a run's summary for a workflow of GitHub Actions.
func exportGitHub(env *environment) *cobra.Command {
	var out string
	verb := &cobra.Command{
		Use:   "github RUN",
		Short: "Append a run's summary to the summary of a GitHub Actions step",
		Long: "github appends the run's summary to the file that $" + stepSummary + " names, which GitHub\n" +
			"shows on the page of the workflow's run. Without the variable it goes to stdout.",
		Example: "  windtunnel export github runs/density/latest",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				out = os.Getenv(stepSummary)
			}
			var text bytes.Buffer
			if err := writeMarkdown(args[0], &text); err != nil {
				return err
			}
			if out == "" {
				_, err := text.WriteTo(env.stdout)
				return err
			}
			return appendTo(out, text.Bytes())
		},
	}
	verb.Flags().StringVarP(&out, "out", "o", "", "`FILE` to append to (default: $"+stepSummary+")")
	return verb
}

func appendTo(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	_, err = file.Write(text)
	if failed := file.Close(); err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// exportGrafana writes a dashboard over what the verb serve answers.
func exportGrafana(env *environment) *cobra.Command {
	var out, url string
	verb := &cobra.Command{
		Use:   "grafana [RUN]",
		Short: "Write a Grafana dashboard for `windtunnel serve`",
		Long: "grafana prints a dashboard that Grafana imports, over any data source that answers for\n" +
			"windtunnel serve. With a run it shows that run's time, and is written as a folder for\n" +
			"Grafana's provisioning, data source included: beside the run, or where -o says.",
		Example: "  windtunnel serve runs/density/latest &\n" +
			"  windtunnel export grafana runs/density/latest -o provisioning\n" +
			"  grafana server --homepath /usr/share/grafana cfg:paths.provisioning=$PWD/provisioning",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && out == "" && cmd.Flags().Changed("url") {
				return errors.New("grafana: --url does nothing without RUN or --out: whoever imports the dashboard names the data source")
			}
			var o grafana.Options
			if len(args) > 0 {
				var err error
				if o, err = spanOf(args[0]); err != nil {
					return err
				}
				if out == "" {
					out = besideRun(args[0], "grafana")
				}
			}
			d := grafana.New(o)
			if out != "" {
				files, err := grafana.Provision(out, url, d)
				for _, f := range files {
					fmt.Fprintln(env.stdout, f)
				}
				return err
			}
			raw, err := d.JSON()
			if err != nil {
				return err
			}
			_, err = io.Copy(env.data(), bytes.NewReader(raw))
			return err
		},
	}
	verb.Flags().StringVarP(&out, "out", "o", "", "`DIR` for the provisioning files of Grafana (default with a run: next to it, as RUN-grafana)")
	verb.Flags().StringVar(&url, "url", "http://127.0.0.1:9090", "`URL` of windtunnel serve, as Grafana reaches it")
	return verb
}

// spanOf says whose run is shown, and when it was.
func spanOf(run string) (grafana.Options, error) {
	_, manifest, err := record.OpenDir(run)
	if err != nil {
		return grafana.Options{}, err
	}
	db, err := promql.OpenRun(run)
	if err != nil {
		return grafana.Options{}, err
	}
	_, last, _ := db.Span()
	return grafana.Options{Scenario: manifest.Scenario, Started: manifest.Started, Length: time.Duration(last)}, nil
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/doctor"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
)

// doctorVerb says what this machine can hold, and how to lift its limits.
func doctorVerb(env *environment) *cobra.Command {
	var output string
	verb := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and estimate how many nodes and pods it holds",
		Long: "doctor checks cores, memory, limits on open files, ports, inotify, control groups, disks,\n" +
			"clocks and timers, and names the command that lifts each limit. It estimates how many\n" +
			"nodes, pods and connections fit. Exit code: 0 if all checks pass, 2 if one warns,\n" +
			"3 if runs do not work. The summary fits a screen; --output table has every check.",
		Example: "  windtunnel doctor\n  windtunnel doctor --output table\n  windtunnel doctor --output json | jq .holds",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := wantOneOf("--output", output, doctorForms()...); err != nil {
				return err
			}
			made, _ := versionsWithPlane() // the report says that there is no plane
			r := doctor.Examine(doctor.Look(doctor.Options{Runs: "runs", Versions: made}))
			if err := printReport(env, r, output); err != nil {
				return err
			}
			switch r.State {
			case doctor.Fine:
				return nil
			case doctor.Doubt:
				return verdictError{slo.Unknown}
			}
			return fmt.Errorf("no run can work on this machine")
		},
	}
	addOutput(verb, &output, doctorForms()...)
	return verb
}

// doctorForms are those of the report, the default first.
func doctorForms() []string { return []string{"summary", "table", "markdown", "json"} }

func printReport(env *environment, r doctor.Report, output string) error {
	switch output {
	case "json":
		return r.JSON(env.data())
	case "markdown":
		return r.Markdown(env.stdout)
	}
	paint := env.newPainter()
	colored := func(s doctor.State, text string) string {
		return paint(map[doctor.State]colour{doctor.Fine: green, doctor.Doubt: yellow, doctor.Bad: red}[s], text)
	}
	if output == "table" {
		return r.Table(env.stdout, colored)
	}
	return r.Summary(env.stdout, colored)
}

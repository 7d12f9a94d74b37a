package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/doctor"
	"github.com/windtunnel/windtunnel/internal/slo"
)

// doctorVerb says what this machine can hold, and how to lift its limits.
func doctorVerb(env *environment) *cobra.Command {
	var output string
	verb := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can hold, what limits it, and the command that lifts the limit",
		Long: "doctor looks at cores, memory, limits on open files, ports, inotify and control groups,\n" +
			"disks, clocks and timers, and estimates how many nodes, pods and connections fit. It\n" +
			"exits with 0 when all is well, 2 when something is in doubt, 3 when no run can work.",
		Example: "  windtunnel doctor\n  windtunnel doctor --output json | jq .holds",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := wantOneOf("--output", output, "table", "markdown", "json"); err != nil {
				return err
			}
			r := doctor.Examine(doctor.Look(doctor.Options{Runs: "runs", Versions: versions()}))
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
	addOutput(verb, &output, "table", "markdown", "json")
	return verb
}

func printReport(env *environment, r doctor.Report, output string) error {
	switch output {
	case "json":
		return r.JSON(env.stdout)
	case "markdown":
		return r.Markdown(env.stdout)
	}
	paint := env.paint()
	return r.Table(env.stdout, func(s doctor.State, text string) string {
		return paint(map[doctor.State]colour{doctor.Fine: green, doctor.Doubt: yellow, doctor.Bad: red}[s], text)
	})
}

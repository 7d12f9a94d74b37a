package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/flight"
	"github.com/windtunnel/windtunnel/internal/plane/process"
)

// crewFlags say who sends the load of a run.
type crewFlags struct {
	flight.Crew
	processes bool
}

func (f *crewFlags) add(verb *cobra.Command) {
	verb.Flags().IntVar(&f.Workers, "workers", 0, "share the load among so many workers: call k of a step is sent by worker k mod `N`; 0: this process sends it")
	verb.Flags().BoolVar(&f.processes, "worker-processes", false, "the workers are processes of this machine")
	verb.Flags().IntVar(&f.Tolerate, "tolerate-workers", 0, "judge the run though so many `workers` are lost, and say so in its title")
}

func (f *crewFlags) check() error {
	switch {
	case f.Workers < 0:
		return fmt.Errorf("--workers %d: want 1 or more", f.Workers)
	case f.Workers > 0 && !f.processes:
		return errors.New("--workers needs to know where the workers are to be: add --worker-processes for processes of this machine")
	case f.Workers == 0 && (f.processes || f.Tolerate != 0):
		return errors.New("--worker-processes and --tolerate-workers are about --workers N, which is missing")
	}
	return nil
}

// workerVerb is a worker of a run; package flight starts it.
func workerVerb(env *environment) *cobra.Command {
	verb := &cobra.Command{Use: flight.WorkerArg + " ACCESS INDEX SPOOL", Short: "Send a share of a run's load", Args: cobra.ExactArgs(3), Hidden: true}
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		process.Prefer()
		trim()
		ctx, cancel := env.interruptible(cmd.Context(), "stopping", func() { os.Exit(exitUnknown) })
		defer cancel()
		o := flight.WorkerOptions{UID: fmt.Sprintf("process %d", os.Getpid()), Spool: args[2], Log: env.logger()}
		raw, err := os.ReadFile(args[0])
		if err != nil {
			return fmt.Errorf("read where the leader is: %w", err)
		}
		if err := json.Unmarshal(raw, &o.Access); err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		if o.Index, err = strconv.Atoi(args[1]); err != nil {
			return fmt.Errorf("worker %q: want a number", args[1])
		}
		return flight.Work(ctx, o)
	}
	return verb
}

package main

import (
	"errors"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/flight"
)

// printPlan prints what a run would send, and starts nothing. What cannot be
// met on this machine makes it a fault.
func printPlan(env *environment, options flight.Options) error {
	f, err := flight.Plan(options)
	if err != nil {
		return err
	}
	env.notice(f.Scenario.Warnings...)
	err = f.Estimate.Write(env.stdout)
	if err == nil && !f.Effects.Empty() {
		fmt.Fprintln(env.stdout)
		err = f.Effects.Write(env.stdout, options.Kubeconfig)
	}
	if err != nil {
		return err
	}
	var unmet []error
	for _, sentence := range f.Unmet {
		unmet = append(unmet, fmt.Errorf("%s: cannot be met: %s", options.File, sentence))
	}
	return errors.Join(unmet...)
}

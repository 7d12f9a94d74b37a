package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
)

// printPlan prints what a run would send, and starts nothing. What cannot be
// met on this machine makes it a fault.
func printPlan(env *environment, options flight.Options, output string) error {
	f, err := flight.Plan(options)
	if err != nil {
		return err
	}
	if output == "json" {
		err = writePlanJSON(env, f)
	} else {
		env.printNotice(f.Said...)
		err = writePlan(env, f, options)
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

// printRBAC writes the roles that a scenario needs in a cluster of others.
func printRBAC(env *environment, o flight.Options) error {
	roles, err := flight.RBAC(o)
	if err != nil {
		return err
	}
	_, err = io.WriteString(env.data(), roles)
	return err
}

func writePlan(env *environment, f flight.Forecast, options flight.Options) error {
	err := f.Estimate.Write(env.stdout)
	if err == nil && !f.Effects.Empty() {
		fmt.Fprintln(env.stdout)
		err = f.Effects.Write(env.stdout, options.Kubeconfig)
	}
	return err
}

// writePlanJSON writes the plan for programs; times are seconds, sizes bytes.
func writePlanJSON(env *environment, f flight.Forecast) error {
	type call struct {
		Verb     string `json:"verb"`
		Resource string `json:"resource"`
		Calls    int    `json:"calls"`
	}
	e := f.Estimate
	out := struct {
		Scenario  string   `json:"scenario"`
		Calls     int      `json:"calls"`
		AtLeast   bool     `json:"calls_at_least"` // there may be more, which nobody can count before
		Seconds   float64  `json:"seconds"`
		Longer    bool     `json:"seconds_at_least"`
		PeakRate  float64  `json:"peak_rate"`
		Objects   int      `json:"objects"`
		Pods      int      `json:"pods"`
		EtcdBytes int64    `json:"etcd_bytes"`
		OpenFiles int      `json:"open_files"`
		ByKind    []call   `json:"calls_by_kind"`
		Runs      []string `json:"runs_on_this_machine"`
		Changes   []string `json:"changes_in_the_cluster"`
		Notes     []string `json:"notes"`
		Unmet     []string `json:"unmet"`
	}{f.Scenario.Name, e.Total, e.AtLeast, e.Duration.Seconds(), e.Open, e.PeakRate, e.Objects, e.Pods, e.EtcdBytes, e.OpenFiles,
		[]call{}, neverNull(f.Effects.Runs), neverNull(f.Effects.Changes), neverNull(f.Said), neverNull(f.Unmet)}
	for _, c := range e.Calls {
		out.ByKind = append(out.ByKind, call{c.Verb, c.Resource, c.Calls})
	}
	w := json.NewEncoder(env.data())
	w.SetIndent("", "  ")
	return w.Encode(out)
}

// neverNull is a list that JSON never writes as null.
func neverNull(list []string) []string { return append([]string{}, list...) }

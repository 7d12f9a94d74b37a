package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/fly/plan"
)

// clusterFlags say which cluster is flown in place of a plane of the run's own, and
// what may be done to it and to this machine.
type clusterFlags struct {
	kubeconfig string
	trust      flight.Trust
}

// addFlags gives a verb the flags; what says what it does with the cluster of a file.
func (c *clusterFlags) addFlags(verb *cobra.Command, what string) {
	f := verb.Flags()
	f.StringVar(&c.kubeconfig, "kubeconfig", "", what)
	f.StringVar(&c.trust.AuditLog, "audit-log", "", "with --kubeconfig: count the requests of each client from this audit log `FILE` of the API server, JSON lines of level Metadata or above")
	f.StringArrayVar(&c.trust.Adopt, "adopt", nil, "with --kubeconfig: allow a subject to change this existing `OBJECT`, as RESOURCE/[NAMESPACE/]NAME; repeatable")
	f.BoolVar(&c.trust.Destructive, "allow-destructive", false, "with --kubeconfig: allow requests that change or delete objects that the run did not create")
	f.BoolVar(&c.trust.OwnPods, "own-pods", false, "with --kubeconfig: read and record only pods with the label of this run")
	f.BoolVar(&c.trust.NoExec, "no-exec", false, "refuse scenarios that run programs or let the plane read files of this machine")
}

// effectsWriter says at the head of a run what it does beside sending calls.
func (c *clusterFlags) effectsWriter(env *environment) func(plan.Effects) {
	return func(e plan.Effects) { _ = e.Write(env.stderr, c.kubeconfig) } // who cannot be told is not there
}

// checkFlags refuses what is about a cluster where none is named.
func (c *clusterFlags) checkFlags() error {
	if c.trust.AuditLog != "" && c.kubeconfig == "" {
		return errors.New("--audit-log: it belongs to a cluster of --kubeconfig; for a plane that windtunnel starts, set plane.audit in the scenario")
	}
	if c.kubeconfig == "" && (len(c.trust.Adopt) > 0 || c.trust.Destructive || c.trust.OwnPods) {
		return errors.New("--adopt, --allow-destructive and --own-pods are about a cluster of --kubeconfig, which is missing")
	}
	return nil
}

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/flight"
)

// upVerb boots a plane with a fleet and stays until it is interrupted.
func upVerb(env *environment) *cobra.Command {
	var nodes int
	var durability string
	verb := &cobra.Command{
		Use:     "up",
		Short:   "Boot a control plane with a simulated fleet and stay until Ctrl-C",
		Example: "  windtunnel up --nodes 100\n  export KUBECONFIG=...   # as it prints; then kubectl get nodes",
		Args:    cobra.NoArgs,
	}
	verb.Flags().IntVar(&nodes, "nodes", 0, "simulated nodes")
	verb.Flags().StringVar(&durability, "durability", "memory", "of etcd: memory or fsync")
	callerFile, _ := callerFlags(verb)
	verb.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := env.interruptible(cmd.Context(), "stopping", func() { os.Exit(exitUnknown) })
		defer cancel()
		ctx, release, err := underCaller(ctx, *callerFile)
		if err != nil {
			return err
		}
		defer release()
		folder, err := os.MkdirTemp("", "windtunnel-up-")
		if err != nil {
			return fmt.Errorf("make a folder for logs and kubeconfig: %w", err)
		}
		defer os.RemoveAll(folder)
		kubeconfig := filepath.Join(folder, "kubeconfig")
		return flight.Up(ctx, flight.UpOptions{
			Nodes: nodes, Durability: durability, Folder: folder, Kubeconfig: kubeconfig, Log: env.logger(),
			Ready: func(server string) {
				fmt.Fprintf(env.stderr, "%s is up with %d nodes; logs in %s; Ctrl-C ends it\n", server, nodes, filepath.Join(folder, "logs"))
				fmt.Fprintf(env.stdout, "export KUBECONFIG=%s\n", kubeconfig)
			},
		})
	}
	return verb
}

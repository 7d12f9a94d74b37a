package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/kubelet"
	"github.com/windtunnel/windtunnel/internal/plane/process"
)

// kubeletVerb is a node of a cluster whose pods are processes of this machine.
func kubeletVerb(env *environment) *cobra.Command {
	var o kubelet.Options
	var kubeconfig string
	verb := &cobra.Command{
		Use:   "kubelet --processes NODE --kubeconfig FILE",
		Short: "Be a node whose pods run as processes of this machine, until Ctrl-C",
		Long: "kubelet registers a node and runs the pods that are bound to it as processes: windtunnel\n" +
			"itself where the image is named windtunnel, and other programs that --allow names. They have\n" +
			"their environment, config maps, secrets, projected volumes and emptyDirs as files, init\n" +
			"containers, restarts, grace, and limits by control group where this machine can. They have no\n" +
			"image, no network, no file system of their own and no probes: a pod that asks for these has\n" +
			"failed, and says why. Whoever may make pods in the cluster runs these programs as you.",
		Example: "  windtunnel kubelet --processes here --kubeconfig ~/.kube/config\n" +
			"  windtunnel kubelet --processes here --kubeconfig k --allow /usr/bin/my-operator --untainted",
		Args: cobra.NoArgs,
	}
	verb.Flags().StringVar(&o.Node, "processes", "", "`NODE` to register")
	verb.Flags().StringVar(&kubeconfig, "kubeconfig", "", "of the cluster: a `file`")
	verb.Flags().StringArrayVar(&o.Allow, "allow", nil, "`PATH` of a program that pods may run besides windtunnel")
	verb.Flags().StringVar(&o.Logs, "logs", "", "`folder` for what containers write (default: one that goes with the node)")
	verb.Flags().BoolVar(&o.Untainted, "untainted", false, "take pods that do not tolerate the taint "+kubelet.Taint)
	_ = errors.Join(verb.MarkFlagRequired("processes"), verb.MarkFlagRequired("kubeconfig")) // they are there
	verb.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		ctx, cancel := env.interruptible(cmd.Context(), "stopping", func() { os.Exit(exitUnknown) })
		defer cancel()
		if o.Endpoint, err = endpoint.FromKubeconfig(kubeconfig, ""); err != nil {
			return err
		}
		if o.Client, err = kubernetes.NewForConfig(o.Endpoint.Config("windtunnel-kubelet")); err != nil {
			return fmt.Errorf("%s: %w", kubeconfig, err)
		}
		if o.Executable, err = os.Executable(); err != nil {
			return fmt.Errorf("find own executable: %w", err)
		}
		if _, err := process.Sweep(os.TempDir()); err != nil { // that of one that was killed
			fmt.Fprintln(env.stderr, err)
		}
		o.Reaper, err = process.StartReaper(o.Executable, os.TempDir())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, o.Reaper.Close()) }()
		if o.Logs == "" {
			o.Logs = filepath.Join(o.Reaper.Dir(), "logs")
		}
		if err := os.MkdirAll(o.Logs, 0o700); err != nil {
			return fmt.Errorf("make the folder for logs: %w", err)
		}
		o.Clock, o.Log = clock.Start(), env.logger()
		o.Ready = func() {
			fmt.Fprintf(env.stderr, "node %s is there; logs in %s; Ctrl-C ends it and its processes\n", o.Node, o.Logs)
		}
		return kubelet.Run(ctx, o)
	}
	return verb
}

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/api/cleanup"
	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/sim/processnode"
)

// kubeletVerb is a node of a cluster whose pods are processes of this machine.
func kubeletVerb(env *environment) *cobra.Command {
	var o processnode.Options
	var kubeconfig string
	verb := &cobra.Command{
		Use:   "kubelet --processes NODE --kubeconfig FILE",
		Short: "Run a node whose pods are processes of this machine, until Ctrl-C",
		Long: "kubelet registers a node and runs its pods as processes: windtunnel itself if the image is\n" +
			"named windtunnel, and the programs of --allow. Pods have their environment, config maps,\n" +
			"secrets, projected volumes and emptyDirs as files, init containers, restarts, a grace period\n" +
			"and, if the machine supports control groups, limits. They have no image, network or file\n" +
			"system of their own and no probes. A pod that requests one of these fails, with the reason.\n\n" +
			"Anybody who can create pods in the namespace can use this machine's CPU and network with\n" +
			"your rights: a worker sends requests to the address that its leader names, and a program of\n" +
			"--allow does what its arguments and files say. Use a namespace for this purpose only, and\n" +
			"give nobody else rights in it.",
		Example: "  windtunnel kubelet --processes here --kubeconfig ~/.kube/config\n" +
			"  windtunnel kubelet --processes here --kubeconfig k --namespace ci --allow /usr/bin/my-operator --untainted",
		Args: cobra.NoArgs,
	}
	verb.Flags().StringVar(&o.Node, "processes", "", "register this `NODE` and run its pods as processes")
	verb.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `FILE` of the cluster")
	verb.Flags().StringVar(&o.Namespace, "namespace", "default", "run pods of this `NAMESPACE` only; pods of other namespaces have failed, and say why")
	verb.Flags().StringArrayVar(&o.Verbs, "allow-verb", nil, "`VERB` of windtunnel that pods may run besides worker")
	verb.Flags().StringArrayVar(&o.Allow, "allow", nil, "`PATH` of another program that pods may run; repeatable, with any arguments")
	verb.Flags().StringVar(&o.Logs, "logs", "", "`DIR` for the output of containers (default: temporary, removed with the node)")
	verb.Flags().BoolVar(&o.Untainted, "untainted", false, "accept pods that do not tolerate the taint "+processnode.Taint)
	_ = errors.Join(verb.MarkFlagRequired("processes"), verb.MarkFlagRequired("kubeconfig")) // they are there
	verb.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", func() { os.Exit(exitUnknown) })
		defer cancel()
		for _, name := range o.Verbs {
			if !slices.ContainsFunc(cmd.Root().Commands(), func(v *cobra.Command) bool { return v.Name() == name }) {
				return fmt.Errorf("--allow-verb %s: windtunnel has no such verb", name)
			}
		}
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
		o.Clock, o.Log = clock.Start(), env.newLogger()
		o.Run = "kubelet-" + strings.ToLower(rand.Text())
		release, err := holdNode(ctx, o)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release()) }()
		o.Ready = func() {
			fmt.Fprintf(env.stderr, "node %s is there; logs in %s; Ctrl-C ends it and its processes\n", o.Node, o.Logs)
		}
		return processnode.Run(ctx, o)
	}
	return verb
}

// holdNode keeps `windtunnel clean` from taking node and lease for what a killed
// kubelet has left. release removes what says so.
func holdNode(ctx context.Context, o processnode.Options) (release func() error, err error) {
	client, err := wire.New(o.Endpoint, wire.Options{UserAgent: "windtunnel-kubelet", Clock: o.Clock})
	if err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	stop, err := cleanup.Hold(ctx, client, o.Run, fmt.Sprintf("node %s, process %d", o.Node, os.Getpid()), o.Clock)
	if err != nil {
		o.Log.Warn("windtunnel clean may remove the node while it is in use", slog.Any("error", err))
		stop = func() {}
	}
	return func() error {
		stop()
		err := cleanup.Sweeper{Client: client, Within: sweepNode}.Sweep(ctx, o.Run, nil)
		return errors.Join(err, client.Close())
	}, nil
}

// sweepNode is how long a node's removal may take.
const sweepNode = 10 * time.Second

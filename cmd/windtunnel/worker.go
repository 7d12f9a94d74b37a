package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/share/leader"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/fly/share/worker"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/text"
)

// workerFlags say who sends the load of a run.
type workerFlags struct {
	leader.Settings
	processes bool
	access    string
	pods      leader.Pods
	print     bool
}

func (f *workerFlags) addFlags(verb *cobra.Command) {
	verb.Flags().IntVar(&f.Workers, "workers", 0, "share the load among `N` workers: worker k mod N sends request k of a step; 0: this process sends all")
	verb.Flags().IntVar(&f.Fleets, "fleet-workers", 0, "share nodes, hollow members and sharable subjects among `M` more workers, round-robin; 0: this process runs them")
	verb.Flags().BoolVar(&f.processes, "worker-processes", false, "start the workers as processes on this machine")
	p := &f.pods
	verb.Flags().StringVar(&p.Kubeconfig, "worker-kubeconfig", "", "run the workers as pods of a Job in the cluster of this kubeconfig `FILE`, which must not be the cluster under test")
	verb.Flags().StringVar(&p.Image, "worker-image", "windtunnel", "`IMAGE` of worker pods: the same version of windtunnel, with a user that is not root")
	verb.Flags().StringVar(&p.Namespace, "worker-namespace", "default", "existing `NAMESPACE` for worker pods")
	verb.Flags().StringVar(&p.CPU, "worker-cpu", "500m", "CPU request and limit of a worker pod, in `CORES`")
	verb.Flags().StringVar(&p.Memory, "worker-memory", "512Mi", "memory request and limit of a worker pod, a `QUANTITY`")
	verb.Flags().StringVar(&p.Leader, "leader-address", "", "`ADDRESS` at which workers on other machines reach this process, as HOST[:PORT] (default: for pods the address towards their cluster, else loopback)")
	verb.Flags().StringVar(&f.access, "worker-access", "", "write the access data of a worker, a secret, to `FILE`, or of each of several to FILE-0, FILE-1, ... (access-0.json); you start each worker yourself on any machine: windtunnel worker FILE INDEX RECORDS")
	verb.Flags().BoolVar(&p.OnPlane, "workers-on-plane", false, "allow worker pods in the cluster under test; the verdict says so")
	verb.Flags().BoolVar(&f.print, "print-manifests", false, "print the manifests that --worker-kubeconfig would create, without the token, and start nothing")
	verb.Flags().IntVar(&f.Tolerate, "tolerate-workers", 0, "judge the run if up to `NUMBER` workers are lost; the title says how many")
	needOneOf(verb, []string{"worker-kubeconfig", "print-manifests"}, "worker-image", "worker-namespace", "worker-cpu", "worker-memory")
	needOneOf(verb, []string{"worker-kubeconfig"}, "workers-on-plane")
	needOneOf(verb, []string{"worker-kubeconfig", "worker-access"}, "leader-address")
}

func (f *workerFlags) checkFlags() error {
	some := f.Workers > 0 || f.Fleets > 0
	places := 0
	for _, one := range []bool{f.processes, f.pods.Kubeconfig != "", f.access != ""} {
		if one {
			places++
		}
	}
	switch {
	case f.Workers < 0:
		return fmt.Errorf("--workers %d: want 1 or more", f.Workers)
	case f.Fleets < 0:
		return fmt.Errorf("--fleet-workers %d: want 1 or more", f.Fleets)
	case !some && (places > 0 || f.Tolerate != 0 || f.print):
		return errors.New("--worker-processes, --worker-kubeconfig, --worker-access, --tolerate-workers and --print-manifests are about --workers N or --fleet-workers M, which are missing")
	case places > 1:
		return errors.New("--worker-processes, --worker-kubeconfig or --worker-access: workers are in one place")
	case some && places == 0 && !f.print:
		return errors.New("--workers and --fleet-workers need to know where the workers are to be: add --worker-processes for processes of this machine, --worker-kubeconfig FILE for pods, or --worker-access FILE for those that you start")
	case (f.processes || f.access != "") && f.print:
		return errors.New("--print-manifests is about workers that are pods: leave --worker-processes and --worker-access out")
	}
	switch {
	case f.access != "":
		f.Manual = &leader.ManualWorkers{Access: f.access, Leader: f.pods.Leader}
	case some && !f.processes:
		f.Pods = &f.pods
	}
	return nil
}

// printManifests prints what would be made on the workers' host.
func (f *workerFlags) printManifests(env *environment) error {
	raw, err := f.Manifests()
	if err == nil {
		_, err = env.data().Write(raw)
	}
	return err
}

// workerVerb is a worker of a run; package leader starts it.
func workerVerb(env *environment) *cobra.Command {
	verb := &cobra.Command{Use: worker.Verb + " ACCESS INDEX SPOOL", Short: "Send a share of a run's load", Args: cobra.ExactArgs(3), Hidden: true}
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		process.Prefer()
		trimExecutablePages()
		ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", func() { os.Exit(exitUnknown) })
		defer cancel()
		o := worker.Options{Spool: args[2], Local: args[0] == worker.StandardInput, Log: env.newLogger()}
		var err error
		if o.Access, err = readAccess(env, args[0]); err != nil {
			return err
		}
		if o.Index, err = strconv.Atoi(args[1]); err != nil {
			return fmt.Errorf("worker %q: want a number", args[1])
		}
		return worker.Work(ctx, o)
	}
	return verb
}

// readAccess reads how a worker finds its leader.
func readAccess(env *environment, file string) (a protocol.Access, err error) {
	var raw []byte
	if file == worker.StandardInput {
		raw, err = io.ReadAll(env.stdin)
	} else {
		raw, err = os.ReadFile(file)
	}
	if err != nil {
		return a, fmt.Errorf("read where the leader is: %w", err)
	}
	return a, text.DecodeJSON(file, raw, &a)
}

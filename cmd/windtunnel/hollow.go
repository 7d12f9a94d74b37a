package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/fly/doctor"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// hollowFlags are those of the verb hollow.
type hollowFlags struct {
	options  hollow.Options
	clusters int
	load     []string
	save     string
	history  unit.Bytes
	token    string // the file that it is in
}

// hollowVerb serves hollow clusters until it is interrupted.
func hollowVerb(env *environment) *cobra.Command {
	var f hollowFlags
	verb := &cobra.Command{
		Use:   "hollow",
		Short: "Serve thousands of in-memory API servers until Ctrl-C",
		Long: "hollow serves Kubernetes API servers that keep their objects in memory. Each has an address\n" +
			"and a context in the kubeconfig. They support create, read, update, patch, apply, delete,\n" +
			"watch, discovery, OpenAPI, custom resources, scale, binding, eviction, tokens and access\n" +
			"reviews. They validate metadata and the schemas of custom resources, delete the contents of\n" +
			"namespaces and the dependents of deleted owners, and run the controllers of the flags below.\n" +
			"They have no other controllers, no admission, no authorization, few defaults, and no exec,\n" +
			"logs or proxies. docs/how-to/hollow.md has the details.",
		Example: "  windtunnel hollow --clusters 200\n" +
			"  windtunnel hollow --stages fast,deployments --binder --heartbeats 10s\n" +
			"  windtunnel hollow --load state.yaml --save state.yaml",
		Args: cobra.NoArgs,
	}
	o := &f.options
	verb.Flags().IntVar(&f.clusters, "clusters", 1, "`NUMBER` of clusters, named hollow-1, hollow-2 ...")
	verb.Flags().StringVar(&o.Host, "host", "127.0.0.1", "`ADDRESS` to listen on")
	verb.Flags().IntVar(&o.Port, "port", 0, "`PORT` of the first cluster, or of all with --shared; further clusters use the next ports; 0: any free port")
	verb.Flags().BoolVar(&o.Shared, "shared", false, "serve all clusters on one port, under /clusters/NAME")
	verb.Flags().StringVar(&f.token, "token-file", "", "`FILE` with the bearer token of all clusters (default: the value of "+tokenVariable+", or else a random token)")
	verb.Flags().StringVar(&o.Token, "token", "", "bearer `TOKEN` of all clusters: other users of this machine see it in the list of processes")
	verb.Flags().DurationVar(&o.History, "history", 75*time.Second, "`DURATION` for which events are kept for watches")
	verb.Flags().TextVar(&f.history, "history-bytes", unit.Bytes(hollow.DefaultHistoryBytes), "`SIZE` of replaced and deleted objects, such as 64Mi, that a cluster keeps at most for watches and lists of the past")
	verb.Flags().IntVar(&o.Models.Nodes, "nodes", 0, "`NUMBER` of ready nodes in every cluster at the start")
	verb.Flags().BoolVar(&o.Models.Binder, "binder", false, "bind pods to ready nodes in turn")
	verb.Flags().BoolVar(&o.Models.ServiceAccounts, "service-accounts", false, "create the service account default and the ConfigMap kube-root-ca.crt in every namespace")
	verb.Flags().StringSliceVar(&o.Models.Stages, "stages", nil, "`STAGES` that objects go through: built-in sets (fast, general, chaos, volumes, deployments) and files of kwok stages")
	verb.Flags().DurationVar(&o.Models.Heartbeats, "heartbeats", 0, "`DURATION` between renewals of node leases; 0: never")
	verb.Flags().StringArrayVar(&f.load, "load", nil, "`FILE` of objects that every cluster has at the start: a List, or YAML documents")
	verb.Flags().StringVar(&f.save, "save", "", "write the objects of the first cluster to `FILE` at the end: a List if it ends in .json, else YAML documents")
	verb.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", func() { os.Exit(exitUnknown) })
		defer cancel()
		return f.serveClusters(ctx, env)
	}
	return verb
}

// serveClusters serves clusters until ctx ends.
func (f *hollowFlags) serveClusters(ctx context.Context, env *environment) (err error) {
	if f.clusters < 1 {
		return fmt.Errorf("--clusters %d: want 1 or more", f.clusters)
	}
	if f.options.Models.Nodes < 0 {
		return fmt.Errorf("--nodes %d: want 0 or more", f.options.Models.Nodes)
	}
	if p := f.options.Port; p < 0 || p > math.MaxUint16 {
		return fmt.Errorf("--port %d: want 0 to %d", p, math.MaxUint16)
	}
	for flag, d := range map[string]time.Duration{"history": f.options.History, "heartbeats": f.options.Models.Heartbeats} {
		if d < 0 {
			return fmt.Errorf("--%s %s: want 0s or more", flag, d)
		}
	}
	if err := f.checkSave(); err != nil {
		return err
	}
	if f.history == 0 || f.history > math.MaxInt {
		return fmt.Errorf("--history-bytes %s: want 1 byte or more", f.history.Human())
	}
	f.options.HistoryBytes = int(f.history)
	f.options.Models.Stages, f.options.Models.StagesDir = builtin.FromFlags(f.options.Models.Stages)
	if err := f.readToken(env); err != nil {
		return err
	}
	if !f.options.Shared {
		if err := doctor.CheckListeners(f.clusters, f.options.Port); err != nil {
			return fmt.Errorf("--clusters %d: %w; with --shared all clusters have one port", f.clusters, err)
		}
	}
	s, err := hollow.New(f.options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	contexts, first := map[string]endpoint.Endpoint{}, (*hollow.Cluster)(nil)
	for i := range f.clusters {
		c, err := s.Cluster("hollow-" + strconv.Itoa(i+1))
		if err != nil {
			return err
		}
		if err := f.loadObjects(c); err != nil {
			return err
		}
		if contexts[c.Name] = c.Endpoint(); first == nil {
			first = c
		}
	}
	if _, err := process.Sweep(os.TempDir()); err != nil { // that of one that was killed; plane.Start does it for planes
		fmt.Fprintln(env.stderr, err)
	}
	private, err := process.NewFolder(os.TempDir(), process.HollowPrefix)
	if err != nil {
		return fmt.Errorf("make a folder for the kubeconfig: %w", err)
	}
	defer func() { err = errors.Join(err, private.Close()) }()
	path := filepath.Join(private.Dir(), "kubeconfig")
	if err := endpoint.WriteContexts(path, first.Name, contexts); err != nil {
		return err
	}
	if f.clusters == 1 {
		fmt.Fprintf(env.stderr, "1 hollow cluster is up at %s; Ctrl-C ends it\n", first.Address())
	} else {
		fmt.Fprintf(env.stderr, "serving %s, the first at %s; Ctrl-C ends them\n", unit.Count(f.clusters, "hollow clusters"), first.Address())
	}
	fmt.Fprintf(env.stdout, "export KUBECONFIG=%s\n", path)
	<-ctx.Done()
	return f.saveObjects(first)
}

// loadObjects loads the objects that a cluster begins with.
func (f *hollowFlags) loadObjects(c *hollow.Cluster) error {
	for _, path := range f.load {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("load objects: %w", err)
		}
		_, err = c.Load(file)
		file.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// checkSave looks at the beginning whether the objects can be saved at the end. A file that they
// have been loaded from is replaced.
func (f *hollowFlags) checkSave() error {
	if f.save == "" || slices.Contains(f.load, f.save) {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(f.save)); err != nil || !info.IsDir() {
		return fmt.Errorf("--save %s: there is no folder %s", f.save, filepath.Dir(f.save))
	}
	begin := "---\n"
	if strings.HasSuffix(f.save, ".json") {
		begin = "{"
	}
	return checkReplaced(f.save, []byte(begin))
}

// saveObjects saves the objects of a cluster, if that is asked for: in place of a file that may
// be the only copy of them, and only when all have been written. There are Secrets among
// them, so only the user can read it.
func (f *hollowFlags) saveObjects(c *hollow.Cluster) error {
	if f.save == "" {
		return nil
	}
	if err := f.saveTo(f.save, c); err != nil {
		return fmt.Errorf("save objects: %w", err)
	}
	return nil
}

func (f *hollowFlags) saveTo(path string, c *hollow.Cluster) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	write := func(to io.Writer) error {
		out := bufio.NewWriter(to)
		return errors.Join(c.Save(out, !strings.HasSuffix(f.save, ".json")), out.Flush())
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // a pipe, or standard output
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(file), file.Close())
	}
	folder, name := filepath.Split(path)
	file, err := record.Dir(filepath.Clean(folder)).Create(name, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := write(file); err != nil {
		return err
	}
	return file.Keep()
}

// readToken takes the token from where other users of the machine do not see it.
func (f *hollowFlags) readToken(env *environment) error {
	switch {
	case f.options.Token != "" && f.token != "":
		return errors.New("--token and --token-file: want one of them")
	case f.options.Token != "":
		fmt.Fprintf(env.stderr, "--token is visible to all users of this machine in the list of processes: use --token-file FILE or the variable %s\n", tokenVariable)
	case f.token != "":
		raw, err := os.ReadFile(f.token)
		if err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
		if f.options.Token = strings.TrimSpace(string(raw)); f.options.Token == "" {
			return fmt.Errorf("--token-file %s: it is empty", f.token)
		}
	default:
		f.options.Token = os.Getenv(tokenVariable)
	}
	return nil
}

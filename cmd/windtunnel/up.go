package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// upFlags are those of the verb up.
type upFlags struct {
	nodes         int
	real, hollow  int // members
	durability    string
	stages        []string
	flags, limits []string
	set           []string
}

// upVerb boots a plane with a fleet and stays until it is interrupted.
func upVerb(env *environment) *cobra.Command {
	var f upFlags
	verb := &cobra.Command{
		Use:   "up [FILE]",
		Short: "Run a control plane with a simulated fleet until Ctrl-C",
		Long: "up boots a control plane with a fleet, for kubectl and other clients, and stays until\n" +
			"Ctrl-C. A scenario FILE sets the control plane and the fleet; its steps are ignored, and\n" +
			"flags override it. windtunnel fault injects faults meanwhile.",
		Example: "  windtunnel up --nodes 100\n  export KUBECONFIG=...   # as it prints; then kubectl get nodes\n" +
			"  windtunnel up --nodes 10 --stages general --flag kube-apiserver.max-requests-inflight=50 --limit etcd.cpu=0.5\n" +
			"  windtunnel up examples/density.yaml --set nodes=20\n" +
			"  windtunnel up --members 3 --hollow 200   # kubectl --context hollow-7 get namespaces",
		Args: cobra.MaximumNArgs(1),
	}
	verb.Flags().IntVar(&f.nodes, "nodes", 0, "`NUMBER` of simulated nodes")
	verb.Flags().IntVar(&f.real, "members", 0, "`NUMBER` of real member clusters, member-1 ...: each has a kube-apiserver and a context in the kubeconfig")
	verb.Flags().IntVar(&f.hollow, "hollow", 0, "`NUMBER` of in-memory member clusters, hollow-1 ...")
	verb.Flags().StringVar(&f.durability, "durability", "", "durability of etcd, `memory` or fsync (default memory)")
	verb.Flags().StringSliceVar(&f.stages, "stages", nil, "`STAGES` of pods and nodes: built-in sets (fast, general, chaos, volumes, deployments) and files of kwok stages (default fast)")
	verb.Flags().StringArrayVar(&f.flags, "flag", nil, "set a flag of a component, as `COMPONENT.NAME=VALUE` without dashes; repeatable")
	verb.Flags().StringArrayVar(&f.limits, "limit", nil, "`LIMIT` of a component, as COMPONENT.cpu=CORES or COMPONENT.memory=SIZE; plane.cpu and plane.memory limit all components together; repeatable")
	verb.Flags().StringArrayVar(&f.set, "set", nil, "set a parameter of FILE, as `NAME=VALUE`; repeatable")
	callerFile, _ := callerFlags(verb)
	verb.RunE = func(cmd *cobra.Command, args []string) (err error) {
		o, err := f.upOptions(args, cmd.Flags().Changed("nodes"))
		if err != nil {
			return err
		}
		ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", func() { os.Exit(exitUnknown) })
		defer cancel()
		ctx, release, err := underCaller(ctx, *callerFile)
		if err != nil {
			return err
		}
		defer release()
		private, err := process.NewFolder(os.TempDir(), process.UpPrefix)
		if err != nil {
			return fmt.Errorf("make a folder for logs and kubeconfig: %w", err)
		}
		defer func() { err = errors.Join(err, private.Close()) }()
		folder := private.Dir()
		o.Folder, o.Kubeconfig, o.Log = folder, filepath.Join(folder, "kubeconfig"), env.newLogger()
		o.Ready = func(server string) {
			fmt.Fprintf(env.stderr, "%s is up with %s; logs in %s; Ctrl-C ends it\n", server, unit.Text(float64(o.Fleet.Nodes), "nodes"), filepath.Join(folder, "logs"))
			if len(o.Members) > 0 {
				fmt.Fprintf(env.stderr, "contexts of members: %s\n", contextNames(o.Members))
			}
			fmt.Fprintf(env.stdout, "export KUBECONFIG=%s\n", o.Kubeconfig)
		}
		return flight.Up(ctx, o)
	}
	return verb
}

// contextNames names those that the kubeconfig has for members: "member-1, hollow-1 to hollow-200".
func contextNames(all []scenario.Members) string {
	var parts []string
	for _, m := range all {
		switch first := m.Name + "-1"; {
		case m.Count == 1:
			parts = append(parts, first)
		case m.Count > 1:
			parts = append(parts, fmt.Sprintf("%s to %s-%d", first, m.Name, m.Count))
		}
	}
	return strings.Join(parts, ", ")
}

// upOptions returns what to boot: the plane and the fleet of a file, if one is named,
// and what flags say.
func (f *upFlags) upOptions(args []string, nodes bool) (flight.UpOptions, error) {
	for name, n := range map[string]int{"nodes": f.nodes, "members": f.real, "hollow": f.hollow} {
		if n < 0 {
			return flight.UpOptions{}, fmt.Errorf("--%s %d: want 0 or more", name, n)
		}
	}
	s, folder, err := f.readScenario(args)
	if err != nil {
		return flight.UpOptions{}, err
	}
	o := flight.UpOptions{Plane: s.Plane, Fleet: s.Fleet, BaseDir: folder, StagesDir: folder}
	o.Plane.Components = maps.Clone(o.Plane.Components)
	o.Plane.Durability = cmp.Or(f.durability, o.Plane.Durability)
	if o.Plane.Durability != "memory" && o.Plane.Durability != "fsync" {
		return o, fmt.Errorf("--durability %s: want memory or fsync", o.Plane.Durability)
	}
	if nodes {
		o.Fleet.Nodes = f.nodes
	}
	if o.Members, err = f.allMembers(s); err != nil {
		return o, err
	}
	if len(f.stages) > 0 {
		o.Fleet.Stages, o.StagesDir = builtin.FromFlags(f.stages)
	}
	return o, f.addComponents(&o.Plane)
}

// allMembers are those of a file, and those of flags.
func (f *upFlags) allMembers(s *scenario.Scenario) ([]scenario.Members, error) {
	all := *s
	for _, m := range s.Members {
		if m.Fleet != nil && m.Fleet.Nodes > 0 {
			return nil, fmt.Errorf("members %s: up starts no nodes in members: leave their fleet out", m.Name)
		}
	}
	for _, m := range []scenario.Members{{Name: "member", Count: f.real, Kind: scenario.RealMember}, {Name: "hollow", Count: f.hollow, Kind: scenario.HollowMember}} {
		if m.Count != 0 {
			all.Members = append(slices.Clone(all.Members), m)
		}
	}
	all.Complete()
	return all.Members, all.Validate()
}

func (f *upFlags) readScenario(args []string) (*scenario.Scenario, string, error) {
	set, err := parseSet(f.set)
	if err != nil {
		return nil, "", err
	}
	if len(args) == 0 {
		s, err := scenario.Parse("up", []byte("scenario: up\nsteps: [{pause: 1s}]\n"), set)
		return s, ".", err
	}
	s, err := scenario.Load(args[0], set)
	return s, filepath.Dir(args[0]), err
}

// addComponents takes the flags and limits of components.
func (f *upFlags) addComponents(p *scenario.Plane) error {
	if p.Components == nil {
		p.Components = map[string]scenario.Component{}
	}
	for _, text := range f.flags {
		name, field, value, err := ofComponent("--flag", text)
		if err != nil {
			return err
		}
		c := p.Components[name]
		c.Flags = maps.Clone(c.Flags)
		if c.Flags == nil {
			c.Flags = map[string]string{}
		}
		c.Flags[strings.TrimLeft(field, "-")] = value
		p.Components[name] = c
	}
	for _, text := range f.limits {
		if err := addLimit(p, text); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Components)) {
		c, limits := p.Components[name], p.Limits
		if limits.CPU > 0 && c.CPU > limits.CPU || limits.Memory > 0 && c.Memory > limits.Memory {
			return fmt.Errorf("the limit of %s is above that of the plane as a whole", name)
		}
	}
	return nil
}

// addLimit takes a limit of a component, or of the plane as a whole.
func addLimit(p *scenario.Plane, text string) error {
	name, field, value, err := ofComponent("--limit", text)
	if err != nil {
		return err
	}
	l, c := p.Limits, p.Components[name]
	if name != record.WholePlane {
		l = scenario.Limits{CPU: c.CPU, Memory: c.Memory}
	}
	switch field {
	case "cpu":
		if l.CPU, err = unit.Parse(value, "cores"); err == nil && !(l.CPU > 0) {
			err = fmt.Errorf("want more than 0 cores")
		}
	case "memory":
		err = l.Memory.UnmarshalText([]byte(value))
	default:
		err = fmt.Errorf("want %s.cpu or %s.memory", name, name)
	}
	if err != nil {
		return fmt.Errorf("--limit %s: %w", text, err)
	}
	if name == record.WholePlane {
		p.Limits = l
		return nil
	}
	c.CPU, c.Memory = l.CPU, l.Memory
	p.Components[name] = c
	return nil
}

// ofComponent takes COMPONENT.NAME=VALUE apart.
func ofComponent(flag, text string) (name, field, value string, err error) {
	left, value, ok := strings.Cut(text, "=")
	name, field, dot := strings.Cut(left, ".")
	switch {
	case !ok || !dot || field == "" || value == "":
		return "", "", "", fmt.Errorf("%s %s: want COMPONENT.NAME=VALUE", flag, text)
	case flag == "--limit" && name == record.WholePlane:
	case !slices.Contains(scenario.Components(), name):
		return "", "", "", fmt.Errorf("%s %s: %q is no component: want one of %s", flag, text, name, strings.Join(scenario.Components(), ", "))
	}
	return name, field, value, nil
}

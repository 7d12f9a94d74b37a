package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageWidth is how wide the lines of flags are, in columns.
const usageWidth = 100

// A group of flags, or of verbs, has a heading in the help.
type group struct {
	heading string
	names   []string
}

// verbGroups are the verbs by what a user wants. A verb that no group names comes last.
func verbGroups() []group {
	return []group{
		{"Start here:", []string{"demo", "doctor", "examples", "init", "validate"}},
		{"Run and judge:", []string{"run", "judge", "report", "serve", "up", "fault", "clean"}},
		{"Compare and search:", []string{"ab", "atlas", "bisect", "compare", "search", "capacity", "history"}},
		{"Publish and check:", []string{"assess", "publish", "verify", "reproduce", "site"}},
		{"Control planes and clusters:", []string{"plane", "subject", "hollow", "fleet", "kubelet", "stage"}},
		{"Files of other tools:", []string{"import", "export", "schema"}},
	}
}

// flagGroups are the flags of verbs that have many, by what they are about.
func flagGroups(verb string) []group {
	scenario := group{"Scenario", []string{"set", "seed", "no-exec", "max-neighbours"}}
	cluster := group{"Cluster under test", []string{"kubeconfig", "audit-log", "own-pods", "adopt", "allow-destructive"}}
	switch verb {
	case "run":
		return []group{
			{"Scenario", []string{"set", "seed", "overrides", "env", "no-exec", "allow-unsupported-skew", "max-neighbours"}},
			{"Without starting anything", []string{"plan", "print-rbac", "print-manifests"}},
			cluster,
			{"Results", []string{"out", "output", "parquet"}},
			{"Workers", []string{"workers", "fleet-workers", "tolerate-workers", "leader-address", "worker-processes", "worker-access"}},
			{"Workers in pods", []string{"worker-kubeconfig", "worker-namespace", "worker-image", "worker-cpu", "worker-memory", "workers-on-plane"}},
		}
	case "ab":
		return []group{{"Sides", []string{"a", "b", "repeats"}}, scenario, cluster, {"Results", []string{"measure", "fail-above", "all", "html", "out", "output"}}}
	case "history":
		return []group{
			{"Runs", []string{"add", "csv", "higher", "file", "keep"}},
			{"Changes that are meant to be so", []string{"accept", "reason", "owner"}},
			{"Results", []string{"measure", "fail-above", "all", "output"}},
		}
	case "bisect":
		return []group{{"Sides", []string{"good", "bad", "between", "build", "measure", "runs"}}, scenario, cluster, {"Results", []string{"out", "output"}}}
	case "atlas":
		return []group{{"Gates", []string{"component", "gate", "stage", "plan"}}, {"Scenario", []string{"set", "seed", "max-neighbours"}}, {"Results", []string{"out", "output"}}}
	case "assess":
		return []group{
			{"What is varied", []string{"size-param", "rate-param", "workers-param", "limiter-param", "restart-param", "resync-param", "webhook-param", "off", "on", "repeats", "plan"}},
			{"Scenario", []string{"program", "set", "seed", "max-neighbours"}}, {"Results", []string{"out", "output", "key"}},
		}
	case "reproduce":
		return []group{
			{"Bundle", []string{"signer", "scenario", "allow-exec", "repeats", "max-neighbours"}},
			{"Cluster under test", []string{"kubeconfig"}}, {"Results", []string{"out", "output", "add", "key"}},
		}
	case "search":
		return []group{
			{"Search", []string{"vary", "goal", "rate", "resolution", "columns", "repeats", "runs", "budget"}},
			scenario, cluster, {"Results", []string{"out", "output"}},
		}
	case "fault":
		return []group{{"Targets", []string{"folder", "selector", "count", "percent"}}, {"Fault", []string{"for", "share", "delay", "down", "between"}}}
	case "hollow":
		return []group{
			{"Clusters", []string{"clusters", "host", "port", "shared"}},
			{"Objects", []string{"nodes", "service-accounts", "load", "save", "history", "history-bytes"}},
			{"Controllers", []string{"stages", "binder", "heartbeats"}},
			{"Access", []string{"token", "token-file"}},
		}
	case "fleet":
		return fleetFlagGroups()
	}
	return nil
}

func fleetFlagGroups() []group {
	return []group{
		{"Cluster", []string{"kubeconfig", "master", "connections", "shard"}},
		{"Nodes to simulate", []string{
			"manage-all-nodes", "manage-single-node", "manage-nodes-with-label-selector", "manage-nodes-with-annotation-selector",
			"disregard-status-with-label-selector", "disregard-status-with-annotation-selector",
		}},
		{"Stages", []string{"config", "stages", "enable-crds", "seed"}},
		{"What nodes do", []string{"traffic", "node-lease-duration-seconds", "node-ip", "node-name", "node-port", "cidr"}},
		{"Server for logs, exec and metrics", []string{"server-address", "tls-cert-file", "tls-private-key-file", "client-ca-file"}},
		{"Log and records", []string{"records", "v", "tracing-endpoint", "tracing-sampling-rate-per-million"}},
	}
}

// groupHelp gives the help of a command and of all below it their groups.
func groupHelp(root *cobra.Command) {
	for _, g := range verbGroups() {
		root.AddGroup(&cobra.Group{ID: g.heading, Title: g.heading})
		for _, verb := range root.Commands() {
			if slices.Contains(g.names, verb.Name()) {
				verb.GroupID = g.heading
			}
		}
	}
	root.SetUsageFunc(func(verb *cobra.Command) error {
		_, err := fmt.Fprint(verb.OutOrStderr(), usageOf(verb))
		return err
	})
}

// usageOf returns what cobra prints below the text of a verb, with its flags in groups.
func usageOf(verb *cobra.Command) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if verb.Runnable() {
		b.WriteString("  " + verb.UseLine() + "\n")
	}
	if verb.HasAvailableSubCommands() {
		b.WriteString("  " + verb.CommandPath() + " [command]\n")
	}
	if verb.HasExample() {
		b.WriteString("\nExamples:\n" + verb.Example + "\n")
	}
	writeVerbs(&b, verb)
	writeFlags(&b, verb)
	if verb.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse %q for more information about a command.\n", verb.CommandPath()+" [command] --help")
	}
	return b.String()
}

// writeVerbs lists the commands below one, by groups where there are any.
func writeVerbs(b *strings.Builder, verb *cobra.Command) {
	list := func(heading, id string) {
		first := true
		for _, below := range verb.Commands() {
			if below.GroupID != id || !below.IsAvailableCommand() && below.Name() != "help" {
				continue
			}
			if first {
				b.WriteString("\n" + heading + "\n")
			}
			first = false
			fmt.Fprintf(b, "  %-*s %s\n", below.NamePadding(), below.Name(), below.Short)
		}
	}
	for _, g := range verb.Groups() {
		list(g.Title, g.ID)
	}
	if len(verb.Groups()) > 0 {
		list("Others:", "")
		return
	}
	list("Available Commands:", "")
}

// writeFlags lists a verb's flags, those of no group first.
func writeFlags(b *strings.Builder, verb *cobra.Command) {
	groups := flagGroups(verb.Name())
	if verb.Parent() != verb.Root() {
		groups = nil
	}
	rest := pflag.NewFlagSet("", pflag.ContinueOnError)
	sets := make([]*pflag.FlagSet, len(groups))
	for i := range sets {
		sets[i] = pflag.NewFlagSet("", pflag.ContinueOnError)
		sets[i].SortFlags = false
		for _, name := range groups[i].names {
			if f := verb.LocalFlags().Lookup(name); f != nil {
				sets[i].AddFlag(f)
			}
		}
	}
	verb.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !slices.ContainsFunc(groups, func(g group) bool { return slices.Contains(g.names, f.Name) }) {
			rest.AddFlag(f)
		}
	})
	write := func(heading string, flags *pflag.FlagSet) {
		if flags.HasAvailableFlags() {
			b.WriteString("\n" + heading + ":\n" + strings.TrimRight(flags.FlagUsagesWrapped(usageWidth), " \n") + "\n")
		}
	}
	write("Flags", rest)
	for i, g := range groups {
		write(g.heading, sets[i])
	}
}

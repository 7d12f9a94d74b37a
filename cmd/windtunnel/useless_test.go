package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// always says that a flag has an effect whatever else is given.
const always = ""

// useless are the flags of the verbs, each with command lines on which it would do nothing, and
// which are refused: s.yaml is a scenario, and o.yaml one with a subject. always: there is no such
// line. Flags that many verbs have are in usual.
func useless() map[string]map[string][]string {
	cluster := func(verb string) map[string][]string {
		return map[string][]string{
			"kubeconfig": {verb + " --kubeconfig="}, "audit-log": {verb + " --audit-log a"}, "own-pods": {verb + " --own-pods"},
			"adopt": {verb + " --adopt nodes/a"}, "allow-destructive": {verb + " --allow-destructive"}, "no-exec": {always},
		}
	}
	with := func(base map[string][]string, more map[string][]string) map[string][]string {
		for name, lines := range more {
			base[name] = lines
		}
		return base
	}
	return map[string]map[string][]string{
		"run": with(cluster("run s.yaml"), map[string][]string{
			"overrides": {"run s.yaml --overrides o.yaml", "run s.yaml --plan --overrides o.yaml"}, "env": {"run s.yaml --env HOME", "run s.yaml --plan --env HOME"},
			"allow-unsupported-skew": {"run s.yaml --allow-unsupported-skew", "run s.yaml --plan --allow-unsupported-skew"},
			"plan":                   {always}, "print-rbac": {"run s.yaml --plan --print-rbac"},
			"print-manifests": {"run s.yaml --print-manifests", "run s.yaml --plan --workers 2 --print-manifests", "run s.yaml --print-rbac --workers 2 --print-manifests", "run s.yaml --workers 2 --worker-processes --print-manifests"},
			"output":          {"run s.yaml --plan --output markdown", "run s.yaml --plan --output github", "run s.yaml --print-rbac --output json", "run s.yaml --workers 2 --print-manifests --output json"},
			"parquet":         {always}, // --plan behind a command line shows what that would send
			"workers":         {"run s.yaml --workers 2"}, "fleet-workers": {"run s.yaml --fleet-workers 2", "run s.yaml --plan --fleet-workers 2 --worker-processes"},
			"tolerate-workers": {"run s.yaml --tolerate-workers 1", "run s.yaml --plan --workers 2 --worker-processes --tolerate-workers 2"},
			"leader-address":   {"run s.yaml --leader-address h:1", "run s.yaml --workers 2 --worker-processes --leader-address h:1", "run s.yaml --workers 2 --print-manifests --leader-address h:1"},
			"worker-processes": {"run s.yaml --worker-processes", "run s.yaml --workers 2 --worker-processes --worker-access a", "run s.yaml --workers 2 --worker-processes --worker-kubeconfig k"},
			"worker-access":    {"run s.yaml --worker-access a", "run s.yaml --workers 2 --worker-access a --worker-kubeconfig k"}, "worker-kubeconfig": {"run s.yaml --worker-kubeconfig k"},
			"worker-namespace": {"run s.yaml --worker-namespace n", "run s.yaml --workers 2 --worker-processes --worker-namespace n"},
			"worker-image":     {"run s.yaml --worker-image i", "run s.yaml --workers 2 --worker-access a --worker-image i"},
			"worker-cpu":       {"run s.yaml --worker-cpu 1", "run s.yaml --plan --workers 2 --worker-processes --worker-cpu 1"},
			"worker-memory":    {"run s.yaml --worker-memory 1Gi", "run s.yaml --workers 2 --worker-processes --worker-memory 1Gi"},
			"workers-on-plane": {"run s.yaml --workers-on-plane", "run s.yaml --workers 2 --worker-processes --workers-on-plane", "run s.yaml --workers 2 --print-manifests --workers-on-plane"},
		}),
		"ab": with(cluster("ab s.yaml --a n=1 --b n=2"), map[string][]string{
			"a": {"ab s.yaml --a n=1", "ab s.yaml --a m=1 --b m=2"}, "b": {"ab s.yaml --b n=1", "ab s.yaml --a n=1 --b m=2"}, "repeats": {"ab s.yaml --a n=1 --b n=2 --repeats 0"},
			"measure": {always}, "fail-above": {"ab s.yaml --a n=1 --b n=2 --repeats 2 --fail-above 5%"}, "all": {always}, "html": {always},
		}),
		"compare": {"measure": {always}, "fail-above": {always}, "all": {always}, "html": {always}},
		"search": with(cluster("search s.yaml --vary n=1..9"), map[string][]string{
			"vary": {"search s.yaml --vary m=1..9"}, "goal": {"search s.yaml --vary n=1..9 --goal x"}, "rate": {always}, "resolution": {"search s.yaml --vary n=1..9 --resolution 0"},
			"columns": {"search s.yaml --vary n=1..9 --columns 3"}, "repeats": {"search s.yaml --vary n=1..9 --repeats 0"}, "runs": {"search s.yaml --vary n=1..9 --runs -1"},
			"budget": {"search s.yaml --vary n=1..9 --budget -1s"},
		}),
		"bisect": with(cluster("bisect s.yaml --good n=1 --bad n=2"), map[string][]string{
			"good": {"bisect s.yaml --good n=1 --bad n=1"}, "bad": {"bisect s.yaml --bad n=3"},
			"between": {"bisect s.yaml --bad n=9 --between m=4,5"}, "build": {always}, "measure": {always}, "runs": {"bisect s.yaml --bad n=9 --runs 0", "bisect s.yaml --bad n=9 --runs -1"},
		}),
		"atlas": {
			"component": {"atlas s.yaml --component x"}, "gate": {always}, "stage": {"atlas s.yaml --stage ga"}, "plan": {always},
			"output": {"atlas s.yaml --plan --output json"},
		},
		"assess": {
			"size-param": {"assess operator s.yaml --size-param m=1,2", "assess feature s.yaml --on n=9 --size-param n=1,2"}, "rate-param": {"assess feature s.yaml --on n=9 --rate-param n=1,2"},
			"workers-param": {"assess feature s.yaml --on n=9 --workers-param n=1,2"}, "limiter-param": {"assess feature s.yaml --on n=9 --limiter-param n=1,2"},
			"restart-param": {"assess feature s.yaml --on n=9 --restart-param n=1,2"}, "resync-param": {"assess feature s.yaml --on n=9 --resync-param n=1,2"},
			"webhook-param": {"assess feature s.yaml --on n=9 --webhook-param n=1,2"}, "off": {"assess operator s.yaml --off n=1", "assess release s.yaml --off n=1"},
			"on": {"assess operator s.yaml --on n=1"}, "program": {"assess operator s.yaml --program no-such"}, "repeats": {"assess operator s.yaml --repeats -1", "assess operator s.yaml --repeats 0"},
			"plan": {always}, "key": {"assess operator s.yaml --plan --key k"}, "output": {"assess operator s.yaml --plan --output json"},
		},
		"publish":   {"claims": {always}, "control": {always}, "key": {always}, "remove": {"publish r -o x.wtb --remove="}},
		"verify":    {"signer": {always}},
		"reproduce": {"signer": {always}, "scenario": {always}, "allow-exec": {always}, "repeats": {always}, "kubeconfig": {always}, "add": {"reproduce b.wtb --add x"}, "key": {"reproduce b.wtb --key x"}},
		"history": {
			"add": {always}, "csv": {always}, "higher": {"history d --higher x"}, "file": {always}, "keep": {"history d --keep 0"}, "accept": {"history d --accept"},
			"reason": {"history d --reason x"}, "owner": {"history d --owner x"}, "measure": {always}, "fail-above": {"history d --fail-above 0"}, "all": {always},
		},
		"capacity": {"against": {always}, "project": {always}, "measure": {always}},
		"serve":    {"address": {always}, "tls-cert": {"serve --tls-cert c"}, "tls-key": {"serve --tls-key k"}},
		"clean": {
			"kubeconfig": {"clean"}, "run": {always}, "namespace": {always}, "dry-run": {always}, "yes": {"clean --kubeconfig k --dry-run --yes"},
			"within": {"clean --kubeconfig k --dry-run --within 1m", "clean --kubeconfig k --within 0s", "clean --kubeconfig k --within -1s"},
		},
		"up": {
			"nodes": {"up --nodes -1"}, "members": {"up --members -1"}, "hollow": {"up --hollow -1"}, "durability": {"up --durability x"}, "stages": {always},
			"flag": {"up --flag etcd.x"}, "limit": {"up --limit etcd.cpu=0"},
		},
		"hollow": {
			"clusters": {"hollow --clusters 0"}, "host": {always}, "port": {"hollow --port -1"}, "shared": {always}, "nodes": {"hollow --nodes -1"}, "service-accounts": {always},
			"load": {always}, "save": {always}, "history": {"hollow --history -1s"}, "history-bytes": {"hollow --history-bytes 0"}, "stages": {always}, "binder": {always},
			"heartbeats": {"hollow --heartbeats -1s"}, "token": {"hollow --token a --token-file b"}, "token-file": {"hollow --token-file="},
		},
		"kubelet": {
			"processes": {"kubelet --kubeconfig k"}, "kubeconfig": {"kubelet --processes n"}, "namespace": {"kubelet --processes n --kubeconfig k --namespace="}, "allow": {"kubelet --processes n --kubeconfig k --allow="},
			"allow-verb": {"kubelet --processes n --kubeconfig k --allow-verb no-such"}, "logs": {always}, "untainted": {always},
		},
		"fault": {
			"folder": {always}, "for": {always}, "share": {always}, "delay": {always}, "between": {always}, "down": {always}, // up checks them as it checks a fault step
			"count": {"fault kill etcd --count 3", "fault notready nodes --count -1"}, "percent": {"fault slow etcd --percent 3", "fault notready nodes --percent -1"}, "selector": {"fault kill kube-apiserver --selector a=b"},
		},
		"fleet": {
			"stages": {"fleet --manage-all-nodes --stages no-such"}, "shard": {"fleet --manage-all-nodes --shard 3/2"}, "traffic": {"fleet --manage-all-nodes --traffic no-such"},
			"connections": {"fleet --manage-all-nodes --connections -1"}, "seed": {always}, "records": {always},
		},
		"init":               {"from": {"init density --from m@v1"}, "package": {"init operator --package p"}, "kind": {"init operator --kind k"}},
		"import":             {"overrides": {always}, "env": {always}, "output": {always}},
		"validate":           {"overrides": {"validate s.yaml --overrides o.yaml"}, "env": {"validate s.yaml --env HOME"}},
		"site":               {"signer": {always}},
		"demo":               {"parquet": {always}},
		"stage test":         {"update": {always}},
		"plane build":        {"etcd": {always}, "again": {always}},
		"plane import":       {"sums": {always}},
		"subject build":      {"again": {always}, "main": {"subject build example.org/a@v1.0.0 ./p --main m.go"}},
		"export grafana":     {"url": {"export grafana --url http://h"}},
		"export openmetrics": {"most": {always}},
	}
}

// usual are flags that have an effect whatever else is given, and are refused where their value is
// wrong, in whatever verb.
func usual() []string { return []string{"help", "set", "seed", "max-neighbours", "out", "output"} }

// TestUselessFlags holds that a flag which would do nothing is refused with a sentence that names
// it, and that each flag of each verb was thought of.
func TestUselessFlags(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Chdir(t.TempDir())
	const text = "scenario: x\nparameters: {n: 3}\nbodies: {m: {text: '{apiVersion: v1, kind: ConfigMap, metadata: {name: \"{{ .Name }}\", namespace: default}}'}}\n" +
		"steps:\n- {name: a, create: {body: m, count: '${n}', pace: {burst: true}}}\n"
	for _, name := range []string{"s.yaml", "o.yaml"} {
		repotest.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	table := useless()
	for verb, flags := range allFlags(rootVerb(&environment{stdout: io.Discard, stderr: io.Discard})) {
		for _, name := range flags {
			lines, there := table[verb][name]
			if !there && !slices.Contains(usual(), name) {
				t.Errorf("%s --%s: when does it do nothing? Name a command line, or say always", verb, name)
			}
			for _, line := range lines {
				if line != always {
					checkUseless(t, name, line)
				}
			}
			delete(table[verb], name)
		}
		for name := range table[verb] {
			t.Errorf("%s has no flag --%s", verb, name)
		}
		delete(table, verb)
	}
	for verb := range table {
		t.Errorf("there is no verb %s", verb)
	}
}

// checkUseless runs a command line that is to be refused because of a flag.
func checkUseless(t *testing.T, flag, line string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := &environment{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what is not refused ends before it begins
	if code := executeVerb(ctx, env, strings.Fields(line)); code != exitFault || out.Len() > 0 {
		t.Errorf("%s: exit code %d, want %d; %s%s", line, code, exitFault, out.String(), errs.String())
	}
	if said := errs.String(); !strings.Contains(said, flag) {
		t.Errorf("%s: the message does not name --%s: %s", line, flag, said)
	}
}

// allFlags are the flags of all verbs that people use, by the words of the verb. Those of kwok
// have its rules, and processes of planes check theirs.
func allFlags(root *cobra.Command) map[string][]string {
	out := map[string][]string{}
	kwok := pflag.NewFlagSet("", pflag.ContinueOnError)
	configuration.Register(kwok)
	var look func(verb *cobra.Command)
	look = func(verb *cobra.Command) {
		if verb.Hidden || verb.Name() == "help" || verb.Name() == "completion" {
			return
		}
		name := strings.TrimPrefix(verb.CommandPath(), "windtunnel ")
		verb.Flags().VisitAll(func(f *pflag.Flag) {
			_, ours := f.Annotations[filledFlag]
			if ours && !f.Hidden || name == fleetName && kwok.Lookup(f.Name) == nil {
				out[name] = append(out[name], f.Name)
			}
		})
		for _, child := range verb.Commands() {
			look(child)
		}
	}
	look(root)
	return out
}

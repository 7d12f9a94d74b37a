package vm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/planes/vm"
)

func TestOptionsAreReadStrictly(t *testing.T) {
	o, err := vm.Parse([]byte("limiter: 5/10\nthreads: 3\nagents: {limiter: 50/100, scope: cluster, model: {start: 2s}, faults: {unmountShare: 0.2}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if o.Limiter.String() != "5/10" || o.Agents.Limiter.String() != "50/100" || o.Agents.Model.Start.String() != "2s" || o.Agents.Model.Concurrency != 6 {
		t.Errorf("%+v", o)
	}
	for text, want := range map[string]string{
		"limitr: 5/10":                                 "limitr",
		"limiter: fast":                                "QPS/BURST",
		"threads: 0":                                   "threads",
		"agents: {scope: all}":                         "scope",
		"agents: {hypervisor: xen}":                    "hypervisor",
		"agents: {model: {spread: -1}}":                "spread",
		"agents: {faults: {selector: '('}":             "vm:",
		"agents: {faults: {stuckShare: 2}}\nshards: 0": "shards",
	} {
		if _, err := vm.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCommands(t *testing.T) {
	o := vm.Default()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	o.Shards, o.Agents.Processes = 2, 3
	if _, err := o.Commands("k", make([]string, 5)); err == nil {
		t.Error("too few addresses are no error")
	}
	listen := []string{"a:1", "a:2", "a:3", "a:4", "a:5", "a:6"}
	all, err := o.Commands("kubeconfig", listen)
	if err != nil || len(all) != o.Processes() {
		t.Fatalf("%d commands, %v", len(all), err)
	}
	var names []string
	for i, c := range all {
		names = append(names, c.Name)
		if c.Listen != listen[i] || !slices.Contains(c.Args, "kubeconfig") {
			t.Errorf("%+v", c)
		}
	}
	if got := strings.Join(names, " "); got != "vm-controller-1 vm-controller-2 vm-webhook vm-agent-1 vm-agent-2 vm-agent-3" {
		t.Errorf("names: %s", got)
	}
	if !slices.Contains(all[1].Args, "2/2") {
		t.Errorf("no shard in %v", all[1].Args)
	}
	o.Webhook.Off = true
	if o.Processes() != 5 {
		t.Errorf("%d processes without the webhook", o.Processes())
	}
}

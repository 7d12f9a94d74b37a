package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/planes/vm"
)

// Every flag that package vm writes must be one that the verbs read.
func TestVerbsReadWhatTheOptionsSay(t *testing.T) {
	o := vm.Default()
	o.Shards = 2
	commands, err := o.Commands("kubeconfig", []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		found := false
		for _, verb := range vmVerbs(&environment{}) {
			if verb.Name() != c.Args[0] {
				continue
			}
			found = true
			if err := verb.ParseFlags(c.Args[1:]); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
		if !found {
			t.Errorf("there is no verb %s", c.Args[0])
		}
	}
}

func TestVMVerbsSayWhatIsWrong(t *testing.T) {
	for args, want := range map[string]string{
		"vm-controller --kubeconfig /none/such":    "read kubeconfig",
		"vm-agent --shard 3/2 --kubeconfig x":      "--shard",
		"vm-agent --log-level loud --kubeconfig x": "--log-level",
		"vm-webhook --kubeconfig=":                 "none given",
		"vm-controller --limiter 5 --kubeconfig x": "QPS/BURST",
	} {
		var out, errs bytes.Buffer
		env := &environment{stdout: &out, stderr: &errs, signals: make(chan os.Signal)}
		if code := execute(t.Context(), env, strings.Fields(args)); code != exitFault || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: code %d, %s", args, code, errs.String())
		}
	}
}

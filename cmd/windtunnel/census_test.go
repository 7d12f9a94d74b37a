package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/repotest/census"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestCensusOfAClusterOfOthers flies reference planes in a cluster of others, ends the runs in
// the ways there are, and compares every object of the cluster with what it was. All examples
// in all endings are flown by TestCensusOfAllExamples of bench/robust.
func TestCensusOfAClusterOfOthers(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	config, endUp := u.up("--nodes", "2")
	defer endUp()
	openTheirs(t, config)
	before := repotest.Must(census.Take(t.Context(), config))(t)
	if len(before) < 50 {
		t.Fatalf("the census has %d objects", len(before))
	}
	edge := []string{"--set", "edges=2", "--set", "pods=4", "--set", "rest=1s", "--set", "settle=1s"}
	stages := repotest.Must(os.ReadFile(repotest.Path(t, "examples", "vm/stages.yaml")))(t)
	u.write(map[string]string{"stages.yaml": string(stages)})
	for _, f := range []struct {
		example, until string
		endings        []string
		set            []string
	}{
		{"edge/density.yaml", "settings", []string{"fail", "kill"}, edge},
		{"vm/density.yaml", "ready", []string{"plane-killed"}, []string{"--set", "vms=4", "--set", "kind=vm"}},
		{"clusters/density.yaml", "filling", []string{"timeout"}, []string{"--set", "nodesPerMember=2", "--set", "podsPerNamespace=4", "--set", "latencyPods=2", "--set", "settle=1s"}},
	} {
		name := strings.ReplaceAll(f.example, "/", "-")
		raw := repotest.Must(scenario.Read(repotest.Path(t, "examples", f.example)))(t)
		for _, e := range census.Endings() {
			if !slices.Contains(f.endings, e.Name) {
				continue
			}
			text := string(raw) + "\npreflight: {wait: 1s}\n"
			if e.Fails {
				text = census.CannotHold(text)
			}
			u.write(map[string]string{name: text})
			flight := census.Flight{Bin: u.bin, Kubeconfig: config, Dir: u.dir, Args: append([]string{name, "--out", "run-" + name + "-" + e.Name}, f.set...), Until: f.until, Before: before,
				KillPlane: func(t testing.TB) func() { return census.KillAPIServer(t, u.bin, config) }}
			flight.Fly(t, e)
		}
	}
}

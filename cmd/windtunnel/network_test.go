package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestFlightNetworkIsMeasured holds that a path is measured, however busy the machine: what
// it comes to is another matter.
func TestFlightNetworkIsMeasured(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	file := repotest.Must(filepath.Abs("../../examples/network/path.yaml"))(t)
	cmd, said := u.start("run", file, "--set", "seconds=2", "--set", "rate=200", "--out", "run")
	if code := exitOf(cmd.Wait()); code > exitUnknown {
		t.Fatalf("exit code %d: %s", code, said)
	}
	j := u.verdict()
	for _, r := range j.Objectives {
		if r.SLI == "network-round-trip" && r.Samples != 400 {
			t.Errorf("%d echoes: want 400", r.Samples)
		}
	}
	for _, key := range []string{"network_round_trip_p50_seconds_idle", "network_round_trip_p50_seconds_full", "network_throughput_full"} {
		if !(j.Measures[key].Value > 0) {
			t.Errorf("%s = %v", key, j.Measures[key])
		}
	}
	if n := j.Measures["calls_total"].Value; n != 0 {
		t.Errorf("%v calls of the load: echoes are none", n)
	}
	u.nothingLeft()
}

// TestFlightLinkWrapsUpPackets holds that two clusters are joined by their gateways: a
// packet is wrapped up twice on its way there and once on its way back, and nothing of
// the clusters is left: of a run before that was killed neither.
func TestFlightLinkWrapsUpPackets(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	u := newTunnel(t)
	file := repotest.Must(filepath.Abs("../../examples/clusters/network.yaml"))(t)
	prefix := fmt.Sprintf("wt-wraps-%d", os.Getpid()) // others fly the same file on this machine
	spaces := func() []string {
		names, _ := filepath.Glob("/run/netns/" + prefix + "-*")
		return slices.DeleteFunc(names, func(name string) bool { _, err := os.Stat(name); return err != nil })
	}
	killed, _ := u.start("run", file, "--set", "path=p2p", "--set", "prefix="+prefix, "--set", "seconds=60", "--out", "killed")
	repotest.Eventually(t, "machines and pods stand", func() bool { return len(spaces()) == 7 })
	repotest.NoError(t, killed.Process.Signal(syscall.SIGKILL))
	_ = killed.Wait()
	u.nothingLeft()
	if left := spaces(); len(left) > 0 {
		t.Errorf("left by a run that was killed: %v", left)
	}
	cmd, said := u.start("run", file, "--set", "path=gateway", "--set", "prefix="+prefix, "--set", "seconds=8", "--set", "rate=200", "--out", "run")
	if code := exitOf(cmd.Wait()); code > exitUnknown {
		t.Fatalf("exit code %d: %s", code, said)
	}
	measures := u.verdict().Measures
	if n := measures["encapsulations_of_a_packet"].Value; math.Abs(n-1.5) > 0.05 {
		t.Errorf("%v encapsulations a packet: want 2 there and 1 back", n)
	}
	for _, key := range []string{"network_throughput_full", "network_cpu_full", "network_packet_cpu_seconds_full", "network_segments_full"} {
		if !(measures[key].Value > 0) {
			t.Errorf("%s = %v", key, measures[key])
		}
	}
	for _, key := range []string{"network_retransmits_full", "network_drops_full", "drops_of_all_devices"} {
		if _, ok := measures[key]; !ok {
			t.Errorf("%s was not measured", key)
		}
	}
	if left, _ := filepath.Glob("/run/netns/" + prefix + "-*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	u.nothingLeft()
}

// TestTurnsAreBalanced holds that in six turns each path comes once at each place, and once
// after each other one within a turn, echoes and streams alike, and that of the two paths
// that are nearest each comes first as often as second.
func TestTurnsAreBalanced(t *testing.T) {
	s, err := scenario.Load("../../examples/clusters/network-order.yaml", map[string]string{"turns": "6", "streamTurns": "6", "pairTurns": "4"})
	repotest.NoError(t, err)
	orders := map[string][]string{}
	for step := range s.AllSteps() {
		switch n := step.Network; {
		case n == nil:
		case n.Stream != nil:
			orders["streams"] = append(orders["streams"], n.Path)
		case strings.HasPrefix(step.Name, "pair"):
			orders["pairs"] = append(orders["pairs"], n.Path)
		default:
			orders["echoes"] = append(orders["echoes"], n.Path)
		}
	}
	for _, of := range []string{"echoes", "streams"} {
		places, follows := map[string]int{}, map[string]int{}
		for i, path := range orders[of] {
			places[fmt.Sprint(path, " at ", i%6)]++
			if i%6 > 0 {
				follows[path+" after "+orders[of][i-1]]++
			}
		}
		if len(orders[of]) != 36 || len(places) != 36 || len(follows) != 30 {
			t.Errorf("%s: %d turns of paths, %d places of 36, %d neighbours of 30: %v", of, len(orders[of]), len(places), len(follows), orders[of])
		}
	}
	if want := "vxlan-again p2p-again p2p-again vxlan-again vxlan-again p2p-again p2p-again vxlan-again"; strings.Join(orders["pairs"], " ") != want {
		t.Errorf("pairs: %v: want %s", orders["pairs"], want)
	}
}

// TestFlightPathsInTurns holds that each path is measured in each turn, and that differences
// are those within turns.
func TestFlightPathsInTurns(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	u := newTunnel(t)
	file := repotest.Must(filepath.Abs("../../examples/clusters/network-order.yaml"))(t)
	prefix := fmt.Sprintf("wt-turns-%d", os.Getpid())
	cmd, said := u.start("run", file, "--set", "prefix="+prefix, "--set", "turns=2", "--set", "pairTurns=2", "--set", "streamTurns=2", "--set", "seconds=1", "--set", "streamSeconds=1", "--set", "rate=200", "--out", "run")
	if code := exitOf(cmd.Wait()); code > exitUnknown {
		t.Fatalf("exit code %d: %s", code, said)
	}
	j := u.verdict()
	for _, path := range []string{"machines", "routed", "vxlan", "p2p", "gateway", "machines_again"} {
		for _, key := range []string{"network_turns_round_trip_p50_seconds_", "network_turns_throughput_"} {
			if !(j.Measures[key+path].Value > 0) {
				t.Errorf("%s%s = %v", key, path, j.Measures[key+path])
			}
		}
	}
	for _, r := range j.Objectives {
		if strings.HasPrefix(r.SLI, "network-turns") && (r.Value == nil || r.Samples != 2) {
			t.Errorf("%s: %+v: want one of two turns", r.Name, r)
		}
	}
	if left, _ := filepath.Glob("/run/netns/" + prefix + "-*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	u.nothingLeft()
}

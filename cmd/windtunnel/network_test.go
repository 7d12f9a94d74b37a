package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestFlightNetworkIsMeasured holds that a path is measured, however busy the machine: what
// it comes to is another matter.
func TestFlightNetworkIsMeasured(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	file, err := filepath.Abs("../../examples/network/path.yaml")
	if err != nil {
		t.Fatal(err)
	}
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
	file, err := filepath.Abs("../../examples/clusters/network.yaml")
	if err != nil {
		t.Fatal(err)
	}
	spaces := func() []string {
		names, _ := filepath.Glob("/run/netns/windtunnel-*")
		return slices.DeleteFunc(names, func(name string) bool { _, err := os.Stat(name); return err != nil })
	}
	killed, _ := u.start("run", file, "--set", "path=p2p", "--set", "seconds=60", "--out", "killed")
	repotest.Eventually(t, "machines and pods stand", func() bool { return len(spaces()) == 7 })
	if err := killed.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	u.nothingLeft()
	if left := spaces(); len(left) > 0 {
		t.Errorf("left by a run that was killed: %v", left)
	}
	cmd, said := u.start("run", file, "--set", "path=gateway", "--set", "seconds=8", "--set", "rate=200", "--out", "run")
	if code := exitOf(cmd.Wait()); code > exitUnknown {
		t.Fatalf("exit code %d: %s", code, said)
	}
	measures := u.verdict().Measures
	if n := measures["encapsulations_of_a_packet"].Value; math.Abs(n-1.5) > 0.05 {
		t.Errorf("%v encapsulations a packet: want 2 there and 1 back", n)
	}
	if !(measures["network_throughput_full"].Value > 0) {
		t.Error("no stream was measured")
	}
	if left, _ := filepath.Glob("/run/netns/windtunnel-*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	u.nothingLeft()
}

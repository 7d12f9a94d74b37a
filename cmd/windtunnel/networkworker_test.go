package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// pathToWorker writes a scenario that measures a path to worker 0 and starts its run; its
// worker is another process that the test starts, as on another host.
func (u *tunnel) pathToWorker(seconds string, more ...string) (cmd, worker *exec.Cmd, said *output) {
	u.t.Helper()
	file := repotest.Must(filepath.Abs("../../examples/network/worker.yaml"))(u.t)
	args := []string{"run", file, "--kubeconfig", hollowCluster(u.t), "--out", "run", "--workers", "1", "--worker-access", "access.json", "--set", "rate=200", "--set", "seconds=" + seconds}
	cmd, said = u.start(append(args, more...)...)
	repotest.Eventually(u.t, "it says where it is", func() bool {
		var a protocol.Access
		raw, err := os.ReadFile(filepath.Join(u.dir, "access.json"))
		return err == nil && json.Unmarshal(raw, &a) == nil
	})
	worker, _ = u.start("worker", "access.json", "0", "records.wt")
	return cmd, worker, said
}

// TestNetworkToWorker holds that a path to another process is measured: echoes answered and
// bytes counted there, with what they cost at both ends.
func TestNetworkToWorker(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	cmd, worker, said := u.pathToWorker("3")
	if code := exitOf(cmd.Wait()); code > exitUnknown {
		t.Fatalf("exit code %d: %s", code, said)
	}
	if code := exitOf(worker.Wait()); code != exitPass {
		t.Errorf("exit code %d of the worker", code)
	}
	checkPath(t, u.verdict())
	for _, name := range []string{"access.json", "records.wt"} {
		if _, err := os.Stat(filepath.Join(u.dir, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	u.nothingLeft()
}

// checkPath looks for what a path to a worker comes to.
func checkPath(t *testing.T, j slo.Judgement) {
	t.Helper()
	for _, key := range []string{"network_round_trip_p50_seconds_idle", "network_throughput_full", "network_segments_full", "network_cpu_to_full", "network_packet_cpu_seconds_to_full",
		"network_cpu_full", "network_packet_cpu_seconds_full"} {
		if !(j.Measures[key].Value > 0) {
			t.Errorf("%s = %v", key, j.Measures[key])
		}
	}
	if loss, ok := j.Measures["network_loss_idle"]; !ok || loss.Value > 0.5 {
		t.Errorf("echoes were not answered: %+v", loss)
	}
	if _, ok := j.Measures["network_retransmits_full"]; !ok {
		t.Error("no count of what was sent again")
	}
}

// TestNetworkToWorkerInNamespace does the same from a namespace to one that the worker enters,
// of clusters that a link has joined.
func TestNetworkToWorkerInNamespace(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	u := newTunnel(t)
	prefix := fmt.Sprintf("wt-worker-%d", os.Getpid())
	text := strings.ReplaceAll(`
scenario: far
namespaces: {count: 0}
subjects:
- name: link
  windtunnel: [link, '--listen=127.0.0.1:$(METRICS_PORT)', --prefix=PREFIX]
  metrics: {port: 0}
  ready: {http: "http://127.0.0.1:$(METRICS_PORT)/readyz"}
steps:
- {name: idle, network: {from: {namespace: PREFIX-pod-a2, address: 198.18.102.10}, to: {worker: 0, namespace: PREFIX-pod-b1, address: 198.18.201.10}, echo: {rate: 200}, for: 2s}}
- {name: icmp, network: {from: {namespace: PREFIX-pod-a2}, to: {worker: 0, namespace: PREFIX-pod-b1, address: 198.18.201.10}, echo: {rate: 200, protocol: icmp}, for: 1s}}
- {name: full, network: {from: {namespace: PREFIX-pod-a2}, to: {worker: 0, namespace: PREFIX-pod-b1, address: 198.18.201.10}, stream: {count: 2}, for: 4s}}
`, "PREFIX", prefix)
	repotest.NoError(t, os.WriteFile(filepath.Join(u.dir, "s.yaml"), []byte(text), 0o600))
	cmd, said := u.start("run", "s.yaml", "--kubeconfig", hollowCluster(t), "--out", "run", "--workers", "1", "--worker-processes")
	if code := exitOf(cmd.Wait()); code > exitUnknown {
		t.Fatalf("exit code %d: %s", code, said)
	}
	j := u.verdict()
	checkPath(t, j)
	if loss, ok := j.Measures["network_loss_icmp"]; !ok || loss.Value > 0.5 {
		t.Errorf("the kernel there did not answer: %+v", loss)
	}
	u.nothingLeft()
}

// TestNetworkToLostWorker holds that a run ends, and says why, when who answers is killed,
// and that a worker whose leader is killed ends by itself, and listens no more.
func TestNetworkToLostWorker(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	cmd, worker, said := u.pathToWorker("600")
	u.inStep("idle")
	repotest.NoError(t, worker.Process.Signal(syscall.SIGKILL))
	_ = worker.Wait()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil { // echoes without an answer are a finding, and go on to be sent
		t.Fatal(err)
	}
	if code := exitOf(cmd.Wait()); code != exitUnknown {
		t.Errorf("exit code %d: %s", code, said)
	}
	if text := strings.Join(u.verdict().Reasons, " "); !strings.Contains(strings.ToLower(text), "worker") {
		t.Errorf("reasons: %s", text)
	}
	u.nothingLeft()

	other := newTunnel(t)
	cmd, worker, _ = other.pathToWorker("600")
	other.inStep("idle")
	repotest.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	if code := exitOf(worker.Wait()); code == exitPass {
		t.Error("a worker without its leader has taken part to the end")
	}
	other.nothingLeft()
}

// inStep waits until the run is in a step.
func (u *tunnel) inStep(name string) {
	u.t.Helper()
	repotest.Eventually(u.t, "the run is in step "+name, func() bool {
		var s record.Status
		raw, err := record.Dir(filepath.Join(u.dir, "run")).Read(record.StatusFile)
		return err == nil && json.Unmarshal(raw, &s) == nil && s.Step == name
	})
}

// TestWorkerAccessListensOnTheLoopback holds that nobody elsewhere reaches a run's leader
// unless an address is asked for.
func TestWorkerAccessListensOnTheLoopback(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	cmd, worker, _ := u.pathToWorker("600")
	raw := repotest.Must(os.ReadFile(filepath.Join(u.dir, "access.json")))(t)
	info, err := os.Stat(filepath.Join(u.dir, "access.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: it holds a secret", info.Mode(), err)
	}
	var a protocol.Access
	repotest.NoError(t, json.Unmarshal(raw, &a))
	host, _, err := net.SplitHostPort(strings.TrimPrefix(a.URL, "https://"))
	if err != nil || !net.ParseIP(host).IsLoopback() {
		t.Errorf("%s, %v", a.URL, err)
	}
	u.inStep("idle")
	repotest.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	_ = worker.Wait()
	u.nothingLeft()
}

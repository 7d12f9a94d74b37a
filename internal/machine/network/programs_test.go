package network_test

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/machine/network"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// program returns where a program is that others measure networks with, or skips.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s on this machine, which this is held against", name)
	}
	return path
}

// within runs a program in an end's namespace and returns what it says.
func within(t *testing.T, at network.End, path string, args ...string) (out []byte, err error) {
	t.Helper()
	err = at.Namespace.Do(func() (err error) {
		out, err = exec.CommandContext(t.Context(), path, args...).Output()
		return err
	})
	return out, err
}

// TestProofPingAgrees holds our round trips by a path of 5 ms against those of ping.
func TestProofPingAgrees(t *testing.T) {
	repotest.Proof(t)
	ping := program(t, "ping")
	a, b := tunnel(t, 5*time.Millisecond)
	said, err := within(t, a, ping, "-q", "-n", "-c", "300", "-i", "0.01", "-s", "56", b.Address.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	found := regexp.MustCompile(`= [\d.]+/([\d.]+)/`).FindSubmatch(said)
	if found == nil {
		t.Fatalf("no mean in what ping says:\n%s", said)
	}
	theirs := repotest.Must(strconv.ParseFloat(string(found[1]), 64))(t)
	ours := medianTrip(t, true, 5*time.Millisecond).Seconds() * 1000
	t.Logf("%.3f ms at the median, ping %.3f ms in the mean", ours, theirs)
	if difference := ours - theirs; difference < -0.3 || difference > 0.3 {
		t.Errorf("%.3f ms at the median, ping %.3f ms in the mean: want them within 0.3 ms", ours, theirs)
	}
}

// TestProofIperfAgrees holds our rate by a path of 100 Mbit/s against that of iperf3.
func TestProofIperfAgrees(t *testing.T) {
	repotest.Proof(t)
	iperf := program(t, "iperf3")
	a, b := pair(t)
	shape(t, a, "left", 100e6)
	var server *exec.Cmd
	repotest.NoError(t, b.Namespace.Do(func() error {
		server = exec.CommandContext(t.Context(), iperf, "--server", "--one-off", "--bind", b.Address.String())
		return server.Start()
	}))
	t.Cleanup(func() {
		_ = server.Process.Kill() // it has ended where all went well
		_ = server.Wait()
	})
	var said struct {
		End struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	repotest.Eventually(t, "the server takes a client", func() bool { // it does not say when it listens
		out, err := within(t, a, iperf, "--client", b.Address.String(), "--time", "8", "--omit", "1", "--json")
		return err == nil && json.Unmarshal(out, &said) == nil && said.End.Received.Rate > 0
	})
	all := streams(t, network.StreamOptions{From: a, To: b, Streams: 1, For: 9 * time.Second, Every: 100 * time.Millisecond})
	first, last := all[10], all[len(all)-1] // the bucket is full at the begin
	ours := 8 * float64(last.Received-first.Received) / last.At.Sub(first.At).Seconds()
	t.Logf("%.2f Mbit/s, iperf3 %.2f", ours/1e6, said.End.Received.Rate/1e6)
	if ratio := ours / said.End.Received.Rate; ratio < 0.98 || ratio > 1.02 {
		t.Errorf("%.2f Mbit/s, iperf3 %.2f: want them within 2 %%", ours/1e6, said.End.Received.Rate/1e6)
	}
}

package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/load/pace"
	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
)

// build makes a topology, or skips the test where this process may not.
func build(t *testing.T, o Options) *Topology {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	all, err := Build(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	return all
}

// encapsulated is how many packets VXLAN devices of all machines have sent.
func encapsulated(t *testing.T, all *Topology) (sent map[string]uint64) {
	t.Helper()
	sent = map[string]uint64{}
	for _, name := range all.Names() {
		devices, err := network.Devices(all.At(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range devices {
			if d.Kind == "vxlan" {
				sent[name+" "+d.Name] = d.SentPackets
			}
		}
	}
	return sent
}

// TestEncapsulations is what each path is: the packets that VXLAN devices send for an echo,
// there and back.
func TestEncapsulations(t *testing.T) {
	machines, pods := Machines(), Pods()
	const echoes = 50
	for _, c := range []struct {
		name        string
		o           Options
		from, to    string // namespaces
		fromA, toA  netip.Addr
		there, back []string // devices that an echo and its answer leave by
	}{
		{"machines", Options{link.P2P, CNIRouted}, "a2", "b1", machines["a2"], machines["b1"], nil, nil},
		{"routed", Options{link.P2P, CNIRouted}, "pod-a2", "pod-a1", pods["a2"], pods["a1"], nil, nil},
		{"vxlan", Options{link.P2P, CNIVXLAN}, "pod-a2", "pod-a1", pods["a2"], pods["a1"], []string{"a2 cni"}, []string{"a1 cni"}},
		{"p2p", Options{link.P2P, CNIRouted}, "pod-a2", "pod-b1", pods["a2"], pods["b1"], []string{"a2 vx-bridge"}, []string{"b1 vx-bridge"}},
		{"gateway", Options{link.Gateway, CNIRouted}, "pod-a2", "pod-b1", pods["a2"], pods["b1"],
			[]string{"a2 vx-local", "a1 vx-bridge"}, []string{"b1 vx-bridge"}},
		{"gateway, vxlan within", Options{link.Gateway, CNIVXLAN}, "pod-a2", "pod-b1", pods["a2"], pods["b1"],
			[]string{"a2 vx-local", "a1 vx-bridge"}, []string{"b1 vx-bridge", "a1 cni"}},
		{"gateway, from the gateway", Options{link.Gateway, CNIRouted}, "pod-a1", "pod-b1", pods["a1"], pods["b1"],
			[]string{"a1 vx-bridge"}, []string{"b1 vx-bridge"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := build(t, c.o)
			before := encapsulated(t, all)
			lost := 0
			err := network.Echoes(t.Context(), network.EchoOptions{From: network.End{Namespace: all.At(c.from), Address: c.fromA},
				To: network.End{Namespace: all.At(c.to), Address: c.toA}, ICMP: true, Pace: pace.Constant(100), For: echoes * 10 * time.Millisecond,
				Size: 64, Patience: 10 * time.Second, Clock: clock.Start()}, func(e network.Echo) {
				if e.Lost {
					lost++
				}
			})
			if err != nil || lost > 0 {
				t.Fatalf("%d echoes lost, %v", lost, err)
			}
			taken := map[string]bool{}
			for _, device := range append(c.there, c.back...) {
				taken[device] = true
			}
			after, each := encapsulated(t, all), uint64(0)
			for device, n := range after {
				switch n -= before[device]; {
				case !taken[device] && n > 0:
					t.Errorf("%s sent %d packets: it is not on the way", device, n)
				case taken[device] && n < echoes || taken[device] && each > 0 && n != each:
					t.Errorf("packets sent by devices on the way differ, or are fewer than %d echoes: %v, before %v", echoes, after, before)
				case taken[device]:
					each = n // more than echoes by those that found the way
				}
			}
		})
	}
}

// TestApplyIsIdempotent holds that a configuration that stands is left as it is, that
// the next one takes the place of the last, and that none leaves nothing.
func TestApplyIsIdempotent(t *testing.T) {
	all := build(t, Options{link.Gateway, CNIRouted})
	nodes := []link.Node{}
	for _, m := range machines() {
		nodes = append(nodes, m.Node)
	}
	for _, kind := range []string{link.Gateway, link.P2P, link.P2P, link.Gateway} {
		for name, c := range link.NewTopology(clusters(kind), nodes).Full() {
			if err := Apply(all.At(name), c); err != nil {
				t.Fatalf("%s, %s: %v", kind, name, err)
			}
			if got := devicesOf(t, all.At(name)); got != fmt.Sprint(namesOf(c)) {
				t.Errorf("%s, %s: devices %s, want %v", kind, name, got, namesOf(c))
			}
		}
	}
	if err := Apply(all.At("a2"), &link.Config{}); err != nil {
		t.Fatal(err)
	}
	if got := devicesOf(t, all.At("a2")); got != "[]" {
		t.Errorf("devices %s without a configuration", got)
	}
}

func devicesOf(t *testing.T, at network.Namespace) string {
	t.Helper()
	found, err := network.Devices(at)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, name := range []string{link.Bridge, link.Local} {
		for _, d := range found {
			if d.Name == name {
				names = append(names, name)
			}
		}
	}
	return fmt.Sprint(names)
}

func namesOf(c *link.Config) []string {
	names := []string{}
	for _, d := range c.Devices {
		names = append(names, d.Name)
	}
	return names
}

// TestPublish holds that names lead to the namespaces, that those of a live process are
// not taken, and that those of a dead one are replaced.
func TestPublish(t *testing.T) {
	all, folder := build(t, Options{link.P2P, CNIRouted}), t.TempDir()
	if err := os.Symlink("/proc/4194305/fd/7", filepath.Join(folder, "x-a1")); err != nil { // beyond the largest pid
		t.Fatal(err)
	}
	withdraw, err := all.Publish(folder, "x")
	if err != nil {
		t.Fatal(err)
	}
	devices, err := network.Devices(network.Namespace(filepath.Join(folder, "x-a2")))
	if err != nil || len(devices) != 3 {
		t.Errorf("%d devices of a2, %v: want eth0, pod0 and vx-bridge", len(devices), err)
	}
	if _, err := build(t, Options{link.P2P, CNIRouted}).Publish(folder, "x"); !errors.Is(err, ErrTaken) {
		t.Errorf("%v: want %v", err, ErrTaken)
	}
	if err := withdraw(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("%d names left, %v", len(left), err)
	}
}

package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/nftables"

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

// encapsulated is how many packets the devices that wrap them up have sent.
func encapsulated(t *testing.T, all *Topology) (sent map[string]uint64) {
	t.Helper()
	sent = map[string]uint64{}
	for _, name := range all.Names() {
		devices, err := network.Devices(all.At(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range devices {
			if d.Kind == "vxlan" || d.Name == secret {
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
		{"machines", Options{NetworkType: link.P2P, CNI: CNIRouted}, "a2", "b1", machines["a2"], machines["b1"], nil, nil},
		{"routed", Options{NetworkType: link.P2P, CNI: CNIRouted}, "pod-a2", "pod-a1", pods["a2"], pods["a1"], nil, nil},
		{"vxlan", Options{NetworkType: link.P2P, CNI: CNIVXLAN}, "pod-a2", "pod-a1", pods["a2"], pods["a1"], []string{"a2 cni"}, []string{"a1 cni"}},
		{"p2p", Options{NetworkType: link.P2P, CNI: CNIRouted}, "pod-a2", "pod-b1", pods["a2"], pods["b1"], []string{"a2 vx-bridge"}, []string{"b1 vx-bridge"}},
		{"gateway", Options{NetworkType: link.Gateway, CNI: CNIRouted}, "pod-a2", "pod-b1", pods["a2"], pods["b1"],
			[]string{"a2 vx-local", "a1 vx-bridge"}, []string{"b1 vx-bridge"}},
		{"gateway, vxlan within", Options{NetworkType: link.Gateway, CNI: CNIVXLAN}, "pod-a2", "pod-b1", pods["a2"], pods["b1"],
			[]string{"a2 vx-local", "a1 vx-bridge"}, []string{"b1 vx-bridge", "a1 cni"}},
		{"encrypted between gateways", Options{NetworkType: link.Gateway, CNI: CNIRouted, Encrypt: EncryptWireGuard}, "pod-a2", "pod-b1", pods["a2"], pods["b1"],
			[]string{"a2 vx-local", "a1 wg0"}, []string{"b1 wg0"}},
		{"gateway, from the gateway", Options{NetworkType: link.Gateway, CNI: CNIRouted}, "pod-a1", "pod-b1", pods["a1"], pods["b1"],
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

// TestHostsReachPods holds that what a machine itself sends to another cluster by its
// gateway is answered: it leaves under the gateway's address, by the rule of iptables.
func TestHostsReachPods(t *testing.T) {
	for _, encrypt := range []string{EncryptNone, EncryptWireGuard} {
		t.Run(encrypt, func(t *testing.T) {
			all, bare := build(t, Options{NetworkType: link.Gateway, CNI: CNIRouted, Encrypt: encrypt}), build(t, Options{NetworkType: link.Gateway, CNI: CNIRouted, NoRules: true})
			if n := rulesOf(t, bare); n != 0 {
				t.Errorf("%d rules where none are asked for", n)
			}
			from, answered := netip.MustParseAddr("198.19.129.2"), 0 // of a2's device to its gateway
			echo := func() {
				err := network.Echoes(t.Context(), network.EchoOptions{From: network.End{Namespace: all.At("a2"), Address: from},
					To: network.End{Namespace: all.At("pod-b1"), Address: Pods()["b1"]}, ICMP: true, Pace: pace.Constant(100), For: 100 * time.Millisecond,
					Size: 64, Patience: time.Second, Clock: clock.Start()}, func(e network.Echo) {
					if !e.Lost {
						answered++
					}
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if echo(); answered != 10 {
				t.Errorf("%d of 10 echoes answered", answered)
			}
			if err := all.At("a1").Do(func() error { return applyRules(nil) }); err != nil {
				t.Fatal(err)
			}
			if echo(); answered > 10 {
				t.Errorf("%d echoes answered without the rule", answered-10)
			}
		})
	}
}

// rulesOf is how many tables of rules a1 has.
func rulesOf(t *testing.T, all *Topology) (n int) {
	t.Helper()
	if err := all.At("a1").Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		tables, err := c.ListTables()
		n = len(tables)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRulesThatAreNotUnderstood(t *testing.T) {
	for _, r := range []link.Rule{
		{Table: "filter", Chain: "POSTROUTING", Rule: "-s 198.18.0.0/15 -o vx-bridge -j MASQUERADE"},
		{Table: "nat", Chain: "PREROUTING", Rule: "-s 198.18.0.0/15 -o vx-bridge -j MASQUERADE"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-s 198.18.0.0/15 -o vx-bridge -j DROP"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-s 198.18.0.0/15 -j MASQUERADE"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-s nowhere -o vx-bridge -j MASQUERADE"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-o vx-bridge -j MASQUERADE"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "! -s 198.18.0.0/15 -o vx-bridge -j MASQUERADE"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-s fd00::/8 -o vx-bridge -j MASQUERADE"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-s 198.18.0.0/15 -o a-device-of-a-long-name -j MASQUERADE"},
	} {
		if m, err := parseRule(r); !errors.Is(err, ErrRule) {
			t.Errorf("%v: %+v, %v", r, m, err)
		}
	}
}

// TestBandwidth holds that machines send no more than they may, pods of them too.
func TestBandwidth(t *testing.T) {
	const most = 40e6 // bits a second
	all, received := build(t, Options{NetworkType: link.P2P, CNI: CNIRouted, Bandwidth: most}), uint64(0)
	err := network.Streams(t.Context(), network.StreamOptions{From: network.End{Namespace: all.At("pod-a2"), Address: Pods()["a2"]},
		To: network.End{Namespace: all.At("pod-b1"), Address: Pods()["b1"]}, Streams: 1, For: time.Second, Every: 100 * time.Millisecond, Clock: clock.Start()},
		func(r network.Reading) { received = r.Received })
	if err != nil {
		t.Fatal(err)
	}
	if rate := float64(received) * 8; received == 0 || rate > 1.1*most { // the bucket is full at the begin
		t.Errorf("%.0f bits in a second: at most %.0f may be sent", rate, most)
	}
}

func TestOptionsThatDoNotFit(t *testing.T) {
	for _, o := range []Options{
		{NetworkType: "star", CNI: CNIRouted},
		{NetworkType: link.P2P, CNI: "none"},
		{NetworkType: link.Gateway, CNI: CNIRouted, Encrypt: "rot13"},
		{NetworkType: link.P2P, CNI: CNIRouted, Encrypt: EncryptWireGuard},
		{NetworkType: link.Gateway, CNI: CNIRouted, Encrypt: EncryptWireGuard, Unlinked: true},
		{NetworkType: link.P2P, CNI: CNIRouted, Bandwidth: 1},
	} {
		if o.Validate() == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// TestApplyIsIdempotent holds that a configuration that stands is left as it is, that
// the next one takes the place of the last, and that none leaves nothing.
func TestApplyIsIdempotent(t *testing.T) {
	all := build(t, Options{NetworkType: link.Gateway, CNI: CNIRouted})
	for _, kind := range []string{link.Gateway, link.P2P, link.P2P, link.Gateway} {
		for name, c := range link.NewTopology(Clusters(kind), Nodes()).Full() {
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
	all, folder := build(t, Options{NetworkType: link.P2P, CNI: CNIRouted}), t.TempDir()
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
	if _, err := build(t, Options{NetworkType: link.P2P, CNI: CNIRouted}).Publish(folder, "x"); !errors.Is(err, ErrTaken) {
		t.Errorf("%v: want %v", err, ErrTaken)
	}
	if err := withdraw(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("%d names left, %v", len(left), err)
	}
}

package netns

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/network"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
)

// build makes a topology, or skips the test where this process may not.
func build(t *testing.T, o Options) *Topology {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if err := network.TryIPv6(); err != nil && o.hasIPv6() {
		t.Skip(err)
	}
	all := repotest.Must(Build(o))(t)
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
		devices := repotest.Must(network.Devices(all.At(name)))(t)
		for _, d := range devices {
			if d.Kind == "vxlan" || d.Name == secret {
				sent[name+" "+d.Name] = d.SentPackets
			}
		}
	}
	return sent
}

// echoes sends echoes from an address to another, and returns how many were answered in time.
func echoes(t *testing.T, n int, patience time.Duration, from, to network.End) (answered int) {
	t.Helper()
	repotest.NoError(t, network.Echoes(t.Context(), network.EchoOptions{From: from, To: to, ICMP: true, Pace: pace.Constant(100), For: time.Duration(n) * 10 * time.Millisecond,
		Size: 64, Patience: patience, Clock: clock.Start()}, func(e network.Echo) {
		if !e.Lost {
			answered++
		}
	}))
	return answered
}

// The patience with echoes that are to be answered, and with those that are not.
const (
	patient   = 10 * time.Second
	impatient = 200 * time.Millisecond
)

// endsOf returns a pod or a machine as one end and another as its peer: one of another cluster goes
// by what that is known by.
func endsOf(all *Topology, six bool, from, to string) (a, b network.End) {
	address := func(name string, pods map[string]netip.Addr) netip.Addr {
		if machine, ok := strings.CutPrefix(name, "pod-"); ok {
			return pods[machine]
		}
		return all.Machines(six)[name]
	}
	peer := all.Pods(six)
	if strings.Contains(from, "a") != strings.Contains(to, "a") {
		peer = all.Known(six)
	}
	return network.End{Namespace: all.At(from), Address: address(from, all.Pods(six))}, network.End{Namespace: all.At(to), Address: address(to, peer)}
}

// TestEncapsulations is what each path is: the packets that VXLAN devices send for an echo,
// there and back.
func TestEncapsulations(t *testing.T) {
	t.Parallel()
	const echoed = 20
	six := func(o Options) Options { o.Family = link.FamilyAll; return o }
	overlap := func(o Options) Options { o.Overlap = true; return o }
	p2p, gateway := Options{NetworkType: link.P2P, CNI: CNIRouted}, Options{NetworkType: link.Gateway, CNI: CNIRouted}
	p2pVXLAN, gatewayVXLAN := Options{NetworkType: link.P2P, CNI: CNIVXLAN}, Options{NetworkType: link.Gateway, CNI: CNIVXLAN}
	for _, c := range []struct {
		name        string
		o           Options
		from, to    string   // namespaces
		there, back []string // devices that an echo and its answer leave by
	}{
		{"machines", p2p, "a2", "b1", nil, nil},
		{"routed", p2p, "pod-a2", "pod-a1", nil, nil},
		{"vxlan", p2pVXLAN, "pod-a2", "pod-a1", []string{"a2 cni"}, []string{"a1 cni"}},
		{"p2p", p2p, "pod-a2", "pod-b1", []string{"a2 vx-bridge"}, []string{"b1 vx-bridge"}},
		{"gateway", gateway, "pod-a2", "pod-b1", []string{"a2 vx-local", "a1 vx-bridge"}, []string{"b1 vx-bridge"}},
		{"gateway, vxlan within", gatewayVXLAN, "pod-a2", "pod-b1", []string{"a2 vx-local", "a1 vx-bridge"}, []string{"b1 vx-bridge", "a1 cni"}},
		{"encrypted between gateways", Options{NetworkType: link.Gateway, CNI: CNIRouted, Encrypt: EncryptWireGuard}, "pod-a2", "pod-b1",
			[]string{"a2 vx-local", "a1 wg0"}, []string{"b1 wg0"}},
		{"gateway, from the gateway", gateway, "pod-a1", "pod-b1", []string{"a1 vx-bridge"}, []string{"b1 vx-bridge"}},
		{"p2p, the same ranges", overlap(p2p), "pod-a2", "pod-b1", []string{"a2 vx-bridge"}, []string{"b1 vx-bridge"}},
		{"gateway, the same ranges", overlap(gateway), "pod-b1", "pod-a2", []string{"b1 vx-bridge"}, []string{"a2 vx-local", "a1 vx-bridge"}},
		{"machines, IPv6", six(p2p), "a2", "b1", nil, nil},
		{"routed, IPv6", six(p2p), "pod-a2", "pod-a1", nil, nil},
		{"vxlan, IPv6", six(p2pVXLAN), "pod-a2", "pod-a1", []string{"a2 cni"}, []string{"a1 cni"}},
		{"p2p, IPv6", six(p2p), "pod-a2", "pod-b1", []string{"a2 vx-bridge-6"}, []string{"b1 vx-bridge-6"}},
		{"gateway, IPv6", six(gateway), "pod-a2", "pod-b1", []string{"a2 vx-local-6", "a1 vx-bridge-6"}, []string{"b1 vx-bridge-6"}},
		{"gateway, vxlan within, IPv6", six(gatewayVXLAN), "pod-a2", "pod-b1", []string{"a2 vx-local-6", "a1 vx-bridge-6"}, []string{"b1 vx-bridge-6", "a1 cni"}},
		{"gateway, the same ranges, IPv6", six(overlap(gateway)), "pod-a2", "pod-b1", []string{"a2 vx-local-6", "a1 vx-bridge-6"}, []string{"b1 vx-bridge-6"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all, slack := build(t, c.o), uint64(0)
			if c.o.hasIPv6() {
				slack = echoed / 2 // a device of IPv6 says which groups it listens to, some packets each time (RFC 3810)
			}
			from, to := endsOf(all, c.o.hasIPv6(), c.from, c.to)
			echoes(t, 1, patient, from, to) // by which neighbours find each other: what is sent meanwhile may be lost half way
			before := encapsulated(t, all)
			if n := echoes(t, echoed, patient, from, to); n != echoed {
				t.Fatalf("%d of %d echoes were answered", n, echoed)
			}
			taken := map[string]bool{}
			for _, device := range append(c.there, c.back...) {
				taken[device] = true
			}
			after, least, most := encapsulated(t, all), uint64(math.MaxUint64), uint64(0)
			for device, n := range after {
				switch n -= before[device]; {
				case !taken[device] && n > slack:
					t.Errorf("%s sent %d packets: it is not on the way", device, n)
				case taken[device]:
					least, most = min(least, n), max(most, n) // one more than echoes, which finds the way
				}
			}
			if len(taken) > 0 && (least < echoed || most-least > slack) {
				t.Errorf("packets sent by devices on the way differ, or are fewer than %d echoes: %v, before %v", echoed, after, before)
			}
		})
	}
}

// TestBandwidth holds that machines send no more than they may, pods of them too.
func TestBandwidth(t *testing.T) {
	t.Parallel()
	const most = 40e6 // bits a second
	all, received := build(t, Options{NetworkType: link.P2P, CNI: CNIRouted, Bandwidth: most}), uint64(0)
	repotest.NoError(t, network.Streams(t.Context(), network.StreamOptions{From: network.End{Namespace: all.At("pod-a2"), Address: all.Pods(false)["a2"]},
		To: network.End{Namespace: all.At("pod-b1"), Address: all.Pods(false)["b1"]}, Streams: 1, For: time.Second, Every: 100 * time.Millisecond, Clock: clock.Start()},
		func(r network.Reading) { received = r.Received }))
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
		{NetworkType: link.Gateway, CNI: CNIRouted, Encrypt: EncryptWireGuard, Family: link.Family6},
		{NetworkType: link.Gateway, CNI: CNIRouted, Encrypt: EncryptWireGuard, Overlap: true},
		{NetworkType: link.P2P, CNI: CNIRouted, Family: "ipx"},
		{NetworkType: link.P2P, CNI: CNIRouted, Bandwidth: 1},
	} {
		if o.Validate() == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// TestApplyIsIdempotent holds that a configuration that stands is left as it is, that
// the next one takes the place of the last, and that none leaves nothing: of both families,
// and of ranges that overlap.
func TestApplyIsIdempotent(t *testing.T) {
	t.Parallel()
	all := build(t, Options{NetworkType: link.Gateway, CNI: CNIRouted, Family: link.FamilyAll})
	for _, o := range []Options{
		{NetworkType: link.Gateway}, {NetworkType: link.P2P}, {NetworkType: link.P2P, Family: link.FamilyAll}, {NetworkType: link.P2P, Family: link.FamilyAll},
		{NetworkType: link.Gateway, Family: link.Family6, Overlap: true}, {NetworkType: link.P2P, Family: link.FamilyAll, Overlap: true}, {NetworkType: link.Gateway},
	} {
		as := &Topology{options: o}
		for name, c := range link.NewTopology(as.Clusters(), as.Nodes()).Full() {
			if err := Apply(all.At(name), c); err != nil {
				t.Fatalf("%+v, %s: %v", o, name, err)
			}
			if got := devicesOf(t, all.At(name)); got != fmt.Sprint(namesOf(c)) {
				t.Errorf("%+v, %s: devices %s, want %v", o, name, got, namesOf(c))
			}
			state := stateOf(t, all.At(name))
			if err := Apply(all.At(name), c); err != nil {
				t.Fatalf("%+v, %s, again: %v", o, name, err)
			}
			if again := stateOf(t, all.At(name)); again != state {
				t.Errorf("%+v, %s: what stood was changed:\n%s\n%s", o, name, state, again)
			}
		}
	}
	repotest.NoError(t, Apply(all.At("a2"), &link.Config{}))
	repotest.Equal(t, stateOf(t, all.At("a2")), "", "left without a configuration")
	if got := devicesOf(t, all.At("a2")); got != "[]" {
		t.Errorf("devices %s without a configuration", got)
	}
}

// stateOf is what stands in a namespace of the link's, with the numbers that the kernel gives
// things anew when they are made anew.
func stateOf(t *testing.T, at network.Namespace) string {
	t.Helper()
	out := []string{}
	repotest.NoError(t, at.Do(func() error {
		for _, name := range link.DeviceNames() {
			if found, err := netlink.LinkByName(name); err == nil {
				out = append(out, fmt.Sprint(name, found.Attrs().Index))
			}
		}
		for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
			all, err := netlink.RouteListFiltered(family, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
			if err != nil {
				return err
			}
			for i := range all {
				out = append(out, routeKey(&all[i]))
			}
		}
		return nil
	}))
	eachRule(t, at, func(_ *nftables.Chain, r *nftables.Rule) {
		out = append(out, fmt.Sprint(r.Handle, " ", string(r.UserData)))
	})
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// eachRule calls a function for each rule of a namespace.
func eachRule(t *testing.T, at network.Namespace, f func(*nftables.Chain, *nftables.Rule)) {
	t.Helper()
	repotest.NoError(t, at.Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		chains, err := c.ListChains()
		for _, chain := range chains {
			rules, failed := c.GetRules(chain.Table, chain)
			for _, r := range rules {
				f(chain, r)
			}
			err = errors.Join(err, failed)
		}
		return err
	}))
}

func devicesOf(t *testing.T, at network.Namespace) string {
	t.Helper()
	found := repotest.Must(network.Devices(at))(t)
	return fmt.Sprint(slices.DeleteFunc(link.DeviceNames(), func(name string) bool {
		return !slices.ContainsFunc(found, func(d network.Device) bool { return d.Name == name })
	}))
}

func namesOf(c *link.Config) []string {
	return slices.DeleteFunc(link.DeviceNames(), func(name string) bool {
		return !slices.ContainsFunc(c.Devices, func(d link.Device) bool { return d.Name == name })
	})
}

// TestPublish holds that names lead to the namespaces, that those of a live process are
// not taken, that those of a dead one are removed, whatever their prefix was, and that what
// others have made stays.
func TestPublish(t *testing.T) {
	t.Parallel()
	all, folder := build(t, Options{NetworkType: link.P2P, CNI: CNIRouted}), t.TempDir()
	const dead = "/proc/4194305/fd/7" // beyond the largest pid
	repotest.NoError(t, errors.Join(os.Symlink(dead, filepath.Join(folder, "x-a1")), os.Symlink(dead, filepath.Join(folder, "y-a1")),
		os.Symlink("/run/nothing", filepath.Join(folder, "theirs"))))
	withdraw := repotest.Must(all.Publish(folder, "x"))(t)
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
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 || left[0].Name() != "theirs" {
		t.Errorf("%v left, %v", left, err)
	}
}

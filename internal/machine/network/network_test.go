package network_test

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/network"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// ends are addresses of the range for benchmarks (RFC 2544): they lead nowhere.
func ends() (left, right netip.Addr) {
	return netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("198.18.0.2")
}

// pair makes two namespaces with a veth between them and returns their ends. They
// are gone when the test ends, or when its process does: only descriptors hold them.
func pair(t *testing.T) (a, b network.End) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces are made by root")
	}
	left, right := ends()
	a, b = network.End{Namespace: namespace(t), Address: left}, network.End{Namespace: namespace(t), Address: right}
	there := repotest.Must(os.Open(string(b.Namespace)))(t)
	defer there.Close()
	repotest.NoError(t, a.Namespace.Do(func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "left"}, PeerName: "right", PeerNamespace: netlink.NsFd(there.Fd())})
	}))
	for name, end := range map[string]network.End{"left": a, "right": b} {
		repotest.NoError(t, end.Namespace.Do(func() error { return raise(name, end.Address) }))
	}
	return a, b
}

// raise gives a device its address.
func raise(name string, at netip.Addr) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	address, err := netlink.ParseAddr(at.String() + "/30")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, address); err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// namespace makes one that a descriptor of this process holds.
func namespace(t *testing.T) network.Namespace {
	t.Helper()
	n := repotest.Must(network.NewNamespace())(t)
	t.Cleanup(func() { _ = n.Close() })
	return n.Namespace()
}

// TestTry holds that where networks can be built it is not said that they cannot.
func TestTry(t *testing.T) {
	pair(t)
	if err := network.Try(); err != nil {
		t.Error(err)
	}
	_, err := os.Stat("/proc/sys/net/ipv6")
	if there := err == nil; there != (network.TryIPv6() == nil) {
		t.Errorf("IPv6 of the kernel %v, found %v", there, network.TryIPv6())
	}
}

func echoes(t *testing.T, o network.EchoOptions) (all []network.Echo) {
	t.Helper()
	o.Clock = clock.Start()
	repotest.NoError(t, network.Echoes(t.Context(), o, func(e network.Echo) { all = append(all, e) }))
	slices.SortFunc(all, func(a, b network.Echo) int { return int(a.Due - b.Due) })
	return all
}

func TestEchoes(t *testing.T) {
	for _, icmp := range []bool{false, true} {
		t.Run(fmt.Sprintf("icmp=%v", icmp), func(t *testing.T) {
			a, b := pair(t)
			all := echoes(t, network.EchoOptions{From: a, To: b, ICMP: icmp, Pace: pace.Constant(500), For: 400 * time.Millisecond, Size: 56, Patience: 10 * time.Second})
			if len(all) != 200 {
				t.Fatalf("%d echoes: want 200", len(all))
			}
			for i, e := range all {
				switch {
				case e.Due.Sub(all[0].Due) != time.Duration(i)*2*time.Millisecond:
					t.Fatalf("echo %d was due %v after the first", i, e.Due.Sub(all[0].Due))
				case e.Lost, e.Sent < e.Due, e.Done <= e.Sent:
					t.Fatalf("echo %d: %+v", i, e)
				}
			}
		})
	}
}

// TestLateEchoIsLost: an answer after an echo's timeout is none, however soon after.
func TestLateEchoIsLost(t *testing.T) {
	a, b := pair(t)
	for _, icmp := range []bool{false, true} {
		for i, e := range echoes(t, network.EchoOptions{From: a, To: b, ICMP: icmp, Pace: pace.Constant(500), For: 40 * time.Millisecond, Size: 56, Patience: 1}) {
			if !e.Lost {
				t.Errorf("icmp=%v: echo %d was answered after %v", icmp, i, e.Done.Sub(e.Sent))
			}
		}
	}
}

// TestEchoesOfNobodyAreLost holds that echoes go on to be sent when none is answered, and
// that each is given up after its time.
func TestEchoesOfNobodyAreLost(t *testing.T) {
	a, b := pair(t)
	repotest.NoError(t, b.Namespace.Do(func() error {
		link, err := netlink.LinkByName("right")
		if err != nil {
			return err
		}
		return netlink.LinkSetDown(link)
	}))
	all := echoes(t, network.EchoOptions{From: a, To: b, ICMP: true, Pace: pace.Constant(100), For: 200 * time.Millisecond, Size: 8, Patience: 100 * time.Millisecond})
	if len(all) != 20 {
		t.Fatalf("%d echoes: want 20", len(all))
	}
	for i, e := range all {
		if !e.Lost || e.Done.Sub(e.Sent) < 100*time.Millisecond {
			t.Errorf("echo %d: %+v", i, e)
		}
	}
}

func streams(t *testing.T, o network.StreamOptions) (all []network.Reading) {
	t.Helper()
	o.Clock = clock.Start()
	repotest.NoError(t, network.Streams(t.Context(), o, func(r network.Reading) { all = append(all, r) }))
	return all
}

// TestBytesAreThoseOfTheDevice holds that the bytes of streams are those that the
// device counted, less headers and what was on its way at the last reading.
func TestBytesAreThoseOfTheDevice(t *testing.T) {
	a, b := pair(t)
	before := device(t, b)
	all := streams(t, network.StreamOptions{From: a, To: b, Streams: 2, For: 300 * time.Millisecond, Every: 50 * time.Millisecond})
	after := device(t, b)
	last := all[len(all)-1]
	if len(all) < 3 || last.Received == 0 {
		t.Fatalf("%d readings, %+v", len(all), last)
	}
	frames, bytes := after.ReceivedPackets-before.ReceivedPackets, after.ReceivedBytes-before.ReceivedBytes
	const heads = 14 + 20 + 60      // of Ethernet, IPv4 and TCP at the most, of each frame
	const underWay = 2 * (10 << 20) // buffers of two streams, at both ends
	if most := last.Received + heads*frames + underWay; bytes < last.Received || bytes > most {
		t.Errorf("%d bytes in %d frames by the device, %d by the stream", bytes, frames, last.Received)
	}
	for i := 1; i < len(all); i++ {
		if all[i].Received < all[i-1].Received || all[i].At <= all[i-1].At {
			t.Errorf("reading %d: %+v after %+v", i, all[i], all[i-1])
		}
	}
}

// TestSegmentsAreThePacketsOfTheDevice holds that the segments of streams are the packets
// that the device sent, where it takes no bundles: what it had counted just after a reading
// lies between that reading and the next one.
func TestSegmentsAreThePacketsOfTheDevice(t *testing.T) {
	a, b := pair(t)
	repotest.NoError(t, a.Namespace.Do(func() error {
		link, err := netlink.LinkByName("left")
		if err != nil {
			return err
		}
		return netlink.LinkSetGSOMaxSegs(link, 1)
	}))
	before := device(t, a).SentPackets
	var all []network.Reading
	var packets []uint64
	o := network.StreamOptions{From: a, To: b, Streams: 2, For: 300 * time.Millisecond, Every: 10 * time.Millisecond, Clock: clock.Start()}
	repotest.NoError(t, network.Streams(t.Context(), o, func(r network.Reading) {
		all, packets = append(all, r), append(packets, device(t, a).SentPackets-before)
	}))
	const others = 20 // of neighbours and routers, and segments that are counted and not yet sent
	for i := range len(all) - 1 {
		if n := packets[i] + others; n < all[i].Segments || packets[i] > all[i+1].Segments+others {
			t.Errorf("%d packets by the device after reading %d of %d segments and before one of %d", packets[i], i, all[i].Segments, all[i+1].Segments)
		}
	}
	if last := all[len(all)-1]; last.Segments < 1000 || last.Retransmits > last.Segments {
		t.Errorf("%+v: want a thousand segments and more", last)
	}
	t.Logf("%d packets by the device, %d segments in %d readings", packets[len(packets)-1], all[len(all)-1].Segments, len(all))
}

func device(t *testing.T, at network.End) network.Device {
	t.Helper()
	all, err := network.Devices(at.Namespace)
	if err != nil || len(all) != 1 || all[0].Kind != "veth" {
		t.Fatalf("%+v, %v: want one veth", all, err)
	}
	return all[0]
}

// shape limits what a device sends.
func shape(t *testing.T, at network.End, name string, bitsPerSecond uint64) {
	t.Helper()
	repotest.NoError(t, at.Namespace.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.QdiscAdd(&netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
			Rate:       bitsPerSecond / 8, Limit: 1 << 20, Buffer: 64 << 10, Minburst: 1514,
		})
	}))
}

// TestProofTokenBucketIsMeasured holds that a path of 100 Mbit/s is measured within 1 %:
// of 1514 bytes on the wire 1448 are content.
func TestProofTokenBucketIsMeasured(t *testing.T) {
	repotest.Proof(t)
	a, b := pair(t)
	shape(t, a, "left", 100e6)
	all := streams(t, network.StreamOptions{From: a, To: b, Streams: 1, For: 10 * time.Second, Every: 100 * time.Millisecond})
	// Without the first second: the bucket is full at the begin, and the stream slow.
	first := all[slices.IndexFunc(all, func(r network.Reading) bool { return r.At.Sub(all[0].At) >= time.Second })]
	last := all[len(all)-1]
	got := 8 * float64(last.Received-first.Received) / last.At.Sub(first.At).Seconds()
	want := 100e6 * 1448 / 1514
	t.Logf("%.3f Mbit/s of %.3f", got/1e6, want/1e6)
	if got < 0.99*want || got > 1.01*want {
		t.Errorf("%.3f Mbit/s: want %.3f", got/1e6, want/1e6)
	}
}

// TestProofDelayIsMeasured holds that packets which a device holds for 5 ms on their way
// back take 5 ms more than those that it passes on at once, within 0.1 ms at the median:
// what the device itself takes is in both.
func TestProofDelayIsMeasured(t *testing.T) {
	repotest.Proof(t)
	for _, icmp := range []bool{false, true} {
		atOnce, held := medianTrip(t, icmp, 0), medianTrip(t, icmp, 5*time.Millisecond)
		t.Logf("icmp %v: %v at once, %v held", icmp, atOnce, held)
		if more := held - atOnce; more < 4900*time.Microsecond || more > 5100*time.Microsecond {
			t.Errorf("icmp %v: %v more: want 4.9 ms to 5.1 ms", icmp, more)
		}
	}
}

// medianTrip returns the median round trip through a device that holds packets.
func medianTrip(t *testing.T, icmp bool, delay time.Duration) time.Duration {
	t.Helper()
	a, b := tunnel(t, delay)
	var trips []time.Duration
	for _, e := range echoes(t, network.EchoOptions{From: a, To: b, ICMP: icmp, Pace: pace.Constant(100), For: 3 * time.Second, Size: 56, Patience: time.Second}) {
		if !e.Lost {
			trips = append(trips, e.Done.Sub(e.Sent))
		}
	}
	if len(trips) < 290 {
		t.Fatalf("%d of 300 answered", len(trips))
	}
	slices.Sort(trips)
	return trips[len(trips)/2]
}

// tunnel makes two namespaces with a tun device each, and passes packets from one to the
// other: at once there, and after a delay back. It spins rather than sleeps, so that
// its own lateness is small.
func tunnel(t *testing.T, back time.Duration) (a, b network.End) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces are made by root")
	}
	left, right := ends()
	a, b = network.End{Namespace: namespace(t), Address: left}, network.End{Namespace: namespace(t), Address: right}
	there, here := tun(t, a), tun(t, b)
	var pumps sync.WaitGroup
	pump := func(from, to *os.File, delay time.Duration) {
		type held struct {
			due  time.Time
			data []byte
		}
		waiting := make(chan held, 1<<12)
		pumps.Go(func() {
			defer close(waiting)
			for {
				packet := make([]byte, 2048)
				n, err := from.Read(packet)
				if err != nil {
					return
				}
				waiting <- held{time.Now().Add(delay), packet[:n]}
			}
		})
		pumps.Go(func() {
			for h := range waiting {
				time.Sleep(time.Until(h.due) - 2*time.Millisecond)
				for time.Now().Before(h.due) {
				}
				_, _ = to.Write(h.data)
			}
		})
	}
	pump(there, here, 0)
	pump(here, there, back)
	t.Cleanup(func() {
		_ = there.Close()
		_ = here.Close()
		pumps.Wait()
	})
	return a, b
}

// tun makes a tun device at an end and returns the file of its packets.
func tun(t *testing.T, at network.End) (file *os.File) {
	t.Helper()
	repotest.NoError(t, at.Namespace.Do(func() error {
		link := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "held"}, Mode: netlink.TUNTAP_MODE_TUN, Flags: netlink.TUNTAP_NO_PI, Queues: 1, NonPersist: true}
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		file = link.Fds[0]
		return raise("held", at.Address)
	}))
	return file
}

func TestNoSuchNamespace(t *testing.T) {
	_, right := ends()
	err := network.Echoes(t.Context(), network.EchoOptions{To: network.End{Namespace: "windtunnel-test-none", Address: right}, Clock: clock.Start()}, nil)
	if want := "network: there is no namespace windtunnel-test-none"; err == nil || err.Error() != want {
		t.Errorf("%v: want %s", err, want)
	}
}

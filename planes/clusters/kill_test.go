package clusters_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/network"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/planes/clusters"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

func TestMain(m *testing.M) { planetest.Main(m, clusters.Verbs) }

// TestKilledLinkLeavesNothing holds that the namespaces of a link that is killed are gone with
// their devices and rules, that the next one takes the names which led there and works, and
// that one which ends as it should takes them away: with what stands from the begin, and with
// agents and a network-manager that are killed, too.
func TestKilledLinkLeavesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	for _, agents := range []bool{false, true} {
		t.Run(fmt.Sprint("agents ", agents), func(t *testing.T) {
			prefix := fmt.Sprintf("wt-test-%d-%t", os.Getpid(), agents)
			args := []string{"--kubeconfig", planetest.WriteKubeconfig(t, planetest.Cluster(t, "host", hollow.Models{}).Endpoint())}
			link := append([]string{"link", "--network-type", "gateway", "--overlap", "--prefix", prefix}, args...)
			others := [][]string{}
			if agents {
				link = append(link, "--agents", "--debounce=20ms", "--lease-duration=3s", "--renew-deadline=2s", "--retry-period=200ms")
				others = [][]string{append([]string{"network-manager", "--compute=incremental", "--window=10ms"}, args...), append([]string{"network-agents"}, args...)}
			}
			all := func() (out []*planetest.Process) {
				for _, other := range others {
					out = append(out, planetest.Spawn(t, other...))
				}
				return append(out, planetest.Spawn(t, link...))
			}
			first := all()
			names := namesOf(t, prefix)
			if len(names) != 7 {
				t.Fatalf("names %v: want a router's, and three machines' with their pods'", names)
			}
			watched := watch(t, names)
			for _, c := range first {
				_ = c.End(syscall.SIGKILL)
			}
			repotest.Eventually(t, "what led into the namespaces of the killed is gone with them", func() bool { return len(devicesOf(t, watched)) == 0 })
			for _, name := range names {
				if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s still leads to something: %v", name, err)
				}
			}
			next := all()
			answers(t, prefix)
			for _, c := range slices.Backward(next) {
				if err := c.End(os.Interrupt); err != nil {
					t.Errorf("%v ended with %v", c.Args[1], err)
				}
			}
			if left := namesOf(t, prefix); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestKilledWhileItCreates kills managers, as processes, while they make pods in members:
// in the end each pod of the host has one, of the same status, and when all are deleted
// nothing is left over.
func TestKilledWhileItCreates(t *testing.T) {
	for name := range presets() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const each, kills = 20, 3
			r := newRig(t, shape{members: 2, nodes: 2, mode: api.LeafNode})
			r.settings()
			args := []string{"tree-manager", "--kubeconfig", planetest.WriteKubeconfig(t, r.endpoint), "--retry=grows", "--leader-election=none"} // it is killed too often to wait for its lease
			if name == "improved" {
				args = append(args, "--preset=improved")
			}
			made := func() int { return len(r.list(r.members[0])) + len(r.list(r.members[1])) }
			pods, atIt := 0, 0
			for range kills {
				for range each {
					r.create(pod(fmt.Sprint("p", pods), withSettings))
					pods++
				}
				before, burst := made(), 1
				if name == "default" {
					burst = pods // calls on the settings of pods, before the first of them is made
				}
				m := planetest.Spawn(t, append(args, fmt.Sprint("--limiter=5/", burst))...) // from then on at most ten pods a second in both members
				repotest.Eventually(t, "some more pods are made", func() bool { return made() > before })
				_ = m.End(syscall.SIGKILL)
				if made() < pods {
					atIt++
				}
			}
			if atIt == 0 {
				t.Errorf("none of the managers was killed before it had made all pods")
			}
			planetest.Spawn(t, append(args, "--limiter=1000/1000")...)
			r.run(pods)
			r.agree()
			if n := made(); n != pods {
				t.Errorf("members have %d pods, want %d", n, pods)
			}
			for i := range pods {
				r.delete(fmt.Sprint("p", i))
			}
			r.run(0)
			repotest.Eventually(t, "members have no pods", func() bool { return made() == 0 })
			r.forgets()
			r.agree()
		})
	}
}

// namesOf returns the names of namespaces with a prefix.
func namesOf(t *testing.T, prefix string) []string {
	t.Helper()
	return repotest.Must(filepath.Glob("/run/netns/" + prefix + "-*"))(t)
}

// watch makes a namespace of the test's own with a pair of devices for each of others, whose
// other end is there: the kernel takes a pair away when the namespace of one end is gone.
func watch(t *testing.T, others []string) network.Namespace {
	t.Helper()
	held := repotest.Must(network.NewNamespace())(t)
	t.Cleanup(func() { _ = held.Close() })
	for i, other := range others {
		file := repotest.Must(os.Open(other))(t)
		err := held.Namespace().Do(func() error {
			attrs := netlink.NewLinkAttrs()
			attrs.Name = fmt.Sprint("watch", i)
			return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "watched", PeerNamespace: netlink.NsFd(int(file.Fd()))})
		})
		repotest.NoError(t, errors.Join(err, file.Close()))
	}
	if n := len(devicesOf(t, held.Namespace())); n != len(others) {
		t.Fatalf("%d devices lead to %d namespaces", n, len(others))
	}
	return held.Namespace()
}

func devicesOf(t *testing.T, at network.Namespace) []network.Device {
	t.Helper()
	return repotest.Must(network.Devices(at))(t)
}

// answers waits until a pod of A is answered by the one of B that has its own address, by
// what A knows it by.
func answers(t *testing.T, prefix string) {
	t.Helper()
	from := network.End{Namespace: network.Namespace(prefix + "-pod-a1"), Address: netip.MustParseAddr("198.18.101.10")}
	to := network.End{Namespace: network.Namespace(prefix + "-pod-b1"), Address: netip.MustParseAddr("198.18.229.10")}
	repotest.Eventually(t, "pods of both clusters reach each other", func() bool {
		answered := false
		repotest.NoError(t, network.Echoes(t.Context(), network.EchoOptions{From: from, To: to, ICMP: true, Pace: pace.Constant(50), For: 100 * time.Millisecond,
			Size: 64, Patience: 200 * time.Millisecond, Clock: clock.Start()}, func(e network.Echo) { answered = answered || !e.Lost }))
		return answered
	})
}

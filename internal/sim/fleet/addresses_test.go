package fleet

import (
	"testing"
)

func TestNames(t *testing.T) {
	s := &nodes{template: &nodeTemplate{fleet: "node"}}
	s.planNodes(3)
	if n := s.byName["node-000002"]; n == nil || n != s.all[2] || n.index != 2 || n.host != hostAddress(2) {
		t.Errorf("got %+v", n)
	}
	s.all[1], s.vacant = nil, []uint32{1} // its place is given to the next one
	n := &node{}
	s.addNode(n, "other")
	if n.index != 1 || s.all[1] != n || len(s.all) != 3 {
		t.Errorf("place %d of %d", n.index, len(s.all))
	}
}

func TestAddresses(t *testing.T) {
	s := &nodes{template: &nodeTemplate{fleet: "node"}}
	s.planNodes(2)
	pool := newAddresses(s)
	a, b := s.all[0], s.all[1]
	seen := map[uint32]bool{}
	for range 40 {
		for _, n := range []*node{a, b} {
			ip := pool.takeAddress(n)
			if ip == 0 || seen[ip] {
				t.Fatalf("address %v twice", addressFrom(ip))
			}
			seen[ip] = true
		}
	}
	a.freeAddress(firstPod + 3)
	if ip := pool.takeAddress(a); ip != firstPod+3 {
		t.Errorf("took %v, not the one that was given back", addressFrom(ip))
	}
	if got := (&addressBook{addresses: pool}).Host([]byte("node-000001")).String(); got != "10.1.0.1" {
		t.Errorf("host %s", got)
	}
	pool.next = lastAddress - blockSize + 1
	if ip := pool.takeAddress(&node{}); ip != 0 {
		t.Errorf("took %v from nothing", addressFrom(ip))
	}
}

func TestPodKey(t *testing.T) {
	a := podKeyOf([]byte("0b1e5f1c-7d52-4f39-9a39-5a60b6a9a111"))
	if a[0] != 0x0b || a[15] != 0x11 {
		t.Errorf("%x", a)
	}
	if podKeyOf([]byte("x")) == podKeyOf([]byte("y")) || podKeyOf([]byte("0b1e5f1c-7d52-4f39-9a39-5a60b6a9a11z")) == a {
		t.Error("two pods, one key")
	}
}

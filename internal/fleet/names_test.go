package fleet

import (
	"testing"
)

func TestNames(t *testing.T) {
	f := &Fleet{model: &model{fleet: "node"}}
	f.makeNodes(3)
	if n := f.byName["node-000002"]; n == nil || n != f.nodes[2] || n.index != 2 || n.host != hostAddress(2) {
		t.Errorf("got %+v", n)
	}
	f.nodes[1], f.vacant = nil, []uint32{1} // its place is given to the next one
	n := &node{}
	f.addNode(n, "other")
	if n.index != 1 || f.nodes[1] != n || len(f.nodes) != 3 {
		t.Errorf("place %d of %d", n.index, len(f.nodes))
	}
}

func TestAddresses(t *testing.T) {
	f := &Fleet{nextBlock: firstPod, model: &model{fleet: "node"}}
	f.makeNodes(2)
	a, b := f.nodes[0], f.nodes[1]
	seen := map[uint32]bool{}
	for range 40 {
		for _, n := range []*node{a, b} {
			ip := f.takeAddress(n)
			if ip == 0 || seen[ip] {
				t.Fatalf("address %v twice", address(ip))
			}
			seen[ip] = true
		}
	}
	a.freeAddress(firstPod + 3)
	if ip := f.takeAddress(a); ip != firstPod+3 {
		t.Errorf("took %v, not the one that was given back", address(ip))
	}
	if got := (&book{fleet: f}).Host([]byte("node-000001")).String(); got != "10.1.0.1" {
		t.Errorf("host %s", got)
	}
	f.nextBlock = lastAddress - blockSize + 1
	if ip := f.takeAddress(&node{}); ip != 0 {
		t.Errorf("took %v from nothing", address(ip))
	}
}

func TestPodKey(t *testing.T) {
	a := podKey([]byte("0b1e5f1c-7d52-4f39-9a39-5a60b6a9a111"))
	if a[0] != 0x0b || a[15] != 0x11 {
		t.Errorf("%x", a)
	}
	if podKey([]byte("x")) == podKey([]byte("y")) || podKey([]byte("0b1e5f1c-7d52-4f39-9a39-5a60b6a9a11z")) == a {
		t.Error("two pods, one key")
	}
}

package fleet

import (
	"testing"
)

func TestNames(t *testing.T) {
	f := &Fleet{nodes: make([]*node, 2_000_000), model: &model{fleet: "node"}}
	for _, i := range []uint32{0, 7, 999_999, 1_000_000, 1_999_999} {
		if got, ok := f.index([]byte(f.model.nodeName(i))); !ok || got != i {
			t.Errorf("%s is %d, %v", f.model.nodeName(i), got, ok)
		}
	}
	for _, name := range []string{"", "node-", "node-00001", "node-0000001", "node-2000000", "node-00000x", "mode-000001", "node-9999999999"} {
		if _, ok := f.index([]byte(name)); ok {
			t.Errorf("%q is a node", name)
		}
	}
}

func TestAddresses(t *testing.T) {
	f := &Fleet{nextBlock: firstPod, nodes: make([]*node, 2), model: &model{fleet: "node"}}
	a, b := &node{}, &node{index: 1}
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

package fleet

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// Addresses are made up: nobody sends packets to them. Hosts count up from
// 10.1.0.0, pods from 10.64.0.0 in blocks of 16 that belong to one node each,
// as the ranges of a real network do.
const (
	firstHost   = 10<<24 | 1<<16
	firstPod    = 10<<24 | 64<<16
	blockSize   = 16
	maxNodes    = firstPod - firstHost
	lastAddress = 1<<32 - 1
)

func addressFrom(v uint32) netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], v)
	return netip.AddrFrom4(a)
}

func hostAddress(index uint32) netip.Addr { return addressFrom(firstHost + index) }

// addressBlock is a range of pod addresses of one node; bit i of used is base+i.
type addressBlock struct {
	base uint32
	used uint16
}

// addresses gives hosts and pods their addresses. Its methods are called in the
// driver's turn.
type addresses struct {
	nodes *nodes
	next  uint32 // block
	step  uint32 // to the one after it: those between are of others who share the fleet
}

func newAddresses(n *nodes) *addresses {
	return &addresses{nodes: n, next: firstPod + uint32(n.share.Index)*blockSize, step: uint32(n.share.Stride()) * blockSize}
}

// takeAddress gives a pod of the node an address; 0 when there is none left.
func (a *addresses) takeAddress(n *node) uint32 {
	for i := range n.blocks {
		b := &n.blocks[i]
		if b.used != 1<<blockSize-1 {
			free := uint32(bits.TrailingZeros16(^b.used))
			b.used |= 1 << free
			return b.base + free
		}
	}
	if a.next > lastAddress-a.step {
		return 0
	}
	n.blocks = append(n.blocks, addressBlock{base: a.next, used: 1})
	a.next += a.step
	return n.blocks[len(n.blocks)-1].base
}

func (n *node) freeAddress(ip uint32) {
	for i := range n.blocks {
		if b := &n.blocks[i]; ip-b.base < blockSize {
			b.used &^= 1 << (ip - b.base)
			return
		}
	}
}

// hostOf returns the address of a node; that of one that another instance keeps
// alive is known only where all have the same.
func (a *addresses) hostOf(name string) netip.Addr {
	if n := a.nodes.byName[name]; n != nil {
		return n.host
	}
	return a.nodes.hostIP
}

// addressBook answers for the addresses of one pod or node while its stage is
// rendered.
type addressBook struct {
	*addresses
	pod *pod // nil for a node
}

// Host returns the address of a node of the fleet.
func (b *addressBook) Host(name []byte) netip.Addr { return b.hostOf(string(name)) }

// Pod returns the pod's address and takes one when it has none.
func (b *addressBook) Pod(p *object.Pod) netip.Addr {
	if p.HostNetwork || b.pod == nil {
		return b.Host(p.NodeName)
	}
	if len(p.PodIP) > 0 {
		if a, err := netip.ParseAddr(string(p.PodIP)); err == nil {
			return a // it keeps the one it has
		}
	}
	if b.pod.ip == 0 {
		b.pod.ip = b.takeAddress(b.pod.node)
	}
	if b.pod.ip == 0 {
		return netip.Addr{}
	}
	return addressFrom(b.pod.ip)
}

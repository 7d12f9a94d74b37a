package fleet

import "fmt"

// Share is the part of a fleet's nodes that one of several processes keeps alive:
// those whose number leaves Index when it is divided by Of. Names, addresses and the
// times of their creation are those of the whole; the shares of all processes together
// are the fleet. The first has also what belongs to no node: objects of stages, and
// stages of other kinds than nodes and pods. The zero value is all nodes.
type Share struct{ Index, Of int }

// stride is how far the numbers of two nodes of the share lie apart.
func (s Share) stride() int { return max(1, s.Of) }

// Count returns how many of n nodes are the share's.
func (s Share) Count(n int) int { return max(0, (n-s.Index+s.stride()-1)/s.stride()) }

// Has tells whether a thing of this number is the share's.
func (s Share) Has(i int) bool { return i%s.stride() == s.Index }

func (s Share) check() error {
	if s.Index < 0 || s.Of < 0 || s.Index >= s.stride() || s.Of > maxNodes {
		return fmt.Errorf("fleet: share %d of %d: shares count from 0", s.Index, s.Of)
	}
	return nil
}

package steps

import (
	"slices"
	"sync"
)

// presence remembers which objects of a create step are there, one bit for each.
// Many goroutines use it.
type presence struct {
	mu      sync.Mutex
	there   bitmap // by layout.numberOf
	indices int    // in each space: none that is there has a higher one
	ever    int    // the most that there were
}

func (p *presence) set(number int, there bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.there.set(number, there)
}

func (p *presence) has(number int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.there.has(number)
}

// upTo returns the number of indices in each space.
func (p *presence) upTo() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.indices
}

// upToEver is the same of all that were ever there.
func (p *presence) upToEver() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ever
}

func (p *presence) setUpTo(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.indices, p.ever = n, max(p.ever, n)
}

// empty tells whether nothing is there any more.
func (p *presence) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.ContainsFunc(p.there, func(word uint64) bool { return word != 0 })
}

// bitmap remembers a yes or no of many objects.
type bitmap []uint64

func (b *bitmap) set(i int, yes bool) {
	word := i / 64
	for word >= len(*b) {
		*b = append(*b, 0)
	}
	if yes {
		(*b)[word] |= 1 << (i % 64)
	} else {
		(*b)[word] &^= 1 << (i % 64)
	}
}

func (b bitmap) has(i int) bool { return i/64 < len(b) && b[i/64]&(1<<(i%64)) != 0 }

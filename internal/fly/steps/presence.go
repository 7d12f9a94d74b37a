package steps

import (
	"iter"
	"math/bits"
	"slices"
	"sync"
)

// presence remembers which objects of a create step are there, one bit for each.
// Many goroutines use it.
type presence struct {
	mu      sync.Mutex
	there   bitmap           // by layout.numberOf
	refused bitmap           // likewise: those that could not be made, though that was not expected
	why     string           // of the first of them
	uids    map[int]string   // by number: of those in a cluster that is not the run's own
	doubted map[ordinal]bool // whose creation was not answered in a cluster that is not the run's own
	indices int              // in each space: none that is there has a higher one
	ever    int              // the most that there were
	change  *Change          // since it was last asked for; nil: nobody asks
}

func (p *presence) set(number int, there bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.there.set(number, there)
	if there && p.refused.has(number) {
		p.refused.set(number, false)
	}
	p.noteSet(number, there)
}

// refuse remembers that an object could not be made.
func (p *presence) refuse(number int, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused.set(number, true); p.why == "" {
		p.why = why
	}
	p.noteRefused(number, why)
}

// setUID remembers an object that is there, and which one it is.
func (p *presence) setUID(number int, uid string) {
	p.set(number, true)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.uids == nil {
		p.uids = map[int]string{}
	}
	p.uids[number] = uid
	p.noteUID(number, uid)
}

// uid returns that of an object; empty when it is not known.
func (p *presence) uid(number int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.uids[number]
}

// doubt remembers that nobody knows whether an object was made.
func (p *presence) doubt(n ordinal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doubted == nil {
		p.doubted = map[ordinal]bool{}
	}
	p.doubted[n] = true
	p.noteDoubted(n)
}

// takeDoubted returns the objects in doubt, which are in doubt no longer.
func (p *presence) takeDoubted() map[ordinal]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.doubted
	p.doubted = nil
	return out
}

// refusals returns how many objects could not be made, of how many that should be
// there, and why the first could not.
func (p *presence) refusals() (refused, of int, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	refused = p.refused.count()
	return refused, refused + p.there.count(), p.why
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
	p.noteIndices(n)
	if n == 0 {
		p.refused, p.why = nil, ""
	}
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

// all yields those that are set.
func (b bitmap) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for at, word := range b {
			for ; word != 0; word &= word - 1 {
				if !yield(64*at + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}

func (b bitmap) count() (n int) {
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}

func (b bitmap) has(i int) bool { return i/64 < len(b) && b[i/64]&(1<<(i%64)) != 0 }

package inventory

import (
	"iter"
	"math/bits"
	"slices"
	"sync"
)

// Presence remembers which objects of a create step are there, one bit for each.
// Many goroutines use it.
type Presence struct {
	mu          sync.Mutex
	there       Bitmap           // by layout.numberOf
	gone        Bitmap           // likewise: those that were there
	churns      int              // how many steps delete and make them again just now
	refused     Bitmap           // likewise: those that could not be made, though that was not expected
	why         string           // of the first of them
	uids        map[int]string   // by number: of those in a cluster that is not the run's own
	unconfirmed map[Ordinal]bool // whose creation was not answered in a cluster that is not the run's own
	indices     int              // in each space: none that is there has a higher one
	ever        int              // the most that there were
	change      *Change          // since it was last asked for; nil: nobody asks
}

// Set remembers whether an object is there.
func (p *Presence) Set(number int, there bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if was := p.there.Has(number); was || p.gone.Has(number) {
		p.gone.Set(number, !there)
	}
	p.there.Set(number, there)
	if there && p.refused.Has(number) {
		p.refused.Set(number, false)
	}
	p.noteSetLocked(number, there)
}

// Refuse remembers that an object could not be made.
func (p *Presence) Refuse(number int, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused.Set(number, true); p.why == "" {
		p.why = why
	}
	p.noteRefusedLocked(number, why)
}

// SetUID remembers an object that is there, and which one it is.
func (p *Presence) SetUID(number int, uid string) {
	p.Set(number, true)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.uids == nil {
		p.uids = map[int]string{}
	}
	p.uids[number] = uid
	p.noteUIDLocked(number, uid)
}

// UID returns that of an object; empty when it is not known.
func (p *Presence) UID(number int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.uids[number]
}

// MarkUnconfirmed remembers that nobody knows whether an object was made.
func (p *Presence) MarkUnconfirmed(n Ordinal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unconfirmed == nil {
		p.unconfirmed = map[Ordinal]bool{}
	}
	p.unconfirmed[n] = true
	p.noteUnconfirmedLocked(n)
}

// TakeUnconfirmed returns the unconfirmed objects, which are unconfirmed no longer.
func (p *Presence) TakeUnconfirmed() map[Ordinal]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.unconfirmed
	p.unconfirmed = nil
	return out
}

// Refusals returns how many objects could not be made, of how many that should be
// there, and why the first could not.
func (p *Presence) Refusals() (refused, of int, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	refused = p.refused.Count()
	return refused, refused + p.there.Count(), p.why
}

// Has tells whether an object is there.
func (p *Presence) Has(number int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.there.Has(number)
}

// BeginChurn says that from now on objects are deleted which are made again.
func (p *Presence) BeginChurn() { p.addChurn(1) }

// EndChurn says that this has ended: what was not made again is gone.
func (p *Presence) EndChurn() { p.addChurn(-1) }

func (p *Presence) addChurn(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.churns += n
}

// CountGone returns how many of n objects, each with a number, were there and are not. What
// is being churned comes back, and what could not be made again is told as such.
func (p *Presence) CountGone(n int, number func(i int) int) (gone int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.churns > 0 || p.gone.Count() == 0 {
		return 0
	}
	for i := range n {
		if k := number(i); p.gone.Has(k) && !p.refused.Has(k) {
			gone++
		}
	}
	return gone
}

// UpTo returns the number of indices in each space.
func (p *Presence) UpTo() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.indices
}

// UpToEver is the same of all that were ever there.
func (p *Presence) UpToEver() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ever
}

// SetUpTo says below which index objects are there, in each space; 0: none are.
func (p *Presence) SetUpTo(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.indices, p.ever = n, max(p.ever, n)
	p.noteIndicesLocked(n)
	if n == 0 {
		p.refused, p.why = nil, ""
	}
}

// Empty tells whether nothing is there any more.
func (p *Presence) Empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.ContainsFunc(p.there, func(word uint64) bool { return word != 0 })
}

// Bitmap remembers a yes or no of many objects.
type Bitmap []uint64

// Set sets the bit of object i.
func (b *Bitmap) Set(i int, yes bool) {
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

// All yields those that are set.
func (b Bitmap) All() iter.Seq[int] {
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

// Count counts those that are set.
func (b Bitmap) Count() (n int) {
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}

// Has tells whether the bit of object i is set.
func (b Bitmap) Has(i int) bool { return i/64 < len(b) && b[i/64]&(1<<(i%64)) != 0 }

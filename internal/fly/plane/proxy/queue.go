package proxy

import "github.com/windtunnel/windtunnel/internal/clock"

const (
	blockBytes = 32 << 10
	// minRead is the least that is read at a time while blocks are being
	// filled: fewer bytes would cost a system call each.
	minRead = 4 << 10
	// markBytes is what a mark counts in a queue's size.
	markBytes = 64
)

// block holds bytes from r to w.
type block struct {
	r, w  int
	bytes [blockBytes]byte
}

// mark says that the next n bytes are due at a time.
type mark struct {
	n   int
	due clock.Time
	end end
}

// end says whether, and how, a direction ends here.
type end uint8

const (
	goesOn end = iota
	closes     // FIN
	resets     // RST
)

// fifo is a queue of values in one slice.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) first() *T { return &f.items[f.head] }

func (f *fifo[T]) last() *T { return &f.items[len(f.items)-1] }

func (f *fifo[T]) push(v T) {
	if len(f.items) == cap(f.items) && f.head > len(f.items)/2 {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, v)
}

func (f *fifo[T]) pop() T {
	var zero T
	v := f.items[f.head]
	f.items[f.head] = zero
	if f.head++; f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	return v
}

// queue holds the bytes of one direction that are on their way, in order. One
// goroutine fills it and one empties it: the first may write behind the last
// block's w and the second read before it without the lock that guards the
// rest.
type queue struct {
	blocks fifo[*block]
	marks  fifo[mark]
	bytes  int
}

// size is what the queue holds, its marks included.
func (q *queue) size() int { return q.bytes + q.marks.len()*markBytes }

// nextBuffer returns where the next bytes may be read to; fresh gives new blocks.
func (q *queue) nextBuffer(fresh func() *block) []byte {
	if q.blocks.len() > 0 {
		if b := *q.blocks.last(); b.r == b.w {
			b.r, b.w = 0, 0
		}
	}
	if q.blocks.len() == 0 || blockBytes-(*q.blocks.last()).w < minRead {
		q.blocks.push(fresh())
	}
	b := *q.blocks.last()
	return b.bytes[b.w:]
}

// putBytes adds n bytes that were read to buffer, and when they are due. Nothing is
// due before what is in front of it.
func (q *queue) putBytes(n int, due clock.Time, e end) {
	if n > 0 {
		(*q.blocks.last()).w += n
		q.bytes += n
	}
	if q.marks.len() > 0 {
		m := q.marks.last()
		due = max(due, m.due)
		if m.due == due && e == goesOn {
			m.n += n
			return
		}
	}
	q.marks.push(mark{n, due, e})
}

// dueBytes returns bytes that are due by now, at most limit and those of one block.
func (q *queue) dueBytes(now clock.Time, limit int) []byte {
	n := 0
	for i := q.marks.head; i < len(q.marks.items) && n < limit && q.marks.items[i].due <= now; i++ {
		n += q.marks.items[i].n
	}
	if n == 0 {
		return nil
	}
	b := *q.blocks.first()
	return b.bytes[b.r:min(b.w, b.r+min(n, limit))]
}

// discardBytes removes the first n bytes, which due has returned, and gives back a
// block that is used up.
func (q *queue) discardBytes(n int) (empty *block) {
	q.bytes -= n
	b := *q.blocks.first()
	if b.r += n; b.r == b.w && q.blocks.len() > 1 {
		empty = q.blocks.pop()
		empty.r, empty.w = 0, 0
	}
	for n > 0 {
		m := q.marks.first()
		part := min(n, m.n)
		n -= part
		if m.n -= part; m.n == 0 {
			q.marks.pop()
		}
	}
	return empty
}

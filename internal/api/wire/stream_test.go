package wire

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestBodyOfPieces keeps bodies that come in parts of any length: they are joined as they
// came, and large ones take at most three pieces more than they are long.
func TestBodyOfPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for _, size := range []int{0, 1, pieceSize - 1, pieceSize, pieceSize + 1, 2 * pieceSize, 5*pieceSize + 7} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(rng.Uint32())
		}
		s := &stream{}
		for left := want; len(left) > 0; {
			n := min(len(left), 1+rng.IntN(100_000))
			s.keepBody(left[:n])
			left = left[n:]
		}
		if s.bodyLength() != size || !bytes.Equal(s.joinBody(), want) {
			t.Errorf("a body of %d bytes: %d were kept, or they are others", size, s.bodyLength())
		}
		held := cap(s.body)
		for _, p := range s.pieces {
			held += cap(p)
		}
		if size > pieceSize && held > size+3*pieceSize {
			t.Errorf("a body of %d bytes: %d are held", size, held)
		}
	}
}

// Package recordtest makes record streams that no writer writes: damaged ones, and
// ones that were made to do harm. Tests of whoever reads run directories call it.
//
// It knows the layout of docs/reference/records.md and nothing of what is recorded.
package recordtest

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
)

// Header is what a stream of the format that is written begins with.
const Header = "windtunnel records 2\n"

// The kinds of records that are put together by hand.
const (
	Op        byte = 1
	Object    byte = 2
	Call      byte = 4
	Phase     byte = 5
	Sample    byte = 6
	Text      byte = 10
	SeriesRef byte = 11
	Scrape    byte = 13
	Within    byte = 15
	Event     byte = 16
)

// Block is the payload of one block.
type Block struct{ b []byte }

// Kind begins a record.
func (b *Block) Kind(kind byte) *Block { b.b = append(b.b, kind); return b }

// Uint appends numbers.
func (b *Block) Uint(values ...uint64) *Block {
	for _, v := range values {
		b.b = binary.AppendUvarint(b.b, v)
	}
	return b
}

// Int appends numbers that may be negative; times are such, as differences to the
// block's last one.
func (b *Block) Int(values ...int64) *Block {
	for _, v := range values {
		b.b = binary.AppendVarint(b.b, v)
	}
	return b
}

// Text appends texts.
func (b *Block) Text(texts ...string) *Block {
	for _, s := range texts {
		b.b = append(binary.AppendUvarint(b.b, uint64(len(s))), s...)
	}
	return b
}

// Float appends a number of 8 bytes.
func (b *Block) Float(v float64) *Block {
	b.b = binary.LittleEndian.AppendUint64(b.b, math.Float64bits(v))
	return b
}

// Event appends an event without a detail, after some nanoseconds.
func (b *Block) Event(after int64, what, name, text string) *Block {
	return b.Kind(Event).Int(after).Text(what, name, text, "")
}

// Len is how many bytes there are.
func (b *Block) Len() int { return len(b.b) }

// Stream returns a stream of these blocks, with their checksums.
func Stream(blocks ...*Block) []byte {
	out := []byte(Header)
	for _, b := range blocks {
		out = Append(out, b.b)
	}
	return out
}

// Append appends a block to a stream.
func Append(stream, payload []byte) []byte {
	stream = binary.LittleEndian.AppendUint32(stream, uint32(len(payload)))
	stream = binary.LittleEndian.AppendUint32(stream, crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
	return append(stream, payload...)
}

// Payloads are those of a stream's whole blocks.
func Payloads(stream []byte) (out [][]byte) {
	for b := stream[len(Header):]; len(b) >= 8; {
		n := int(binary.LittleEndian.Uint32(b))
		if len(b) < 8+n {
			break
		}
		out = append(out, b[8:8+n])
		b = b[8+n:]
	}
	return out
}

// Damage returns a stream with something wrong in it. resealed says that the
// checksums are right again: what it holds then is what it says.
func Damage(stream []byte, rnd *rand.Rand) (out []byte, resealed bool) {
	if rnd.IntN(2) == 0 {
		out = slices.Clone(stream)
		switch rnd.IntN(4) {
		case 0: // a bit
			out[rnd.IntN(len(out))] ^= 1 << rnd.IntN(8)
		case 1: // zeroes, as behind a power loss
			from := rnd.IntN(len(out))
			clear(out[from:min(len(out), from+1+rnd.IntN(4096))])
			if slices.Equal(out, stream) {
				out = out[:len(out)-1]
			}
		case 2: // a piece is missing
			from := rnd.IntN(len(out) - 1)
			out = slices.Delete(out, from, min(len(out), from+1+rnd.IntN(512)))
		default: // a piece is there twice
			from := rnd.IntN(len(out) - 1)
			piece := slices.Clone(out[from:min(len(out), from+1+rnd.IntN(512))])
			out = slices.Insert(out, from, piece...)
		}
		return out, false
	}
	out = []byte(Header)
	blocks := Payloads(stream)
	hit := rnd.IntN(len(blocks))
	for i, payload := range blocks {
		payload = slices.Clone(payload)
		if i == hit {
			payload = mutateBytes(payload, rnd)
		}
		out = Append(out, payload)
	}
	return out, true
}

// mutateBytes changes some bytes of a payload, or takes some away, or puts some in.
func mutateBytes(b []byte, rnd *rand.Rand) []byte {
	for range 1 + rnd.IntN(4) {
		if len(b) < 2 {
			return b
		}
		at := rnd.IntN(len(b))
		switch rnd.IntN(4) {
		case 0:
			b[at] ^= 1 << rnd.IntN(8)
		case 1:
			b[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[rnd.IntN(5)]
		case 2:
			b = slices.Delete(b, at, min(len(b), at+1+rnd.IntN(16)))
		default: // a number of any size
			b = slices.Insert(b, at, binary.AppendUvarint(nil, rnd.Uint64()>>rnd.IntN(64))...)
		}
	}
	return b
}

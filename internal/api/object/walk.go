package object

import (
	"errors"
	"iter"
)

// ErrMalformed says that bytes are not the protobuf message that they should be.
var ErrMalformed = errors.New("malformed protobuf message")

// walk steps through the fields of a protobuf message.
type walk struct {
	rest  []byte
	num   uint64 // of the current field
	value uint64 // of a varint field
	data  []byte // of a length-delimited field; nil of others
	err   error
}

// nextField goes to the next field; false at the end or when err is set. Groups are no
// part of Kubernetes' encoding and are passed over, as its own decoders do, which do
// not ask either whose end ends one.
func (w *walk) nextField() bool {
	if len(w.rest) == 0 || w.err != nil {
		return false
	}
	for groups := 0; ; {
		tag, ok := w.readVarint()
		if !ok || tag>>3 == 0 && groups == 0 {
			return w.setMalformed()
		}
		w.num, w.data, w.value = tag>>3, nil, 0
		switch tag & 7 {
		case 0:
			w.value, ok = w.readVarint()
		case 1:
			ok = w.skipBytes(8)
		case 2:
			var n uint64
			if n, ok = w.readVarint(); ok && n <= uint64(len(w.rest)) {
				w.data, w.rest = w.rest[:n:n], w.rest[n:]
			} else {
				ok = false
			}
		case 3:
			groups++
			continue
		case 4:
			groups--
			w.num = 0
			ok = groups >= 0
		case 5:
			ok = w.skipBytes(4)
		default:
			ok = false
		}
		if !ok {
			return w.setMalformed()
		}
		if groups == 0 {
			return true
		}
	}
}

func (w *walk) skipBytes(n int) bool {
	if len(w.rest) < n {
		return false
	}
	w.rest = w.rest[n:]
	return true
}

func (w *walk) setMalformed() bool {
	w.err = ErrMalformed
	return false
}

func (w *walk) readVarint() (uint64, bool) {
	if len(w.rest) > 0 && w.rest[0] < 0x80 {
		v := uint64(w.rest[0])
		w.rest = w.rest[1:]
		return v, true
	}
	var v uint64
	for i := 0; i < len(w.rest) && i < 10; i++ {
		c := w.rest[i]
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			w.rest = w.rest[i+1:]
			return v, true
		}
	}
	return 0, false
}

// Fields are the values of a message's length-delimited fields of a number, up
// to where the message is malformed.
func Fields(raw []byte, num uint64) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for w := (walk{rest: raw}); w.nextField(); {
			if w.num == num && w.data != nil && !yield(w.data) {
				return
			}
		}
	}
}

// Field returns the last of Fields; nil without one.
func Field(raw []byte, num uint64) (out []byte) {
	for w := (walk{rest: raw}); w.nextField(); {
		if w.num == num {
			out = w.data
		}
	}
	return out
}

// splitEntry returns key and value of a map's entry.
func splitEntry(raw []byte) (key, value []byte) {
	w := walk{rest: raw}
	for w.nextField() {
		switch w.num {
		case 1:
			key = w.data
		case 2:
			value = w.data
		}
	}
	return key, value
}

// parseDecimal reads a decimal number; 0 when it is none.
func parseDecimal(b []byte) (n uint64) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}

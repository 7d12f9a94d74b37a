package watch

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrDamaged says that bytes are not the protobuf that they should be.
var ErrDamaged = errors.New("damaged protobuf")

var magic = []byte("k8s\x00") //nolint:gochecknoglobals // a constant

// unwrap takes the envelope off an encoded object: the magic number and a
// runtime.Unknown whose field 2 holds the object.
func unwrap(p []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(p, magic)
	if !ok {
		return nil, fmt.Errorf("%w: no envelope", ErrDamaged)
	}
	var body []byte
	err := fields(rest, func(n protowire.Number, v []byte) {
		if n == 2 {
			body = v
		}
	})
	return body, err
}

// fields calls f with each field of p that has bytes.
func fields(p []byte, f func(protowire.Number, []byte)) error {
	return each(p, func(n protowire.Number, kind protowire.Type, v []byte, _ uint64) {
		if kind == protowire.BytesType {
			f(n, v)
		}
	})
}

// each calls f with each field of p: with its bytes or its number.
func each(p []byte, f func(protowire.Number, protowire.Type, []byte, uint64)) error {
	for len(p) > 0 {
		n, kind, size := protowire.ConsumeTag(p)
		if size < 0 {
			return ErrDamaged
		}
		p = p[size:]
		var v []byte
		var u uint64
		switch kind {
		case protowire.BytesType:
			v, size = protowire.ConsumeBytes(p)
		case protowire.VarintType:
			u, size = protowire.ConsumeVarint(p)
		default:
			size = protowire.ConsumeFieldValue(n, kind, p)
		}
		if size < 0 {
			return ErrDamaged
		}
		f(n, kind, v, u)
		p = p[size:]
	}
	return nil
}

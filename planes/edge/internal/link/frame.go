package link

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Opcodes of RFC 6455, section 5.2.
const (
	opContinue = 0
	opText     = 1
	opBinary   = 2
	opClose    = 8
	opPing     = 9
	opPong     = 10
)

// ErrProtocol says that the peer does not speak as RFC 6455 has it.
var ErrProtocol = errors.New("websocket protocol broken")

// ErrTooLarge says that a message is larger than is taken.
var ErrTooLarge = errors.New("message too large")

// frame is the head of a frame; its payload follows.
type frame struct {
	op     byte
	final  bool
	masked bool
	mask   [4]byte
	head   int // bytes
	length uint64
}

// parseHead reads a frame's head; ok is false where b ends before the head does.
func parseHead(b []byte) (f frame, ok bool, err error) {
	if len(b) < 2 {
		return f, false, nil
	}
	f = frame{op: b[0] & 0x0f, final: b[0]&0x80 != 0, masked: b[1]&0x80 != 0, head: 2, length: uint64(b[1] & 0x7f)}
	control := f.op >= opClose
	switch {
	case b[0]&0x70 != 0:
		return f, false, fmt.Errorf("%w: reserved bits", ErrProtocol)
	case f.op > opPong || f.op > opBinary && !control:
		return f, false, fmt.Errorf("%w: opcode %d", ErrProtocol, f.op)
	case control && (!f.final || f.length > 125):
		return f, false, fmt.Errorf("%w: a control frame of several, or of more than 125 bytes", ErrProtocol)
	}
	wide := map[uint64]int{126: 2, 127: 8}[f.length]
	need := f.head + wide
	if f.masked {
		need += 4
	}
	if len(b) < need {
		return f, false, nil
	}
	switch wide {
	case 2:
		f.length = uint64(binary.BigEndian.Uint16(b[2:]))
	case 8:
		f.length = binary.BigEndian.Uint64(b[2:])
	}
	f.head = need
	if f.masked {
		f.mask = [4]byte(b[need-4:])
	}
	return f, true, nil
}

// appendFrame appends one whole frame; masked as a client's must be.
func appendFrame(out []byte, op byte, payload []byte, mask *[4]byte) []byte {
	bit := byte(0)
	if mask != nil {
		bit = 0x80
	}
	out = append(out, 0x80|op)
	switch n := len(payload); {
	case n < 126:
		out = append(out, bit|byte(n))
	case n < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, bit|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, bit|127), uint64(n))
	}
	if mask == nil {
		return append(out, payload...)
	}
	out = append(out, mask[:]...)
	start := len(out)
	out = append(out, payload...)
	applyMask(out[start:], *mask)
	return out
}

func applyMask(b []byte, mask [4]byte) {
	wide := uint64(binary.LittleEndian.Uint32(mask[:]))
	wide |= wide << 32
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^wide)
		b = b[8:]
	}
	for i := range b {
		b[i] ^= mask[i&3]
	}
}

// assembler makes messages of frames. At rest it holds nothing.
type assembler struct {
	pending []byte // begin of a frame
	message []byte // of frames before
	within  bool   // a message has begun
	limit   int
	client  bool // our side is: the peer's frames are not masked
}

// feedBytes takes bytes and hands on whole messages, and control frames with their
// opcode. data is overwritten; what f gets is valid until it returns.
func (a *assembler) feedBytes(data []byte, f func(op byte, payload []byte) error) error {
	if len(a.pending) > 0 {
		data = append(a.pending, data...)
	}
	for {
		h, ok, err := parseHead(data)
		if err != nil {
			return err
		}
		if ok && h.masked == a.client {
			return fmt.Errorf("%w: masked the wrong way", ErrProtocol)
		}
		if ok && h.op < opClose && h.length > uint64(a.limit-len(a.message)) {
			return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, a.limit)
		}
		if !ok || uint64(len(data)-h.head) < h.length {
			break
		}
		payload := data[h.head : h.head+int(h.length)]
		data = data[h.head+int(h.length):]
		if h.masked {
			applyMask(payload, h.mask)
		}
		if err := a.addFrame(h, payload, f); err != nil {
			return err
		}
	}
	a.pending = nil
	if len(data) > 0 {
		a.pending = append([]byte(nil), data...)
	}
	return nil
}

func (a *assembler) addFrame(h frame, payload []byte, f func(op byte, payload []byte) error) error {
	switch {
	case h.op >= opClose:
		return f(h.op, payload)
	case (h.op == opContinue) != a.within:
		return fmt.Errorf("%w: continued what had not begun, or began within a message", ErrProtocol)
	case h.final && !a.within:
		return f(opText, payload)
	}
	a.message, a.within = append(a.message, payload...), !h.final
	if !h.final {
		return nil
	}
	whole := a.message
	a.message = nil
	return f(opText, whole)
}

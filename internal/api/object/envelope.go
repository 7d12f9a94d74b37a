package object

import (
	"encoding/binary"
	"fmt"
)

// ContentType is the media type of a whole object in Kubernetes' protobuf.
const ContentType = "application/vnd.kubernetes.protobuf"

// Magic is what every object in protobuf begins with; a runtime.Unknown follows.
const Magic = "k8s\x00"

// Unwrap takes an object's message and kind out of the envelope that an API
// server sends it in.
func Unwrap(b []byte) (raw, kind []byte, err error) {
	if len(b) < len(Magic) || string(b[:len(Magic)]) != Magic {
		return nil, nil, fmt.Errorf("%w: no protobuf envelope in %q", ErrMalformed, b[:min(len(b), 60)])
	}
	w := walk{rest: b[len(Magic):]}
	for w.nextField() {
		switch w.num {
		case 1:
			kind = Field(w.data, 2)
		case 2:
			raw = w.data
		}
	}
	return raw, kind, w.err
}

// AppendEnvelope appends an object's message in its envelope.
func AppendEnvelope(dst []byte, apiVersion, kind string, raw []byte) []byte {
	return append(AppendEnvelopeHead(dst, apiVersion, kind, len(raw)), raw...)
}

// AppendEnvelopeHead is AppendEnvelope for a message of n bytes that is written behind
// it.
func AppendEnvelopeHead(dst []byte, apiVersion, kind string, n int) []byte {
	dst = append(dst, Magic...)
	dst = AppendHead(dst, 1, stringSize(apiVersion)+stringSize(kind))
	dst = AppendString(dst, 1, apiVersion)
	dst = AppendString(dst, 2, kind)
	return AppendHead(dst, 2, n)
}

func stringSize(s string) int { return 1 + varintSize(uint64(len(s))) + len(s) }

func varintSize(v uint64) (n int) {
	for n = 1; v >= 0x80; n++ {
		v >>= 7
	}
	return n
}

// AppendHead appends the head of a length-delimited field of n bytes.
func AppendHead(dst []byte, num, n int) []byte {
	dst = binary.AppendUvarint(dst, uint64(num)<<3|2)
	return binary.AppendUvarint(dst, uint64(n))
}

// AppendString appends a string field.
func AppendString(dst []byte, num int, s string) []byte {
	return append(AppendHead(dst, num, len(s)), s...)
}

// AppendBytes appends a bytes or message field.
func AppendBytes(dst []byte, num int, b []byte) []byte {
	return append(AppendHead(dst, num, len(b)), b...)
}

// AppendInt appends a varint field.
func AppendInt(dst []byte, num int, v int64) []byte {
	dst = binary.AppendUvarint(dst, uint64(num)<<3)
	return binary.AppendUvarint(dst, uint64(v))
}

// EventType is what a watch event says about its object.
type EventType string

// The types of watch events.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	Bookmark EventType = "BOOKMARK"
	Error    EventType = "ERROR"
)

// DecodeEvent takes type, object message and kind out of a watch event.
func DecodeEvent(frame []byte) (EventType, []byte, error) {
	w := walk{rest: frame}
	var kind EventType
	var object []byte
	for w.nextField() {
		switch w.num {
		case 1:
			kind = eventType(w.data)
		case 2:
			object = Field(w.data, 1)
		}
	}
	if w.err != nil {
		return "", nil, w.err
	}
	raw, _, err := Unwrap(object)
	return kind, raw, err
}

func eventType(b []byte) EventType {
	for _, t := range [...]EventType{Added, Modified, Deleted, Bookmark, Error} {
		if string(b) == string(t) {
			return t
		}
	}
	return EventType(b)
}

// SplitFrames returns how many bytes of b are whole frames of a watch, each 4
// bytes of length and a WatchEvent, and the last whole frame's content.
func SplitFrames(b []byte) (whole int, last []byte, err error) {
	for len(b)-whole >= 4 {
		n := int(binary.BigEndian.Uint32(b[whole:]))
		if n > maxFrame {
			return whole, last, fmt.Errorf("%w: watch frame of %d bytes", ErrMalformed, n)
		}
		if len(b)-whole-4 < n {
			break
		}
		last = b[whole+4 : whole+4+n]
		whole += 4 + n
	}
	return whole, last, nil
}

// maxFrame is far above the largest object that an API server stores.
const maxFrame = 16 << 20

// NextFrame returns the first frame's content and what follows it; b holds
// whole frames only.
func NextFrame(b []byte) (frame, rest []byte) {
	n := int(binary.BigEndian.Uint32(b))
	return b[4 : 4+n], b[4+n:]
}

// Page is one page of a list.
type Page struct {
	Version  string // of the whole list
	Continue string // of the next page; empty on the last
	items    []byte // the list's message
}

// DecodePage reads the head of a list's message.
func DecodePage(raw []byte) (p Page, err error) {
	p.items = raw
	w := walk{rest: raw}
	for w.nextField() {
		if w.num == 1 {
			p.Version, p.Continue = string(Field(w.data, 2)), string(Field(w.data, 3))
		}
	}
	return p, w.err
}

// Items calls each with the message of every item.
func (p Page) Items(each func(raw []byte)) {
	w := walk{rest: p.items}
	for w.nextField() {
		if w.num == 2 {
			each(w.data)
		}
	}
}

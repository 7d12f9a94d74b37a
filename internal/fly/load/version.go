package load

import (
	"bytes"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// ResourceVersion returns that of an object as the server sent it, JSON or
// protobuf; empty when it has none.
func ResourceVersion(body []byte) string {
	if raw, _, err := object.Unwrap(body); err == nil {
		return string(object.ResourceVersion(raw))
	}
	about, _ := object.ReadMetadata(body)
	return about.ResourceVersion
}

// UID returns that of an object as the server sent it, JSON or protobuf; empty when
// it has none.
func UID(body []byte) string {
	if raw, _, err := object.Unwrap(body); err == nil {
		var m object.Meta
		_ = object.DecodeMeta(raw, &m) // of what is no object: none
		return string(m.UID)
	}
	about, _ := object.ReadMetadata(body)
	return about.UID
}

// AppendPrecondition completes the body of a deletion: it is of the object with
// that UID, and of no other that bears its name.
func AppendPrecondition(options []byte, uid string) []byte {
	out := bytes.TrimSuffix(options, []byte("}"))
	return append(append(append(out, `,"preconditions":{"uid":`...), strconv.Quote(uid)...), "}}"...)
}

// metadataAt returns where the members of an object's metadata begin in its
// JSON; -1 when it has none.
func metadataAt(object []byte) int {
	depth, key := 0, false
	for i := 0; i < len(object); i++ {
		switch c := object[i]; c {
		case '{', '[':
			if c == '{' && depth == 1 && key {
				return i + 1
			}
			depth++
		case '}', ']':
			depth--
		case '"':
			end := textEnd(object, i)
			if end < 0 {
				return -1
			}
			if depth == 1 {
				key = string(object[i+1:end]) == "metadata"
			}
			i = end
		case ',':
			key = false
		}
	}
	return -1
}

// textEnd returns where the JSON text that begins at i ends; -1 when it does not.
func textEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return -1
}

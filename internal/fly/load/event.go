package load

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
)

// initialEventsEnd is the annotation of the bookmark behind what existed.
const initialEventsEnd = "k8s.io/initial-events-end"

// readEvent reads the type and the version of a watch event, whose end may lack. An event
// ERROR has none of both: its status is returned.
func readEvent(head []byte, isProtobuf bool) (kind informer.Event, version []byte, failed *object.Status) {
	var word []byte
	var about []byte // the object
	if isProtobuf {
		word, about = fieldPrefix(head, 1), fieldPrefix(fieldPrefix(head, 2), 1)
		version = fieldPrefix(fieldPrefix(fieldPrefix(bytes.TrimPrefix(about, []byte(object.Magic)), 2), 1), 6)
	} else {
		word, about = textMember(head, "type"), member(head, "object")
		version = textMember(member(about, "metadata"), "resourceVersion")
	}
	switch object.EventType(word) {
	case object.Error:
		s := object.ReadStatus(bytes.TrimSuffix(about, []byte("}"))) // of JSON: the end of the event
		return 0, nil, &s
	case object.Added:
		return informer.Added, version, nil
	case object.Bookmark:
		if bytes.Contains(head, []byte(initialEventsEnd)) {
			return informer.InitialEnd, version, nil
		}
		return informer.Bookmark, version, nil
	}
	return informer.Changed, version, nil
}

// fieldPrefix returns the value of a field of bytes in a message whose end may lack: as
// much of it as there is.
func fieldPrefix(message []byte, number protowire.Number) []byte {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return nil
		}
		message = message[size:]
		if kind != protowire.BytesType {
			if size = protowire.ConsumeFieldValue(n, kind, message); size < 0 {
				return nil
			}
			message = message[size:]
			continue
		}
		length, size := protowire.ConsumeVarint(message)
		if size < 0 {
			return nil
		}
		message = message[size:]
		value := message[:min(uint64(len(message)), length)]
		if n == number {
			return value
		}
		message = message[len(value):]
	}
	return nil
}

// member returns what stands from the value of a member of a JSON object on, which b begins
// with and whose end may lack; nil when it has no such member.
func member(b []byte, name string) []byte {
	depth, key := 0, true
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
			key = depth == 1
		case '}', ']':
			if depth--; depth == 0 {
				return nil
			}
		case ',':
			key = depth == 1
		case '"':
			end := textEnd(b, i)
			if end < 0 {
				return nil
			}
			if depth == 1 && key && string(b[i+1:end]) == name {
				return bytes.TrimLeft(b[min(end+1, len(b)):], ": \t")
			}
			key, i = false, end
		}
	}
	return nil
}

// textMember returns the value of a member that is a text without escapes.
func textMember(b []byte, name string) []byte {
	value := member(b, name)
	if len(value) == 0 || value[0] != '"' {
		return nil
	}
	end := textEnd(value, 0)
	if end < 0 {
		return nil
	}
	return value[1:end]
}

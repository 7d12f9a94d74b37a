package load

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protowire"
)

// ResourceVersion returns that of an object as the server sent it, JSON or
// protobuf; empty when it has none.
func ResourceVersion(object []byte) string {
	if raw, ok := unwrap(object); ok {
		metadata, _ := field(raw, 1)
		version, _ := field(metadata, 6)
		return string(version)
	}
	var o struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if json.Unmarshal(object, &o) != nil {
		return ""
	}
	return o.Metadata.ResourceVersion
}

// Message returns what a refusal says, JSON or protobuf, or its bytes where it
// is no Status.
func Message(body []byte) string {
	if raw, ok := unwrap(body); ok {
		message, _ := field(raw, 3)
		return string(message)
	}
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &status) != nil || status.Message == "" {
		return string(body[:min(len(body), 300)])
	}
	return status.Message
}

// unwrap takes an object out of its envelope: the magic, 1: kind, 2: object.
func unwrap(b []byte) ([]byte, bool) {
	const magic = "k8s\x00"
	if len(b) < len(magic) || string(b[:len(magic)]) != magic {
		return nil, false
	}
	return field(b[len(magic):], 2)
}

// field returns the first field of a number that holds bytes.
func field(b []byte, number protowire.Number) ([]byte, bool) {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return nil, false
		}
		b = b[size:]
		if n == number && kind == protowire.BytesType {
			v, size := protowire.ConsumeBytes(b)
			return v, size >= 0
		}
		if size = protowire.ConsumeFieldValue(n, kind, b); size < 0 {
			return nil, false
		}
		b = b[size:]
	}
	return nil, false
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

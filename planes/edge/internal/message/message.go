// Package message is the language between the hub and the edges: KubeEdge's
// messages as they go over a websocket, one JSON document a text message, and
// the names of what they are about.
//
// It sends nothing and knows no connection: package link does.
package message

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
)

// Operations.
const (
	Insert    = "insert"
	Update    = "update"
	Delete    = "delete"
	Patch     = "patch"
	Query     = "query"
	Response  = "response"
	Error     = "error"
	Keepalive = "keepalive"
)

// Sources and groups.
const (
	SourceEdge   = "edged"
	SourceWS     = "websocket"
	SourceCloud  = "edgecontroller"
	SourceHub    = "cloudhub"
	SourceDevice = "devicecontroller"
	SourceTwin   = "twin"
	GroupMeta    = "meta"
	GroupCloud   = "resource"
	GroupTwin    = "twin"
)

// OK is the content of an acknowledgement, and of an answer that has no object.
const OK = `"OK"`

// ErrMalformed says that a document is no message.
var ErrMalformed = errors.New("malformed message")

// Message is one message. Content is JSON, as it came or goes.
type Message struct {
	Header  Header          `json:"header"`
	Route   Route           `json:"route"`
	Content json.RawMessage `json:"content"`
}

// Header says which message it is, and which one it answers.
type Header struct {
	ID              string `json:"msg_id"`
	ParentID        string `json:"parent_msg_id,omitempty"`
	Timestamp       int64  `json:"timestamp"` // ms since 1970
	ResourceVersion string `json:"resourceversion,omitempty"`
	Sync            bool   `json:"sync,omitempty"`
	Type            string `json:"type,omitempty"`
}

// Route says who sent it, to which group of modules, and what is to be done with
// what.
type Route struct {
	Source      string `json:"source,omitempty"`
	Destination string `json:"destination,omitempty"`
	Group       string `json:"group,omitempty"`
	Operation   string `json:"operation,omitempty"`
	Resource    string `json:"resource,omitempty"`
}

// New returns a message with an ID of its own. now is in ms since 1970.
func New(now int64, r Route, content []byte) Message {
	return Message{Header: Header{ID: NewID(), Timestamp: now}, Route: r, Content: content}
}

// Reply returns an answer to m with a content. Its group is that of all that comes from the
// cloud: an edge throws an answer of the request's group away.
func (m *Message) Reply(now int64, source string, content []byte) Message {
	out := New(now, Route{Source: source, Group: GroupCloud, Operation: Response, Resource: m.Route.Resource}, content)
	out.Header.ParentID = m.Header.ID
	return out
}

// Ack says whether m acknowledges that another was carried out, as a message with
// an operation of response and the content "OK" does.
func (m *Message) Ack() bool {
	return m.Header.ParentID != "" && m.Route.Operation == Response && string(m.Content) == OK
}

// NewID returns a random UUID of version 4. Nothing is measured by it.
func NewID() string { return UUID(rand.Uint64(), rand.Uint64()) }

// UUID returns the UUID of version 4 that two random numbers make.
func UUID(high, low uint64) string {
	var b [16]byte
	for i, word := range [2]uint64{high, low} {
		for k := range 8 {
			b[8*i+k] = byte(word >> (8 * k))
		}
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	var text [36]byte
	out := text[:0]
	for i, part := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			out = append(out, '-')
		}
		out = hex.AppendEncode(out, part)
	}
	return string(out)
}

// enough is how long all of a message but its content is as a rule, in bytes.
const enough = 320

// Append appends m as it is sent: a JSON document and a newline. Content must be
// JSON; without any it is null.
func (m *Message) Append(out []byte) []byte {
	h, r := &m.Header, &m.Route
	out = slices.Grow(out, enough+len(m.Content))
	out = appendField(append(out, `{"header":{`...), "msg_id", h.ID)
	if h.ParentID != "" {
		out = appendField(append(out, ','), "parent_msg_id", h.ParentID)
	}
	out = strconv.AppendInt(append(out, `,"timestamp":`...), h.Timestamp, 10)
	if h.ResourceVersion != "" {
		out = appendField(append(out, ','), "resourceversion", h.ResourceVersion)
	}
	if h.Sync {
		out = append(out, `,"sync":true`...)
	}
	if h.Type != "" {
		out = appendField(append(out, ','), "type", h.Type)
	}
	out = append(out, `},"route":{`...)
	first := true
	for _, f := range [...][2]string{
		{"source", r.Source}, {"destination", r.Destination}, {"group", r.Group}, {"operation", r.Operation}, {"resource", r.Resource},
	} {
		if f[1] == "" {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = appendField(out, f[0], f[1])
	}
	out = append(out, `},"content":`...)
	if len(m.Content) == 0 {
		out = append(out, "null"...)
	}
	return append(append(out, m.Content...), "}\n"...)
}

func appendField(out []byte, name, value string) []byte {
	out = append(append(append(out, '"'), name...), `":`...)
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(value) // a string can always be
			return append(out, quoted...)
		}
	}
	return append(append(append(out, '"'), value...), '"')
}

// Text returns the content where it is a string, such as a patch; the error is
// ErrMalformed.
func (m *Message) Text() (string, error) {
	var s string
	if err := json.Unmarshal(m.Content, &s); err != nil {
		return "", fmt.Errorf("%w: content is no string: %w", ErrMalformed, err)
	}
	return s, nil
}

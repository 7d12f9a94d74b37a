package message

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// Decode reads one document. The message keeps no part of raw. The error is
// ErrMalformed: no JSON, more than one document, no ID or no operation.
//
// What both ends write as Append does is read in one pass; package json, which reads
// the rest, goes over a document twice and costs four times as much.
func Decode(raw []byte) (Message, error) {
	m, ok := decodeAppended(raw)
	if !ok {
		m = Message{}
		if err := json.Unmarshal(raw, &m); err != nil {
			return Message{}, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		m.Content = bytes.Clone(m.Content)
	}
	switch {
	case m.Header.ID == "":
		return Message{}, fmt.Errorf("%w: no msg_id", ErrMalformed)
	case m.Route.Operation == "":
		return Message{}, fmt.Errorf("%w: no operation", ErrMalformed)
	}
	return m, nil
}

// scanner reads what Append writes; ok is false from the first difference on.
type scanner struct {
	rest []byte
	ok   bool
}

// skipText goes over a text that has to be there.
func (s *scanner) skipText(text string) { s.ok = s.skipOptional(text) && s.ok }

// skipOptional goes over a text if it is there.
func (s *scanner) skipOptional(text string) bool {
	if len(s.rest) < len(text) || string(s.rest[:len(text)]) != text {
		return false
	}
	s.rest = s.rest[len(text):]
	return true
}

// readWord reads a string without escapes, and the quote behind it.
func (s *scanner) readWord() string {
	for i, c := range s.rest {
		if c == '"' {
			word := internWord(s.rest[:i])
			s.rest = s.rest[i+1:]
			return word
		}
		if c < ' ' || c > '~' || c == '\\' {
			break
		}
	}
	s.ok = false
	return ""
}

// internWord returns the words that every message has without making them anew.
func internWord(b []byte) string {
	switch string(b) {
	case SourceEdge:
		return SourceEdge
	case SourceWS:
		return SourceWS
	case SourceCloud:
		return SourceCloud
	case GroupMeta:
		return GroupMeta
	case GroupCloud:
		return GroupCloud
	case Response:
		return Response
	case Keepalive:
		return Keepalive
	case TypeNode:
		return TypeNode
	}
	return string(b)
}

// readNumber reads digits; what JSON or an int64 might not take is left to package json.
func (s *scanner) readNumber() int64 {
	n := 0
	for n < len(s.rest) && s.rest[n] >= '0' && s.rest[n] <= '9' {
		n++
	}
	value, err := strconv.ParseInt(string(s.rest[:n]), 10, 64)
	if err != nil || n > 1 && s.rest[0] == '0' {
		s.ok = false
	}
	s.rest = s.rest[n:]
	return value
}

// decodeAppended reads a document that is written as Append does; false: it is not.
func decodeAppended(raw []byte) (m Message, ok bool) {
	s := scanner{rest: bytes.TrimSuffix(raw, []byte("\n")), ok: true}
	s.skipText(`{"header":{"msg_id":"`)
	m.Header.ID = s.readWord()
	if s.skipOptional(`,"parent_msg_id":"`) {
		m.Header.ParentID = s.readWord()
	}
	s.skipText(`,"timestamp":`)
	m.Header.Timestamp = s.readNumber()
	if s.skipOptional(`,"resourceversion":"`) {
		m.Header.ResourceVersion = s.readWord()
	}
	m.Header.Sync = s.skipOptional(`,"sync":true`)
	if s.skipOptional(`,"type":"`) {
		m.Header.Type = s.readWord()
	}
	s.skipText(`},"route":{`)
	s.readRoute(&m.Route)
	s.skipText(`},"content":`)
	end := len(s.rest) - 1
	if !s.ok || end < 1 || s.rest[end] != '}' || isSpace(s.rest[0]) || isSpace(s.rest[end-1]) || !json.Valid(s.rest[:end]) {
		return m, false
	}
	m.Content = bytes.Clone(s.rest[:end])
	return m, true
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func (s *scanner) readRoute(r *Route) {
	first := true
	for _, f := range [...]struct {
		name  string
		value *string
	}{
		{`"source":"`, &r.Source}, {`"destination":"`, &r.Destination}, {`"group":"`, &r.Group}, {`"operation":"`, &r.Operation}, {`"resource":"`, &r.Resource},
	} {
		before := s.rest
		if !first && !s.skipOptional(",") {
			return
		}
		if !s.skipOptional(f.name) {
			s.rest = before
			continue
		}
		first = false
		*f.value = s.readWord()
	}
}

package load

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// scan finds the version of a list and the token of its next page in a list that passes
// by, JSON or protobuf, in pieces of any size. It keeps nothing of the list itself.
type scan struct {
	path    string // of the first page
	from    string // token of the page that is read
	kind    byte   // 0: not yet known
	head    []byte // of protobuf: up to the end of the list's metadata; of JSON: the text that is being read
	next    string
	version string

	// JSON: where the scan is.
	depth    int
	array    [3]bool // at depths 1 and 2: in an array
	key      bool    // the next text is a key
	inText   bool
	escaped  bool
	metadata bool    // in the value of the list's metadata
	wanted   *string // where the value goes that is read
	ended    bool    // nothing more is wanted
}

const (
	scanJSON byte = iota + 1
	scanProtobuf
)

// maxToken is how long a token may be; the server's are some hundred bytes.
const maxToken = 64 << 10

// beginPage prepares for a page of the list at path.
func (s *scan) beginPage(path, token string) { *s = scan{path: path, from: token, head: s.head[:0]} }

// pagePath returns the path of the page.
func (s *scan) pagePath() string {
	switch {
	case s.from == "":
		return s.path
	case strings.Contains(s.path, "?"):
		return s.path + "&continue=" + url.QueryEscape(s.from)
	}
	return s.path + "?continue=" + url.QueryEscape(s.from)
}

// nextToken returns that of the next page; empty when this was the last.
func (s *scan) nextToken() string { return s.next }

// writePiece takes the next piece.
func (s *scan) writePiece(p []byte) {
	if s.ended || len(p) == 0 {
		return
	}
	if s.kind == 0 {
		s.kind = scanJSON
		if p[0] == 'k' { // of the envelope's magic "k8s\x00"
			s.kind = scanProtobuf
		}
	}
	if s.kind == scanProtobuf {
		s.readProtobuf(p)
		return
	}
	for len(p) > 0 && !s.ended {
		if s.inText {
			p = s.skipText(p)
		} else {
			s.readSign(p[0])
			p = p[1:]
		}
	}
}

// skipText goes on to the end of a JSON text and returns what is behind it.
func (s *scan) skipText(p []byte) []byte {
	for i, c := range p {
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.keepText(p[:i])
			s.inText = false
			s.readText()
			return p[i+1:]
		}
	}
	s.keepText(p)
	return nil
}

// keepText takes a piece of a text that may be wanted.
func (s *scan) keepText(p []byte) {
	if s.depth <= 2 && len(s.head)+len(p) <= maxToken {
		s.head = append(s.head, p...)
	}
}

// readText looks at a whole text.
func (s *scan) readText() {
	switch {
	case s.depth == 1 && s.key:
		s.metadata = string(s.head) == "metadata"
	case s.depth == 2 && s.metadata && s.key:
		switch string(s.head) {
		case "continue":
			s.wanted = &s.next
		case "resourceVersion":
			s.wanted = &s.version
		default:
			s.wanted = nil
		}
	case s.depth == 2 && s.metadata && s.wanted != nil:
		quoted := append(append([]byte{'"'}, s.head...), '"')
		if json.Unmarshal(quoted, s.wanted) != nil {
			*s.wanted = ""
		}
	}
	s.head = s.head[:0]
}

// readSign looks at a byte outside of texts.
func (s *scan) readSign(c byte) {
	switch c {
	case '"':
		s.inText = true
	case '{', '[':
		s.depth++
		if s.depth <= 2 {
			s.array[s.depth] = c == '['
		}
		s.key = c == '{'
	case '}', ']':
		if s.depth == 2 && s.metadata || s.depth <= 1 {
			s.ended = true // the metadata, or all that was a list, is read and had no token
		}
		s.depth--
	case ':':
		s.key = false
	case ',':
		s.key = s.depth > 0 && s.depth <= 2 && !s.array[s.depth]
	}
}

// readProtobuf gathers the list's head: the envelope (magic, 1: kind, 2: the list)
// and in the list 1: metadata, in which 2 is the version and 3 the token.
func (s *scan) readProtobuf(p []byte) {
	s.head = append(s.head, p[:min(len(p), maxToken-len(s.head))]...)
	s.ended = len(s.head) == maxToken
	b, ok := bytes.CutPrefix(s.head, []byte(object.Magic))
	if !ok {
		return
	}
	for {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 || kind != protowire.BytesType {
			return
		}
		b = b[size:]
		if n == 2 {
			break
		}
		if size = protowire.ConsumeFieldValue(n, kind, b); size < 0 {
			return
		}
		b = b[size:]
	}
	_, size := protowire.ConsumeVarint(b) // the list's length: it need not be here
	if size < 0 {
		return
	}
	n, kind, tag := protowire.ConsumeTag(b[size:])
	if tag < 0 {
		return
	}
	metadata, whole := protowire.ConsumeBytes(b[size+tag:])
	if n != 1 || kind != protowire.BytesType {
		s.ended = true
		return
	}
	if whole >= 0 {
		s.ended = true
		s.version, s.next = string(object.Field(metadata, 2)), string(object.Field(metadata, 3)) // of ListMeta
	}
}

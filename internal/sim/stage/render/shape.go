package render

import (
	"bytes"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// What a program prints is written down as a sequence of these: texts of the
// template, and holes that values fill. What is printed alike has one shape: it is
// read as YAML once, with markers in the holes, and cut at them.
const (
	printText    = iota // and its number, 2 bytes
	printWord           // a word that YAML reads as a string
	printNumber         // a whole number
	printLiteral        // and its length, and a text that belongs to the shape
	printQuoted         // a JSON string
	printCompact        // a JSON object or list
	printBlock          // and its depth; a value as YAML on lines of its own
)

// shape is the JSON of what a program printed, cut at its holes; without
// segments when it cannot be cut.
type shape struct {
	segments []segment
	why      string // there are none
}

// segment is fixed JSON and the number of the hole that follows it; -1 for none.
type segment struct {
	json []byte
	hole int
}

// shapes are those that a program has printed.
type shapes struct {
	all atomic.Pointer[map[string]*shape]
}

// maxShapes is how many are kept for one template: a text that is printed as it
// is, such as a time without quotes, makes a shape of every value.
const maxShapes = 256

func (s *shapes) get(print []byte) *shape {
	if all := s.all.Load(); all != nil {
		return (*all)[string(print)]
	}
	return nil
}

func (s *shapes) full() bool {
	all := s.all.Load()
	return all != nil && len(*all) >= maxShapes
}

func (s *shapes) put(print []byte, made *shape) {
	for {
		old, all := s.all.Load(), map[string]*shape{}
		if old != nil {
			all = maps.Clone(*old)
		}
		all[string(print)] = made
		if s.all.CompareAndSwap(old, &all) {
			return
		}
	}
}

// appendFilled appends the shape with values in its holes.
func (s *shape) appendFilled(dst []byte, x *run) []byte {
	for i := range s.segments {
		dst = append(dst, s.segments[i].json...)
		if n := s.segments[i].hole; n >= 0 {
			h := x.holes[n]
			dst = append(dst, x.text[h.from:h.to]...)
		}
	}
	return dst
}

const (
	markHead, markTail = "gzqhole", "wkz"
	markNumber         = 736152000 // + number of the hole
	maxHoles           = 1000
)

// newShape reads what was printed, with markers in the holes.
func (p *program) newShape(print []byte) *shape {
	var text []byte
	var holes []byte // the sort of each
	for i := 0; i < len(print); i++ {
		sort, n := print[i], strconv.Itoa(len(holes))
		switch sort {
		case printText:
			text = append(text, p.texts[int(print[i+1])<<8|int(print[i+2])]...)
			i += 2
			continue
		case printLiteral:
			n := int(print[i+1])
			text = append(text, print[i+2:i+2+n]...)
			i += 1 + n
			continue
		case printWord:
			text = append(text, markHead+n+markTail...)
		case printNumber:
			text = strconv.AppendInt(text, int64(markNumber+len(holes)), 10)
		case printQuoted:
			text = append(text, `"`+markHead+n+markTail+`"`...)
		case printCompact:
			text = append(text, `["`+markHead+n+markTail+`"]`...)
		case printBlock:
			i++
			text = append(text, indentYAML(`["`+markHead+n+markTail+`"]`+"\n", int(print[i]))...)
		}
		holes = append(holes, sort)
	}
	if len(holes) > maxHoles {
		return &shape{why: "it prints very many values"}
	}
	raw, err := toJSON(text)
	if err != nil {
		return &shape{why: "it prints no YAML"}
	}
	return cutShape(raw, holes)
}

// cutShape cuts JSON at its markers. Each must be a value of its own and no key: then
// whatever fills the hole changes nothing around it.
func cutShape(raw, holes []byte) *shape {
	s, from := &shape{}, 0
	found := make([]bool, len(holes))
	take := func(begin, end, hole int) {
		s.segments = append(s.segments, segment{bytes.Clone(raw[from:begin]), hole})
		from, found[hole] = end, true
	}
	for i := 0; i < len(raw); {
		end := i + 1
		switch c := raw[i]; {
		case c == '"':
			for raw[end] != '"' {
				if raw[end] == '\\' {
					end++
				}
				end++
			}
			end++
			inner := string(raw[i+1 : end-1])
			hole, sort := markedHole(inner, holes)
			isKey := bytes.HasPrefix(bytes.TrimLeft(raw[end:], " \t\r\n"), []byte{':'})
			switch {
			case hole < 0 && !strings.Contains(inner, markHead) && !strings.Contains(inner, markDigits):
			case hole < 0:
				return &shape{why: "a value is a part of a text"}
			case isKey:
				return &shape{why: "a key is a value"}
			case sort == printNumber:
				take(i+1, end-1, hole)
			case sort == printWord || sort == printQuoted:
				take(i, end, hole)
			case i > 0 && raw[i-1] == '[' && end < len(raw) && raw[end] == ']':
				take(i-1, end+1, hole)
				end++
			default:
				return &shape{why: "an object is a part of a text"}
			}
		case c == '-' || c >= '0' && c <= '9':
			for end < len(raw) && strings.IndexByte("+-.eE0123456789", raw[end]) >= 0 {
				end++
			}
			if hole, sort := markedHole(string(raw[i:end]), holes); hole >= 0 && sort == printNumber {
				take(i, end, hole)
			}
		}
		i = end
	}
	for i := range found {
		if !found[i] {
			return &shape{why: "a value is not only printed"}
		}
	}
	s.segments = append(s.segments, segment{bytes.Clone(raw[from:]), -1})
	return s
}

const markDigits = "736152"

// markedHole returns which hole's marker a text is, and the hole's sort; -1 for none.
func markedHole(text string, holes []byte) (int, byte) {
	digits, head := strings.CutPrefix(text, markHead)
	digits, tail := strings.CutSuffix(digits, markTail)
	n, err := strconv.Atoi(digits)
	if err != nil || head != tail || strconv.Itoa(n) != digits {
		return -1, 0
	}
	if !head {
		n -= markNumber
	}
	if n < 0 || n >= len(holes) || head == (holes[n] == printNumber) {
		return -1, 0
	}
	return n, holes[n]
}

// appendJSON appends a value as JSON, as it is after YAML has read it; not ok
// where YAML might read something else. A block's texts may have one line only.
func appendJSON(dst []byte, v object.Value, lines bool) ([]byte, bool) {
	ok := true
	switch v.Kind {
	case object.Missing, object.Null:
		return append(dst, "null"...), true
	case object.Bool:
		return v.Append(dst), true
	case object.Number:
		from := len(dst)
		dst = v.Append(dst)
		return dst, isNumber(dst[from:])
	case object.String:
		return v.AppendQuoted(dst, !lines)
	case object.Array:
		dst = append(dst, '[')
		v.Items(func(item object.Value) bool {
			dst = appendComma(dst, '[')
			dst, ok = appendJSON(dst, item, lines)
			return ok
		})
		return append(dst, ']'), ok
	case object.Object:
		dst = append(dst, '{')
		v.Entries(func(key string, item object.Value) bool {
			dst = appendComma(dst, '{')
			if dst, ok = object.Text(key).AppendQuoted(dst, false); ok {
				dst, ok = appendJSON(append(dst, ':'), item, lines)
			}
			return ok
		})
		return append(dst, '}'), ok
	}
	return dst, false
}

func appendComma(dst []byte, open byte) []byte {
	if dst[len(dst)-1] == open {
		return dst
	}
	return append(dst, ',')
}

// Package linemap executes a text template and remembers from which line of the
// template each line of the result is, so that what is wrong with the result can
// be told of the file that the user wrote.
//
// It knows nothing of what the result means.
package linemap

import (
	"bytes"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/windtunnel/windtunnel/internal/text/limit"
)

// Text is a text with the lines that its lines come from.
type Text struct {
	Bytes []byte
	lines []int // of the file, by line of the text
}

// Verbatim is a file that is no template.
func Verbatim(raw []byte) *Text {
	t := &Text{Bytes: raw}
	for i := range bytes.Count(raw, []byte("\n")) + 1 {
		t.lines = append(t.lines, i+1)
	}
	return t
}

// Inside is a text that stands on one line of a file.
func Inside(raw []byte, line int) *Text { return &Text{Bytes: raw, lines: []int{line}} }

// Line returns where a line of the text stands in the file, both from 1; 0 for a
// line below 1, and that of the last one for a line beyond it.
func (t *Text) Line(n int) int {
	switch {
	case n < 1:
		return 0
	case len(t.lines) == 0:
		return 1
	}
	return t.lines[min(n, len(t.lines))-1]
}

// Error is what is wrong on a line of the template.
type Error struct {
	Line int // from 1
	Text string
}

// Error is the text: the line stands for itself.
func (e *Error) Error() string { return e.Text }

var position = regexp.MustCompile(`(?s)^template: [^:]*:(\d+)(?::\d+)?: (?:executing "[^"]*" )?(.*)$`)

// Position finds the line in an error of text/template; 1 where it says none.
func Position(err error) *Error {
	if m := position.FindStringSubmatch(err.Error()); m != nil {
		n, _ := strconv.Atoi(m[1])
		return &Error{n, m[2]}
	}
	return &Error{1, err.Error()}
}

// stamp is the byte around a line's number: each text of the template and each
// line in it begins with one while it is executed. No YAML has it.
const stamp = "\x00"

// Execute executes a template with its functions and options. The result has at
// most so many bytes; tooLarge is the error where it would have more.
func Execute(t *template.Template, source string, data any, maxBytes int, tooLarge error) (*Text, *Error) {
	if strings.Contains(source, stamp) {
		return nil, &Error{1, "it is not a text: it has zero bytes"}
	}
	t, err := t.Parse(source)
	if err != nil {
		return nil, Position(err)
	}
	starts := []int{0}
	for i := range len(source) {
		if source[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	for _, part := range t.Templates() {
		if part.Tree != nil {
			stampList(part.Root, starts)
		}
	}
	limit.Loops(t)
	out := bounded{max: maxBytes, tooLarge: tooLarge}
	if err := t.Execute(&limit.Writer{To: &out}, data); err != nil {
		return nil, Position(err)
	}
	return removeStamps(out.Bytes()), nil
}

// stampList puts stamps into the texts of a template.
func stampList(l *parse.ListNode, starts []int) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			n.Text = stampText(n.Text, sort.SearchInts(starts, int(n.Pos)+1))
		case *parse.IfNode:
			stampBranch(&n.BranchNode, starts)
		case *parse.WithNode:
			stampBranch(&n.BranchNode, starts)
		case *parse.RangeNode:
			stampBranch(&n.BranchNode, starts)
		}
	}
}

func stampBranch(n *parse.BranchNode, starts []int) {
	stampList(n.List, starts)
	stampList(n.ElseList, starts)
}

func stampText(text []byte, line int) []byte {
	out := fmt.Appendf(nil, "%s%d%[1]s", stamp, line)
	for _, c := range text {
		if out = append(out, c); c == '\n' {
			line++
			out = fmt.Appendf(out, "%s%d%[1]s", stamp, line)
		}
	}
	return out
}

// removeStamps takes the stamps out and keeps what they say. A line without one is of
// a value of several lines: it has the number of the line before.
func removeStamps(text []byte) *Text {
	t, line := &Text{}, 1
	for part := range bytes.Lines(text) {
		pieces := bytes.Split(part, []byte(stamp))
		for i := 0; i < len(pieces); i += 2 {
			t.Bytes = append(t.Bytes, pieces[i]...)
		}
		if len(pieces) > 1 {
			line, _ = strconv.Atoi(string(pieces[firstStamp(pieces)]))
		}
		t.lines = append(t.lines, line)
	}
	return t
}

// firstStamp is the index of the stamp that says where a line begins: that of
// the first text in it that is more than the end of a line, or else of that end.
func firstStamp(pieces [][]byte) int {
	for i := 1; i+1 < len(pieces); i += 2 {
		if len(bytes.TrimSpace(pieces[i+1])) > 0 {
			return i
		}
	}
	return len(pieces) - 2
}

// bounded is a buffer that refuses to grow without end.
type bounded struct {
	bytes.Buffer
	max      int
	tooLarge error
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.max {
		return 0, b.tooLarge
	}
	return b.Buffer.Write(p)
}

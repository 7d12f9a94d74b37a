package clusterloader2

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
	texttemplate "text/template"
	"text/template/parse"

	"go.yaml.in/yaml/v3"
)

// A config is a text template as a whole. To tell the user a line of the file
// and not one of what was rendered, each line of the template's fixed text
// carries a stamp with its number, which is taken out of the rendered text
// again; lines that only functions made have the number of the line before.

// stamp is the byte around a line's number; no YAML has it.
const stamp = "\x00"

// maxRendered bounds what a config may grow to.
const maxRendered = 16 << 20

var errTooLong = errors.New("it renders to more than 16 MiB")

// rendered is a file after its template was executed.
type rendered struct {
	file  string
	text  []byte
	lines []int // of the file, by line of the text
}

// verbatim is a file that is no template.
func verbatim(file string, raw []byte) *rendered {
	r := &rendered{file: file, text: raw}
	for i := range bytes.Count(raw, []byte("\n")) + 1 {
		r.lines = append(r.lines, i+1)
	}
	return r
}

// line returns where a line of the rendered text stands in the file, both from 1.
func (r *rendered) line(n int) int {
	if len(r.lines) == 0 {
		return 1
	}
	return r.lines[min(max(n, 1), len(r.lines))-1]
}

// render executes a config or module.
func render(file, text string, functions texttemplate.FuncMap, data map[string]any) (*rendered, error) {
	if strings.Contains(text, stamp) {
		return nil, &position{1, "it is not a text: it has zero bytes"}
	}
	t, err := texttemplate.New(templateName).Funcs(functions).Parse(text)
	if err != nil {
		return nil, positioned(err)
	}
	starts := []int{0}
	for i := range len(text) {
		if text[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	for _, part := range t.Templates() {
		if part.Tree != nil {
			stampList(part.Root, starts)
		}
	}
	var out bounded
	if err := t.Execute(&out, data); err != nil {
		return nil, positioned(err)
	}
	r := &rendered{file: file}
	r.unstamp(out)
	return r, nil
}

// stampList puts stamps into the fixed texts of a template.
func stampList(l *parse.ListNode, starts []int) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			n.Text = stampText(n.Text, sort.SearchInts(starts, int(n.Pos)+1))
		case *parse.IfNode:
			stampList(n.List, starts)
			stampList(n.ElseList, starts)
		case *parse.WithNode:
			stampList(n.List, starts)
			stampList(n.ElseList, starts)
		case *parse.RangeNode:
			stampList(n.List, starts)
			stampList(n.ElseList, starts)
		}
	}
}

func stampText(text []byte, line int) []byte {
	var out []byte
	for part := range bytes.Lines(text) {
		out = append(out, stamp+strconv.Itoa(line)+stamp...)
		out = append(out, part...)
		line++
	}
	return out
}

// unstamp takes the stamps out and keeps what they say.
func (r *rendered) unstamp(text []byte) {
	line := 1
	for part := range bytes.Lines(text) {
		pieces := bytes.Split(part, []byte(stamp))
		for i := 0; i < len(pieces); i += 2 {
			r.text = append(r.text, pieces[i]...)
		}
		if len(pieces) > 1 {
			line, _ = strconv.Atoi(string(pieces[firstStamp(pieces)]))
		}
		r.lines = append(r.lines, line)
	}
}

// firstStamp is the index of the stamp that says where a line begins: that of
// the first fixed text in it that is more than the end of a line.
func firstStamp(pieces [][]byte) int {
	for i := 1; i+1 < len(pieces); i += 2 {
		if len(bytes.TrimSpace(pieces[i+1])) > 0 {
			return i
		}
	}
	return 1
}

// bounded is a buffer that refuses to grow beyond maxRendered.
type bounded []byte

func (b *bounded) Write(p []byte) (int, error) {
	if len(*b)+len(p) > maxRendered {
		return 0, errTooLong
	}
	*b = append(*b, p...)
	return len(p), nil
}

// position is an error with a line.
type position struct {
	line int
	text string
}

func (p *position) Error() string { return p.text }

const templateName = "config"

var templateError = regexp.MustCompile(`(?s)^template: ` + templateName + `:(\d+)(?::\d+)?: (?:executing "` + templateName + `" )?(.*)$`)

// positioned finds the line in an error of text/template.
func positioned(err error) error {
	if m := templateError.FindStringSubmatch(err.Error()); m != nil {
		n, _ := strconv.Atoi(m[1])
		return &position{n, m[2]}
	}
	return &position{1, err.Error()}
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// tree parses the first YAML document of the text; the others are ignored, as
// ClusterLoader2 does. nil when there is none.
func (r *rendered) tree() (*yaml.Node, error) {
	var n yaml.Node
	err := yaml.NewDecoder(bytes.NewReader(r.text)).Decode(&n)
	if err != nil {
		line, text := 1, strings.TrimPrefix(err.Error(), "yaml: ")
		if text == "EOF" {
			return nil, nil
		}
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			at, _ := strconv.Atoi(m[1])
			line, text = r.line(at), strings.TrimLeft(strings.TrimPrefix(text, m[0]), ": ")
		}
		return nil, &position{line, fmt.Sprintf("what it renders to is not YAML: %s", text)}
	}
	if n.Kind != yaml.DocumentNode || len(n.Content) == 0 {
		return nil, nil
	}
	return n.Content[0], nil
}

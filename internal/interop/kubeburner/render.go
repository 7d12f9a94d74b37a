package kubeburner

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	texttemplate "text/template"
	"text/template/parse"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/load/template"
)

// maxFile bounds a config, and what a template makes of it, and each file that
// it names.
const maxFile = 4 << 20

// errTooLarge says that a file is beyond that.
var errTooLarge = errors.New("more than 4 MiB")

// readFile reads a file of bounded size.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a file")
	case info.Size() > maxFile:
		return nil, errTooLarge
	}
	return os.ReadFile(path)
}

// variables are those of the config's own template: the environment, then the
// user data, then what was set, then the UUID; later ones win.
func (o Options) variables() (map[string]any, error) {
	out := map[string]any{}
	for name, value := range o.Env {
		out[name] = value
	}
	for _, path := range o.Overrides {
		raw, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("read overrides: %w", err)
		}
		var data map[string]any
		if err := yaml.Unmarshal(raw, &data); err != nil {
			return nil, fmt.Errorf("%s: not a mapping of names to values: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		maps.Copy(out, data)
	}
	for key, value := range o.Set {
		if !ofTree(key) {
			out[key] = typed(value)
		}
	}
	out["UUID"] = o.UUID
	return out, nil
}

// ofTree tells whether a --set names a place in the config, and not a variable
// of its template.
func ofTree(key string) bool {
	first, _, more := strings.Cut(key, ".")
	return more && (first == "global" || first == "jobs" || first == "metricsEndpoints")
}

// rendered is a config after its template.
type rendered struct {
	text  []byte
	lines []int // line of text -> line of the file, both from 1
}

// lineMark stands before each text and each line of the template while it is
// executed, with the line's number, so that faults in the result can be told of
// the file.
const (
	lineMark    = '\uE0A1'
	lineMarkEnd = '\uE0A2'
)

// position finds line and text in an error of text/template.
var position = regexp.MustCompile(`(?s)^template: [^:]*:(\d+)(?::\d+)?: (?:executing "[^"]*" )?(.*)$`)

// render executes a config's template.
func (o Options) render(f *findings, raw []byte, vars map[string]any) (rendered, bool) {
	functions := template.KubeBurnerFunctions(o.Seed)
	functions["env"] = func(name string) string { return o.Env[name] }
	functions["expandenv"] = func(s string) string { return os.Expand(s, func(name string) string { return o.Env[name] }) }
	functions["ReadFile"] = func(path string) (string, error) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(f.file), path)
		}
		text, err := readFile(path)
		return string(text), err
	}
	missing := "error"
	if o.AllowMissing {
		missing = "zero"
	}
	t, err := texttemplate.New("config").Option("missingkey=" + missing).Funcs(functions).Parse(string(raw))
	if err == nil {
		for _, one := range t.Templates() {
			if one.Tree != nil {
				markLines(one.Root, string(raw))
			}
		}
		var out limited
		if err = t.Execute(&out, vars); err == nil {
			return unmark(out.Bytes()), true
		}
	}
	line, text := 1, err.Error()
	if m := position.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = m[2]
	}
	if strings.Contains(text, "map has no entry for key") {
		text += " (give it by the environment, --set NAME=VALUE or --overrides FILE)"
	}
	f.add(line, "%s", text)
	return rendered{}, false
}

// limited is a buffer that refuses to grow without end.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxFile {
		return 0, errTooLarge
	}
	return l.Buffer.Write(p)
}

// markLines puts marks into the texts of a template.
func markLines(n parse.Node, source string) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, item := range n.Nodes {
			markLines(item, source)
		}
	case *parse.TextNode:
		line := 1 + strings.Count(source[:min(int(n.Pos), len(source))], "\n")
		out := appendMark(nil, line)
		for _, c := range n.Text {
			if out = append(out, c); c == '\n' {
				line++
				out = appendMark(out, line)
			}
		}
		n.Text = out
	case *parse.IfNode:
		markLines(n.List, source)
		markLines(n.ElseList, source)
	case *parse.RangeNode:
		markLines(n.List, source)
		markLines(n.ElseList, source)
	case *parse.WithNode:
		markLines(n.List, source)
		markLines(n.ElseList, source)
	}
}

func appendMark(dst []byte, line int) []byte {
	return fmt.Appendf(dst, "%c%d%c", lineMark, line, lineMarkEnd)
}

// marks finds them.
var marks = regexp.MustCompile(fmt.Sprintf("%c([0-9]+)%c", lineMark, lineMarkEnd))

// unmark takes the marks out again. The first one of a line says where it came
// from; a line without one is of a value of several lines.
func unmark(text []byte) rendered {
	r := rendered{lines: []int{0}}
	at := 1
	for line := range bytes.Lines(text) {
		if m := marks.FindSubmatch(line); m != nil {
			at, _ = strconv.Atoi(string(m[1]))
		}
		r.text, r.lines = append(r.text, marks.ReplaceAll(line, nil)...), append(r.lines, at)
	}
	return r
}

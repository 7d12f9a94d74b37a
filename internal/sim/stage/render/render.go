// Package render compiles the templates of stages and renders them to JSON:
// text/template with sprig's functions and kwok's, whose output is YAML.
//
// A template that it understands is played on the object itself, and what it
// prints is cut into fixed JSON and holes for values, once for each shape that
// the output takes; the first of each shape is compared with what text/template
// and YAML make of it. Whatever is not understood, in a template or in a value, is
// left to text/template: both give the same bytes.
//
// It knows the world only through Env. Sprig's env, expandenv and getHostByName
// are left out, since a stage's answer depends on nothing but its object, the
// time and chance.
package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/text/limit"
)

// Function is a function of templates.
type Function func(args ...any) (any, error)

// Env is what a template knows besides its object.
type Env struct {
	Now     time.Time
	Start   time.Time  // of the fleet
	Version string     // of the program
	Rand    *rand.Rand // for sprig's random functions; nil leaves them as they are

	// Functions answer for NodeIP, NodeName, NodePort, NodeIPWith, NodeIPsWith,
	// PodIP, PodIPWith and PodIPsWith, which give nothing without, and may stand
	// in for Now, now, StartTime and Version. Fleet is asked before them.
	Functions map[string]Function
	Fleet     Fleet
}

// Fleet answers some of the functions that Env names; not ok for the others. The
// arguments end with the call.
type Fleet interface {
	Answer(function string, args []object.Value) (answer object.Value, ok bool)
}

// ErrUnread says that an object's message does not tell all that the template
// needs: it must be rendered for the object's JSON.
var ErrUnread = errors.New("the template reads a field that only its Go type knows")

// Template is a compiled template. It may be used by many goroutines.
type Template struct {
	program *program  // nil where it is not understood
	slow    string    // why not
	changes bool      // it may call a function that changes its argument
	skipped int       // empty lines before the text
	idle    sync.Pool // of *instance: a template's functions are bound to one use at a time
	runs    sync.Pool // of *run

	compiled, executed atomic.Int64
	why                atomic.Pointer[string] // it was executed last
}

// instance is a template with functions that read its env.
type instance struct {
	env    *Env
	parsed *template.Template
	out    bytes.Buffer
}

// Error says what is wrong with a template, and on which line of it.
type Error struct {
	Line    int // counted from 1; 0 when unknown
	Message string
}

// Error writes the message with its line.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return "line " + strconv.Itoa(e.Line) + " of the template: " + e.Message
}

// Compile compiles a template. The error is an *Error.
func Compile(text string) (*Template, error) {
	skipped := strings.Count(text[:len(text)-len(strings.TrimLeft(text, " \t\r\n"))], "\n")
	text = strings.TrimSpace(text)
	first := &instance{}
	parsed, err := template.New(templateName).Funcs(first.boundFunctions()).Parse(text)
	if err != nil {
		return nil, locateError(err, skipped)
	}
	first.parsed = parsed
	t := &Template{changes: changing.MatchString(text), skipped: skipped}
	if t.program, err = compileTree(parsed, first.boundFunctions()); err != nil {
		t.program, t.slow = nil, err.Error()
	}
	limit.Loops(parsed)
	t.runs.New = func() any { return &run{} }
	t.idle.New = func() any {
		i := &instance{}
		again, err := parsed.Clone()
		if err != nil {
			return nil // cannot happen: parsed itself is never executed
		}
		i.parsed = again.Funcs(i.boundFunctions())
		return i
	}
	return t, nil
}

// changing finds the functions of sprig that change a map that they are given.
var changing = regexp.MustCompile(`\b(` + changers + `)\b`)

const templateName = "template"

var position = regexp.MustCompile(`^template: ` + templateName + `:(\d+)(?::\d+)?: (?:executing "` + templateName + `" at )?(?s:(.*))$`)

// locateError brings text/template's errors into our form.
func locateError(err error, skipped int) *Error {
	m := position.FindStringSubmatch(err.Error())
	if m == nil {
		return &Error{Message: err.Error()}
	}
	line, _ := strconv.Atoi(m[1])
	return &Error{Line: line + skipped, Message: m[2]}
}

// JSON renders the template of an object and returns its YAML as JSON.
func (t *Template) JSON(o map[string]any, env *Env) ([]byte, error) {
	return t.Append(nil, object.Of(o), env)
}

// Append appends what JSON returns. ErrUnread says that it takes the object's
// JSON.
func (t *Template) Append(dst []byte, o object.Value, env *Env) ([]byte, error) {
	why := t.slow
	if t.program != nil {
		x := t.runs.Get().(*run)
		defer t.runs.Put(x)
		x.reset(env, o, t.program.vars)
		if x.runNodes(t.program.body) {
			s := t.program.shapes.get(x.print)
			if s == nil && !t.program.shapes.full() {
				return t.learnShape(dst, x, o)
			}
			if s != nil && s.segments != nil {
				t.compiled.Add(1)
				return s.appendFilled(dst, x), nil
			}
			x.why = "it prints in ever new shapes"
			if s != nil {
				x.why = s.why
			}
		}
		why = x.why
	}
	t.executed.Add(1)
	t.why.Store(&why)
	return t.executeTemplate(dst, o, env)
}

// learnShape makes the shape of what a run printed, and compares what it gives with
// what text/template and YAML do.
func (t *Template) learnShape(dst []byte, x *run, o object.Value) ([]byte, error) {
	out, err := t.executeTemplate(dst, o, x.env)
	if err != nil {
		return dst, err
	}
	s := t.program.newShape(x.print)
	if s.segments != nil && !bytes.Equal(s.appendFilled(nil, x), out[len(dst):]) {
		s = &shape{why: "its shape gives something else"}
	}
	t.program.shapes.put(x.print, s)
	return out, nil
}

// Slow says why a template is left to text/template; empty where it is not.
func (t *Template) Slow() string { return t.slow }

// Reads returns the paths of the object that a template reads which is not slow,
// each with all that is below; all says that it may read any.
func (t *Template) Reads() (paths [][]string, all bool) {
	return t.program.reads, t.program.all
}

// Counts returns how often the compiled form gave the answer, how often
// text/template did, and why it did last.
func (t *Template) Counts() (compiled, executed int64, why string) {
	if w := t.why.Load(); w != nil {
		why = *w
	}
	return t.compiled.Load(), t.executed.Load(), why
}

// executeTemplate executes the template.
func (t *Template) executeTemplate(dst []byte, o object.Value, env *Env) ([]byte, error) {
	tree, ok := o.Tree()
	if !ok {
		return dst, ErrUnread
	}
	i, ok := t.idle.Get().(*instance)
	if !ok {
		return dst, &Error{Message: "the template cannot be copied"}
	}
	defer t.idle.Put(i)
	data, _ := tree.(map[string]any)
	if t.changes {
		data, _ = cloneValue(data).(map[string]any)
	}
	i.env = env
	i.out.Reset()
	err := i.parsed.Execute(&limit.Writer{To: &i.out}, data)
	i.env = nil
	if err != nil {
		return dst, locateError(err, t.skipped)
	}
	out, err := toJSON(i.out.Bytes())
	if err != nil {
		message := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
		return dst, &Error{Message: "renders to no YAML: " + message}
	}
	return append(dst, out...), nil
}

func toJSON(text []byte) ([]byte, error) {
	if json.Valid(text) { // as of toJson: no need to read it as YAML
		return bytes.TrimSpace(text), nil
	}
	return yaml.YAMLToJSON(text) //nolint:wrapcheck // the caller words it
}

// cloneValue returns a copy that shares nothing which can be changed.
func cloneValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = cloneValue(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = cloneValue(item)
		}
		return out
	}
	return v
}

// quoteText writes a value as a JSON string: what is no string is written as JSON
// first.
func quoteText(v any) (string, error) {
	raw, err := json.Marshal(v)
	switch {
	case err != nil:
		return "", fmt.Errorf("quote: %w", err)
	case raw[0] == '"':
		return string(raw), nil
	}
	return strconv.Quote(string(raw)), nil
}

var errIndent = errors.New("YAML takes a value and at most one depth")

// toYAML writes a value as YAML, on its own lines and two spaces deeper for each
// step of depth.
func toYAML(v any, depth ...int) (string, error) {
	if len(depth) > 1 {
		return "", errIndent
	}
	raw, err := yaml.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	if len(depth) == 0 {
		return string(raw), nil
	}
	return indentYAML(string(raw), depth[0]), nil
}

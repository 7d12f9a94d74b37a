// Package template makes the bodies of objects: a Go template of one object in
// YAML or JSON becomes JSON bytes, the same ones for the same variables and
// seed on every machine.
//
// Where an object depends on its name, namespace, index and random parts by
// plain substitution, rendering it is a copy of prepared segments; otherwise
// the template is executed each time. Both give the same bytes. It sends
// nothing: package load does, and package steps calls both.
package template

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	texttemplate "text/template"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/text/limit"
)

// MaxOutput is the most bytes that a rendered object may have.
const MaxOutput = 2 << 20

// ErrTooLarge is in the error for an object of more than MaxOutput bytes.
var ErrTooLarge = errors.New("more than 2 MiB")

// Vars are the variables of one object. In the template they are .Name,
// .Namespace, .Group, .Index, .Replica, .Call and .Seed, and each entry of With by its
// name; other dialects have other names for them.
type Vars struct {
	Name      string
	Namespace string
	Group     string
	Index     int            // from 0
	Replica   int            // of those that share an index, from 1; 0 is 1
	Call      int            // of a step of requests: the number of the call in its entry, from 0
	Seed      uint64         // with Index, the source of the random functions
	With      map[string]any // read, never changed; must not change once it was used
}

// Template is a compiled body. It is safe for concurrent use.
type Template struct {
	file    string
	line    int
	dialect Dialect
	parse   *texttemplate.Template
	pool    sync.Pool               // of *executor
	slow    string                  // why objects cannot be segments, from the template alone; empty when they may
	head    atomic.Pointer[head]    // of the first object
	plans   atomic.Pointer[[]*plan] // newest last
}

// head says what an object is.
type head struct{ APIVersion, Kind string }

// Compile parses a template. name is the file that it stands in and line the
// number of its first line there, from 1; errors begin with "NAME:LINE: ".
// d says whose functions and variables it uses.
func Compile(name, text string, line int, d Dialect) (*Template, error) {
	t := &Template{file: name, line: max(1, line)}
	parsed, err := texttemplate.New(templateName).Option("missingkey=" + d.Missing).Funcs(limit.Functions(d.Functions(Source{&executor{}}))).Parse(text)
	if err != nil {
		return nil, t.explainError(err, "", nil)
	}
	t.dialect, t.parse = d, parsed
	t.slow = explainUnsegmentable(parsed, d)
	limit.Loops(parsed)
	t.pool.New = func() any { return newExecutor(parsed, d) }
	return t, nil
}

// Stamp lets every object that the template gives carry a stamp, and with grouped
// the label of its group where it has none of its own. It is for the time before the
// first one: objects that are copies of segments have it in them. Patches have none.
func (t *Template) Stamp(s object.Stamp, grouped bool) {
	if s.Run == "" && !grouped {
		return
	}
	finish := t.dialect.Finish
	t.dialect.Finish = func(raw []byte, v Vars) ([]byte, error) {
		if finish != nil {
			var err error
			if raw, err = finish(raw, v); err != nil {
				return nil, err
			}
		}
		own := s
		if grouped {
			own.Group = v.Group
		}
		return own.MarkJSON(raw)
	}
	parsed, d := t.parse, t.dialect
	t.pool = sync.Pool{New: func() any { return newExecutor(parsed, d) }}
}

// Render appends an object as compact JSON to dst. The errors name the template's
// file and line, and the object. An object that is not of the first one's kind
// is an error, because it would be sent to the wrong place.
func (t *Template) Render(dst []byte, v Vars) ([]byte, error) {
	p := t.planFor(v)
	if p.segments == nil || !isSubstitutable(v.Name) || !isSubstitutable(v.Namespace) {
		return t.Execute(dst, v)
	}
	out := p.appendObject(dst, v)
	if len(out)-len(dst) > MaxOutput {
		return dst, t.wrapError(v, ErrTooLarge)
	}
	return out, nil
}

// APIVersion returns that of the first object that was rendered, such as
// "apps/v1"; empty before.
func (t *Template) APIVersion() string { return t.firstHead().APIVersion }

// Kind returns that of the first object that was rendered, such as
// "Deployment"; empty before.
func (t *Template) Kind() string { return t.firstHead().Kind }

func (t *Template) firstHead() head {
	if h := t.head.Load(); h != nil {
		return *h
	}
	return head{}
}

// Execute renders like Render, and gives the same bytes, but executes the template for
// each object, which is slower than copying the segments that objects have in common.
func (t *Template) Execute(dst []byte, v Vars) ([]byte, error) {
	x := t.pool.Get().(*executor)
	defer t.pool.Put(x)
	text, err := x.executeTemplate(v, nil)
	if err != nil {
		return dst, t.explainError(err, v.Name, v.With)
	}
	object, h, err := t.dialect.decodeObject(text, v)
	if err != nil {
		return dst, t.wrapError(v, err)
	}
	if !t.head.CompareAndSwap(nil, &h) && *t.head.Load() != h {
		return dst, t.wrapError(v, fmt.Errorf("it is a %s %s, but the first object was a %s %s",
			h.APIVersion, h.Kind, t.APIVersion(), t.Kind()))
	}
	return append(dst, object...), nil
}

// WhyExecuted says why Render executes the template for an object; empty where it copies
// segments.
func (t *Template) WhyExecuted(v Vars) string { return t.planFor(v).slow }

// Forget drops the prepared segments, because a function gives something else from now on.
func (t *Template) Forget() { t.plans.Store(nil) }

// wrapError says which object of which template cannot be made.
func (t *Template) wrapError(v Vars, err error) error {
	return fmt.Errorf("%s:%d: object %q: %w", t.file, t.line, v.Name, err)
}

// templateName is what text/template calls ours in its errors.
const templateName = "body"

// position finds line and message in an error of text/template.
var position = regexp.MustCompile(`(?s)^template: ` + templateName + `:(\d+)(?::\d+)?: (?:executing "` + templateName + `" )?(.*)$`)

// explainError puts an error of text/template at the line of our file.
func (t *Template) explainError(err error, object string, with map[string]any) error {
	line, text := t.line, err.Error()
	if m := position.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		line, text = t.line+n-1, m[2]
	}
	if strings.Contains(text, "map has no entry for key") && object != "" {
		known := slices.Sorted(maps.Keys(with))
		text += "; the variables are " + t.dialect.Names
		for _, k := range known {
			text += " ." + k
		}
	}
	where := fmt.Sprintf("%s:%d: ", t.file, line)
	if object != "" {
		where += fmt.Sprintf("object %q: ", object)
	}
	return &Error{text: where + strings.Join(strings.Fields(text), " "), err: err}
}

// Error is a template that cannot be parsed or executed.
type Error struct {
	text string
	err  error
}

// Error is one line that begins with "FILE:LINE: ".
func (e *Error) Error() string { return e.text }

// Unwrap returns the error of text/template, or ErrTooLarge.
func (e *Error) Unwrap() error { return e.err }

// sameMap tells whether two maps are one.
func sameMap(a, b map[string]any) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

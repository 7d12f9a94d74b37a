// Package render compiles the templates of stages and renders them to JSON:
// text/template with sprig's functions and kwok's, whose output is YAML.
//
// It knows objects only as trees of map[string]any, []any, string, bool, nil
// and json.Number, and the world only through Env. Sprig's env, expandenv and
// getHostByName are left out, since a stage's answer depends on nothing but
// its object, the time and chance.
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
	"text/template"
	"time"

	"sigs.k8s.io/yaml"
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
	// in for Now, now, StartTime and Version.
	Functions map[string]Function
}

// Template is a compiled template. It may be used by many goroutines.
type Template struct {
	changes bool      // it may call a function that changes its argument
	skipped int       // empty lines before the text
	idle    sync.Pool // of *instance: a template's functions are bound to one use at a time
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
	parsed, err := template.New(templateName).Funcs(first.functions()).Parse(text)
	if err != nil {
		return nil, fault(err, skipped)
	}
	first.parsed = parsed
	t := &Template{changes: changers.MatchString(text), skipped: skipped}
	t.idle.New = func() any {
		i := &instance{}
		again, err := parsed.Clone()
		if err != nil {
			return nil // cannot happen: parsed itself is never executed
		}
		i.parsed = again.Funcs(i.functions())
		return i
	}
	return t, nil
}

// changers finds the functions of sprig that change a map that they are given.
var changers = regexp.MustCompile(`\b(set|unset|merge|mergeOverwrite|mustMerge|mustMergeOverwrite)\b`)

const templateName = "template"

var position = regexp.MustCompile(`^template: ` + templateName + `:(\d+)(?::\d+)?: (?:executing "` + templateName + `" at )?(?s:(.*))$`)

// fault brings text/template's errors into our form.
func fault(err error, skipped int) *Error {
	m := position.FindStringSubmatch(err.Error())
	if m == nil {
		return &Error{Message: err.Error()}
	}
	line, _ := strconv.Atoi(m[1])
	return &Error{Line: line + skipped, Message: m[2]}
}

// JSON renders the template of an object and returns its YAML as JSON.
func (t *Template) JSON(object map[string]any, env *Env) ([]byte, error) {
	i, ok := t.idle.Get().(*instance)
	if !ok {
		return nil, &Error{Message: "the template cannot be copied"}
	}
	defer t.idle.Put(i)
	if t.changes {
		object, _ = cloned(object).(map[string]any)
	}
	i.env = env
	i.out.Reset()
	err := i.parsed.Execute(&i.out, object)
	i.env = nil
	if err != nil {
		return nil, fault(err, t.skipped)
	}
	if json.Valid(i.out.Bytes()) { // as of toJson: no need to read it as YAML
		return bytes.Clone(bytes.TrimSpace(i.out.Bytes())), nil
	}
	out, err := yaml.YAMLToJSON(i.out.Bytes())
	if err != nil {
		message := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
		return nil, &Error{Message: "renders to no YAML: " + message}
	}
	return out, nil
}

// cloned returns a copy that shares nothing which can be changed.
func cloned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = cloned(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = cloned(item)
		}
		return out
	}
	return v
}

// quote writes a value as a JSON string: what is no string is written as JSON
// first.
func quote(v any) (string, error) {
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
	if len(depth) == 0 || depth[0] <= 0 {
		return string(raw), nil
	}
	return strings.ReplaceAll("\n"+string(raw), "\n", "\n"+strings.Repeat("  ", depth[0])), nil
}

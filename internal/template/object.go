package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"sigs.k8s.io/yaml"

	words "github.com/windtunnel/windtunnel/internal/text"
)

// ErrEmpty is in the error for a template that gives nothing for an object.
// ClusterLoader2 leaves such an object out; elsewhere it is a fault.
var ErrEmpty = errors.New("the template gives no object")

var errMany = errors.New("the template gives more than one object")

// decodeObject turns the text that a template gave for an object into what is sent.
func (d Dialect) decodeObject(text []byte, v Vars) ([]byte, head, error) {
	object, h, err := toJSON(text, d.LastWins)
	if err == nil && d.Finish != nil {
		object, err = d.Finish(object, v)
	}
	return object, h, err
}

// toJSON turns a rendered text into one object: JSON is kept in its order and
// made compact, YAML is read as kubectl reads it. lastWins is the dialect's.
func toJSON(text []byte, lastWins bool) ([]byte, head, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, head{}, ErrEmpty
	}
	object, err := compactObject(text, lastWins)
	if err != nil {
		return nil, head{}, err
	}
	var h struct {
		APIVersion any `json:"apiVersion"`
		Kind       any `json:"kind"`
	}
	if object[0] != '{' || json.Unmarshal(object, &h) != nil {
		return nil, head{}, errors.New("the template gives no object but a text, a number or a list")
	}
	version, _ := h.APIVersion.(string)
	kind, _ := h.Kind.(string)
	if version == "" || kind == "" {
		return nil, head{}, errors.New("the object has no apiVersion and kind")
	}
	if len(object) > MaxOutput {
		return nil, head{}, ErrTooLarge
	}
	return object, head{version, kind}, nil
}

// compactObject returns one JSON value without white space.
func compactObject(text []byte, lastWins bool) ([]byte, error) {
	if text[0] == '{' && json.Valid(text) {
		var out bytes.Buffer
		err := json.Compact(&out, text)
		return out.Bytes(), err
	}
	text, err := oneDocument(text)
	if err != nil {
		return nil, err
	}
	read := yaml.YAMLToJSONStrict
	if lastWins {
		read = yaml.YAMLToJSON
	}
	object, err := read(text)
	if err != nil {
		return nil, fmt.Errorf("the rendered text is not YAML: %s", words.YAMLFault(err))
	}
	return object, nil
}

// oneDocument returns the one YAML document that is not empty. The YAML reader
// by itself would take the first and ignore the others.
func oneDocument(text []byte) ([]byte, error) {
	documents, start, at := 0, 0, 0
	content := false // in the document so far
	for line := range bytes.Lines(text) {
		begin := at
		at += len(line)
		line = bytes.TrimRight(line, " \t\r\n")
		rest, marker := bytes.CutPrefix(line, []byte("---"))
		if marker && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t') {
			content = false
			line = bytes.TrimLeft(rest, " \t")
			if documents == 0 {
				start = begin
			}
		}
		if len(line) == 0 || line[0] == '#' || line[0] == '%' || content || string(line) == "..." {
			continue
		}
		content = true
		documents++
	}
	switch documents {
	case 0:
		return nil, ErrEmpty
	case 1:
		return text[start:], nil
	}
	return nil, errMany
}

// KindOf returns what an object is, whatever the first one was.
func (t *Template) KindOf(v Vars) (apiVersion, kind string, err error) {
	x := t.pool.Get().(*executor)
	defer t.pool.Put(x)
	text, err := x.executeTemplate(v, nil)
	if err != nil {
		return "", "", t.explainError(err, v.Name, v.With)
	}
	_, h, err := toJSON(text, t.dialect.LastWins)
	if err != nil {
		return "", "", t.wrapError(v, err)
	}
	return h.APIVersion, h.Kind, nil
}

// Twice says which key a mapping of an object has twice, where the dialect lets the last
// value count; empty where there is none, or the template gives no object.
func (t *Template) Twice(v Vars) string {
	x := t.pool.Get().(*executor)
	defer t.pool.Put(x)
	text, err := x.executeTemplate(v, nil)
	if err != nil || !t.dialect.LastWins {
		return ""
	}
	_, err = compactObject(append(bytes.TrimSpace(text), '\n'), false)
	if m := twice.FindStringSubmatch(fmt.Sprint(err)); m != nil {
		return m[1]
	}
	return ""
}

// twice finds the key in the YAML reader's complaint.
var twice = regexp.MustCompile(`key "([^"]*)" already set in map`)

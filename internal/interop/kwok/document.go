package kwok

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Document is a document of another kind than Stage.
type Document struct {
	Path       string
	Line       int // of its beginning; -1 when lines mean nothing
	APIVersion string
	Kind       string
	Name       string
	Namespace  string
	JSON       []byte // the whole document

	root  *yaml.Node
	lines map[string]int
}

// LoadObject reads one object as a server sent it: a single JSON document, whose
// lines mean nothing. The name stands for a path in errors.
func LoadObject(name string, json []byte) (*File, error) {
	f, err := Load(name, json)
	if err != nil {
		return nil, withoutLines(err)
	}
	if len(f.Stages)+len(f.Others) != 1 {
		return nil, &Error{Path: name, Err: fmt.Errorf("want one object, got %d", len(f.Stages)+len(f.Others))}
	}
	for _, s := range f.Stages {
		s.lines = nil
	}
	for i := range f.Others {
		f.Others[i].Line, f.Others[i].lines = -1, map[string]int{}
	}
	return f, nil
}

// withoutLines takes the lines out of the faults of a joined error.
func withoutLines(err error) error {
	var one *Error
	switch joined, ok := err.(interface{ Unwrap() []error }); {
	case ok:
		var out []error
		for _, e := range joined.Unwrap() {
			out = append(out, withoutLines(e))
		}
		return errors.Join(out...)
	case errors.As(err, &one):
		one.Line, one.Stage = 0, ""
		return one
	}
	return err
}

// Decode reads the document strictly into a struct whose fields have yaml tags,
// and notes the line of each field. Fields that the document does not have stay
// as they are. apiVersion, kind, metadata and status are not looked at. The
// error joins what is wrong.
func (d *Document) Decode(into any) error {
	if d.root == nil {
		return errors.New("kwok: this document was not read from a file")
	}
	body := *d.root
	body.Content = nil
	for i := 0; i+1 < len(d.root.Content); i += 2 {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, d.root.Content[i].Value) {
			body.Content = append(body.Content, d.root.Content[i], d.root.Content[i+1])
		}
	}
	return errors.Join(decodeTree(d.errorAbout(), d.lines, "", &body, into)...)
}

func (d *Document) errorAbout() Error {
	if d.Line < 0 { // the path names the object
		return Error{Path: d.Path, Line: d.Line}
	}
	return Error{Path: d.Path, Line: d.Line, Other: strings.TrimSpace(d.Kind + " " + d.Name)}
}

// Fault returns an error about a field of the document; empty for the whole.
func (d *Document) Fault(field string, err error) *Error {
	return d.errorAbout().atField(nearestLine(d.lines, field), field, err)
}

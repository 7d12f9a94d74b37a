// Package kit is what the importers of other tools' files share: the declared
// fate of each field, and the notes of what is not done as the tool does it.
//
// It reads no file and knows no tool. What holds a table of fates against an
// importer, and writes it to a page, is package kittest.
package kit

import (
	"fmt"
	"reflect"
)

// Fate is what becomes of a field of a file, or of a parameter.
type Fate string

// The fates.
const (
	Honored Fate = "honored" // what the field says is done
	InPart  Fate = "in part" // it is done but for what the text says; a note follows where that matters
	Noted   Fate = "noted"   // it is not done; a note says so
	Refused Fate = "refused" // the import ends with an error
)

// Field is the declared fate of one field of a type, or of one parameter.
type Field struct {
	Name    string // as files have it
	Fate    Fate
	Text    string // what it becomes; of a noted one the sentence of its note
	Usual   string // of a noted one: the value that asks for nothing and so has no note
	Changes bool   // noted: what is left out changes the load or the verdict
	When    string // of a parameter: the only action with which its tool reads it
	Within  string // of a noted one: the field around it, whose note is enough
	Own     bool   // noted: the importer writes the note where it knows more
}

// Asks tells whether a value of a field needs the note of its fate. A field
// without a declared fate and a value that is nil need none.
func (f *Field) Asks(value any) bool {
	return f != nil && f.Fate == Noted && f.Within == "" && !f.Own && value != nil && fmt.Sprint(value) != f.Usual
}

// Fields are the fates of the fields of one type, or of the parameters of one
// measurement.
type Fields []Field

// Named returns the fate of a field; nil where none is declared.
func (all Fields) Named(name string) *Field {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

// Names returns the names of the fields, in their order.
func (all Fields) Names() []string {
	var out []string
	for _, f := range all {
		out = append(out, f.Name)
	}
	return out
}

// Type has the fates of the fields of one type.
type Type struct {
	Of     reflect.Type
	Path   string // where a file has it; several are separated by ", "
	Fields Fields
}

// Of returns the fates of the fields of type T.
func Of[T any](path string, fields Fields) Type {
	return Type{Of: reflect.TypeFor[T](), Path: path, Fields: fields}
}

// Table has the fates of all fields of a tool's files.
type Table []Type

// Of returns the fate of a type's field; nil where none is declared.
func (t Table) Of(of reflect.Type, name string) *Field {
	for i := range t {
		if t[i].Of == of {
			return t[i].Fields.Named(name)
		}
	}
	return nil
}

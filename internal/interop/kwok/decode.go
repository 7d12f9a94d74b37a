package kwok

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
)

// Limits of a file: they keep a hostile one from taking the machine along.
const (
	maxDepth  = 100
	maxValues = 5_000_000
)

// decodeTree reads a tree into what the pointer into points at, strictly, and notes
// the line of each field. about says where the tree is from.
func decodeTree(about Error, lines map[string]int, field string, node *yaml.Node, into any) []error {
	var faults []error
	d := &strictyaml.Decoder{
		Lines: lines, Budget: maxValues, MaxDepth: maxDepth,
		Report: func(line int, at strictyaml.Place, text string) {
			faults = append(faults, about.atField(line, at.Path, errors.New(text)))
		},
	}
	d.Dialect = strictyaml.Dialect{
		NotMapping: "want a mapping, got {value}",
		NotList:    "want a list, got {value}",
		NotSingle:  "want a single value, got {value}",
		NotName:    "{value} is not a name",
		NoMerge:    "merge keys (<<) are not followed",
		Unknown:    "there is no field {key}{near}",
		Twice:      "stands here twice",
		TooMany:    "more values than a file may have",
		TooDeep:    "more levels than a file may have",
		BadText:    "{error}",
		KeyLines:   true, Nulls: true,
		Show: describeShape, Near: isItText,
		Scalar: func(node *yaml.Node, v reflect.Value, at strictyaml.Place) {
			if err := readScalar(node, v); err != nil {
				d.Report(node.Line, at, err.Error())
			}
		},
	}
	d.Value(node, reflect.ValueOf(into).Elem(), strictyaml.Place{Path: field})
	return faults
}

// atField is the error of one field.
func (e Error) atField(line int, field string, err error) *Error {
	e.Field, e.Err = field, err
	if e.Line >= 0 {
		e.Line = line
	}
	return &e
}

// readScalar reads a text, a number or a boolean, each written as what it is.
func readScalar(node *yaml.Node, v reflect.Value) error {
	want := tagOf(v.Kind())
	got := node.ShortTag()
	if node.Kind != yaml.ScalarNode || (got != want && (want != "!!float" || got != "!!int")) {
		hint, name := "", tagWords(want)
		switch {
		case want == "!!float":
			name = "a number"
		case want == "!!str" && node.Kind == yaml.ScalarNode:
			hint = ": put it in quotes"
		}
		return fmt.Errorf("want %s, got %s%s", name, describeShape(node), hint)
	}
	if err := node.Decode(v.Addr().Interface()); err != nil {
		return fmt.Errorf("%s is out of range", node.Value)
	}
	return nil
}

// tagOf returns the YAML tag of a kind of scalar.
func tagOf(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "!!str"
	case reflect.Bool:
		return "!!bool"
	case reflect.Float64:
		return "!!float"
	}
	return "!!int"
}

func tagWords(tag string) string {
	switch tag {
	case "!!str":
		return "a string"
	case "!!bool":
		return "true or false"
	case "!!int":
		return "a whole number"
	}
	return "a value of type " + strings.TrimPrefix(tag, "!!")
}

// describeShape names what a node is.
func describeShape(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return tagWords(node.ShortTag()) + " " + strconv.Quote(node.Value)
}

// Unknown says that there is no such thing, such as a field or a kind, and names
// the nearest that there is.
func Unknown(thing, name string, known []string) error {
	return fmt.Errorf("there is no %s %q%s", thing, name, isItText(name, known))
}

func isItText(name string, known []string) string {
	if near := text.Nearest(name, slices.Sorted(slices.Values(known))); near != "" && len(name) > 1 {
		return fmt.Sprintf("; is it %q?", near)
	}
	return ""
}

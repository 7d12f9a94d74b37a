package scenario

import (
	"reflect"
	"strings"
)

// field is one field of a struct of the language.
type field struct {
	name  string // in YAML
	index int    // in the struct
	raw   bool   // ${...} stays as it is: `expr:"raw"`
}

// fieldsOf returns the fields of a struct that a file can set, in order.
func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name, _, _ := strings.Cut(tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		out = append(out, field{name: name, index: i, raw: tag.Get("expr") == "raw"})
	}
	return out
}

func names(fields []field) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.name)
	}
	return out
}

// typeLabel is how messages name a struct of the language: "create", "pace".
func typeLabel(t reflect.Type) string {
	if t == reflect.TypeFor[Disturbance]() {
		return "fault" // its name in a step
	}
	return strings.ToLower(t.Name())
}

package scenario

import (
	"reflect"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
)

// setFields are those of some fields of a struct that are set.
func setFields(of any, among ...string) []string {
	v, out := reflect.Indirect(reflect.ValueOf(of)), []string(nil)
	fields := strictyaml.Fields(v.Type())
	for _, name := range among {
		i := slices.IndexFunc(fields, func(f strictyaml.Field) bool { return f.Name == name })
		x := v.Field(fields[i].Index)
		empty := (x.Kind() == reflect.Map || x.Kind() == reflect.Slice) && x.Len() == 0
		if !empty && !x.IsZero() {
			out = append(out, name)
		}
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

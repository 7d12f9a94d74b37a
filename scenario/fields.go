package scenario

import (
	"reflect"
	"strings"
)

// typeLabel is how messages name a struct of the language: "create", "pace".
func typeLabel(t reflect.Type) string {
	if t == reflect.TypeFor[Disturbance]() {
		return "fault" // its name in a step
	}
	return strings.ToLower(t.Name())
}

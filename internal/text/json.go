package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
)

// JSON writes what a table shows for programs: indented, and with < and & as
// they are, since no browser reads it as a page.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// DecodeJSON decodes the JSON of a file that somebody gave, or of an answer. The error names
// the file, the line where it is no JSON or the field of another type, in words for a user who
// does not know the types of this program. It wraps the decoder's error.
func DecodeJSON(file string, raw []byte, into any) error {
	err := json.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := raw[:min(max(0, syntax.Offset), int64(len(raw)))]
		file = fmt.Sprintf("%s:%d", file, 1+bytes.Count(bytes.TrimRight(before, " \t\r\n"), []byte("\n")))
	}
	return fmt.Errorf("%s: %w", file, &jsonError{whyNotJSON(raw, err), err})
}

// YAMLFault is what a YAML decoder says, without the names of the decoders that hand it on.
func YAMLFault(err error) string {
	why := err.Error()
	for _, decoder := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors:"} {
		why = strings.TrimPrefix(why, decoder)
	}
	return strings.Join(strings.Fields(why), " ")
}

// jsonError is a decoder's error in other words.
type jsonError struct {
	why string
	err error
}

func (e *jsonError) Error() string { return e.why }
func (e *jsonError) Unwrap() error { return e.err }

// whyNotJSON says why a text is not the JSON that was wanted.
func whyNotJSON(raw []byte, err error) string {
	var syntax *json.SyntaxError
	var other *json.UnmarshalTypeError
	var moment *time.ParseError
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
		return "it is empty, and not JSON"
	case errors.As(err, &syntax) && raw[0] == '<':
		return "it is HTML or XML, and not JSON"
	case errors.As(err, &syntax) && strings.HasPrefix(syntax.Error(), "unexpected end"):
		return "not JSON: it ends too early"
	case errors.As(err, &syntax):
		message, _, _ := strings.Cut(syntax.Error(), " looking for")
		return "not JSON: " + message
	case errors.As(err, &other) && fieldOf(other) == "":
		return fmt.Sprintf("it is %s, and not %s", shapeOf(other.Value), wantedShape(other.Type))
	case errors.As(err, &other):
		return fmt.Sprintf("field %s: %s is not %s", fieldOf(other), shapeOf(other.Value), wantedShape(other.Type))
	case errors.As(err, &moment):
		return fmt.Sprintf("%.40q is not a time such as 2026-01-31T15:04:05Z", moment.Value)
	}
	return err.Error()
}

// fieldOf is where a value of another type stands. Of embedded types the decoder says the name,
// which is none of the file's.
func fieldOf(e *json.UnmarshalTypeError) string {
	var out []string
	for _, name := range strings.Split(e.Field, ".") {
		if name != "" && name != "plain" {
			out = append(out, name)
		}
	}
	return strings.Join(out, ".")
}

// shapeOf is what the decoder found: "string", "number -5", "object".
func shapeOf(value string) string {
	kind, number, _ := strings.Cut(value, " ")
	switch kind {
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "a mapping"
	}
	return strings.TrimSpace("a number " + number)
}

func wantedShape(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map, reflect.Pointer, reflect.Interface:
		return "a mapping"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number of 0 or more"
	}
	return "a whole number in range"
}

package protobuf

import "github.com/windtunnel/windtunnel/internal/template"

// Why says why an object is not made by copying protobuf segments; empty when
// it is.
func (t *Template) Why(v template.Vars) string {
	layout := t.json.Layout(v)
	if layout.Holes() < 0 {
		return "its template is executed"
	}
	return t.formFor(layout, v).why
}

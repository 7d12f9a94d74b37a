package text

import (
	"encoding/json"
	"io"
)

// JSON writes what a table shows for programs: indented, and with < and & as
// they are, since no browser reads it as a page.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

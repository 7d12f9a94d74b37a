package stage

import (
	"time"
	"unicode/utf8"
)

// writer appends JSON. The caller writes braces and commas; every value below
// an opening goes through item, which places the commas.
type writer struct {
	b   []byte
	env Env
}

// raw appends s as it is.
func (w *writer) raw(s string) *writer {
	w.b = append(w.b, s...)
	return w
}

// item appends a comma unless something was just opened.
func (w *writer) item() *writer {
	switch w.b[len(w.b)-1] {
	case '{', '[', ':':
	default:
		w.b = append(w.b, ',')
	}
	return w
}

// quoted appends a JSON string.
func (w *writer) quoted(s []byte) *writer {
	w.b = append(w.b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		w.b = append(w.b, s[from:i]...)
		w.escaped(c)
		i++
		from = i
	}
	w.b = append(append(w.b, s[from:]...), '"')
	return w
}

func (w *writer) escaped(c byte) {
	const hex = "0123456789abcdef"
	switch {
	case c == '"' || c == '\\':
		w.b = append(w.b, '\\', c)
	case c >= utf8.RuneSelf: // no UTF-8
		w.b = append(w.b, `\ufffd`...)
	default:
		w.b = append(w.b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
}

// now appends the time of the effect, in whole seconds as the API keeps it.
func (w *writer) now() *writer { return w.time(w.env.Now) }

func (w *writer) time(t time.Time) *writer {
	w.b = append(w.b, '"')
	w.b = t.UTC().AppendFormat(w.b, time.RFC3339)
	w.b = append(w.b, '"')
	return w
}

package object

import "unicode/utf8"

// AppendQuoted appends a string as JSON, as encoding/json does. It is not ok for
// texts that YAML may read otherwise than JSON: with line breaks of Unicode's,
// with characters that YAML does not allow, and, unless lines is set, of several
// lines.
func (v Value) AppendQuoted(dst []byte, lines bool) ([]byte, bool) {
	if v.message != nil {
		return appendQuoted(dst, v.documentText(), lines)
	}
	return appendQuoted(dst, v.text, lines)
}

func appendQuoted[T string | []byte](dst []byte, s T, lines bool) ([]byte, bool) {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&':
			continue
		case c >= utf8.RuneSelf:
			n := len(yamlReadable(s[i:]))
			if n == 0 {
				return dst, false
			}
			i += n - 1
			continue
		case c == 0x7f || c < ' ' && !lines:
			return dst, false
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '<', '>', '&':
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			return dst, false
		}
	}
	return append(append(dst, s[from:]...), '"'), true
}

// yamlReadable returns the character that s begins with, if YAML has it as it is.
func yamlReadable[T string | []byte](s T) T {
	r, n := utf8.DecodeRuneInString(string(s[:min(len(s), utf8.UTFMax)]))
	switch {
	case r == utf8.RuneError && n <= 1, r < 0xa0, r == 0x2028, r == 0x2029, r == 0xfeff, r == 0xfffe, r == 0xffff:
		return s[:0]
	}
	return s[:n]
}

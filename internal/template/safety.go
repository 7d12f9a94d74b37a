package template

import (
	"bytes"
	"slices"
	"strings"
)

// YAML gives plain text a type by its looks: 12 is a number, on is true. The
// functions here tell where that cannot be, so that a value can be put into the
// JSON that another value gave.
//
// Every scalar that is no text (go-yaml's resolution of YAML 1.1 and 1.2) is
// either a word (true, yes, on, null ...: at most 5 letters, no digit and no
// dash) or a number (digits, signs, dots, underscores, e, and after 0x 0o 0b
// also a-f x o b) or infinity or not a number (.inf, .nan). Timestamps stay
// texts in JSON.

// plainLetters are in no number.
const plainLetters = "ghijklmnpqrstuvwyzGHIJKLMNPQRSTUVWYZ"

// isSubstitutable tells whether a name makes every scalar that it is part of a
// text, without quotes or escapes: such as "web-17" or "default".
func isSubstitutable(s string) bool {
	if s == "" || len(s) > 253 || !isAlphanumeric(s[0]) || !isAlphanumeric(s[len(s)-1]) {
		return false
	}
	plain, distinct := false, len(s) > 5 || !inWord(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'g' && c <= 'n', c >= 'p' && c <= 'w', c == 'y', c == 'z':
			plain = true
		case c >= 'a' && c <= 'z', c == '.':
		case c >= '0' && c <= '9', c == '-':
			distinct = true
		default:
			return false
		}
	}
	return plain && distinct
}

// inWord tells whether s is a part of a word that YAML does not take for text:
// beside other letters it could become that word.
func inWord(s string) bool {
	return slices.ContainsFunc([]string{"true", "false", "null", "yes", "off", "on", "no", "inf", "nan"}, func(word string) bool { return strings.Contains(word, s) })
}

func isAlphanumeric(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// explainUnsafe tells why a marker in a rendered text may not be replaced; empty when
// each of them can be.
func explainUnsafe(text []byte, marks []mark) string {
	if bytes.Contains(text, []byte("!!")) {
		return "it has YAML tags"
	}
	for _, m := range marks {
		for from := 0; ; {
			i := bytes.Index(text[from:], []byte(m.text))
			if i < 0 {
				break
			}
			from += i
			if why := m.unsafeAt(text, from, marks); why != "" {
				return why
			}
			from += len(m.text)
		}
	}
	return ""
}

// unsafeAt looks at the word around one marker.
func (m mark) unsafeAt(text []byte, at int, marks []mark) string {
	from, to := at, at+len(m.text)
	for from > 0 && wordByte(text[from-1]) {
		from--
	}
	for to < len(text) && wordByte(text[to]) {
		to++
	}
	if from > 0 && !endsWord(text[from-1]) || to < len(text) && !endsWord(text[to]) {
		return "a value stands beside a sign that YAML may read"
	}
	around := string(text[from:at]) + string(text[at+len(m.text):to])
	switch {
	case m.then == drawn && m.random.letters > 0:
		for _, other := range marks { // their values may be shorter than their markers
			around = strings.ReplaceAll(around, other.text, "")
		}
		if len(around)+m.random.letters <= 5 {
			return "a short random text may be a word of YAML"
		}
	case m.then == theIndex || m.then == theReplica || m.then == theCall || m.then == drawn:
		if around != "" && !strings.ContainsAny(around, plainLetters) {
			return "a number may be part of another number"
		}
	}
	return ""
}

// wordByte tells whether a byte continues a word, with no meaning of its own.
func wordByte(c byte) bool {
	return isAlphanumeric(c) || c >= 'A' && c <= 'Z' || strings.IndexByte("._/:@=+-", c) >= 0
}

// endsWord tells whether a byte ends a word in YAML and JSON.
func endsWord(c byte) bool { return strings.IndexByte(" \t\r\n\"'[]{},()", c) >= 0 }

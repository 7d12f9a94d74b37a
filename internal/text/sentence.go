package text

import "strings"

// Sentence ends a text with a full stop if it has no end of its own.
func Sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.ContainsAny(s[len(s)-1:], ".!?") {
		return s
	}
	return s + "."
}

// CutSentence splits a text behind its first sentence.
func CutSentence(s string) (first, rest string) {
	if i := strings.Index(s, ". "); i >= 0 {
		return s[:i+1], s[i+2:]
	}
	return s, ""
}

// Capital begins a sentence.
func Capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

package text

import (
	"maps"
	"slices"
	"strings"
)

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

// Pairs writes each entry as NAME=VALUE, in the order of the names.
func Pairs(of map[string]string) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, name+"="+of[name])
	}
	return out
}

package text

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks words into lines of at most width columns. A word that is wider
// has a line of its own.
func Wrap(s string, width int) []string {
	var out []string
	line := ""
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			out, line = append(out, line), word
		}
	}
	return append(out, line)
}

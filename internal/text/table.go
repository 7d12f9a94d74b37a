// Package text writes rows and columns for a terminal and for Markdown, and
// makes texts that came from elsewhere harmless in both.
//
// It knows nothing of what stands in them.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Table is rows under a head, all with as many cells.
type Table struct {
	Head   []string // nil: none
	Rows   [][]string
	Left   int    // so many columns are aligned left, the others right
	Indent string // of each line for a terminal
}

// Text writes the table for a terminal: the head in capitals, columns as wide as
// they need to be.
func (t Table) Text(b *strings.Builder) {
	rows := t.Rows
	if t.Head != nil {
		rows = append([][]string{t.Head}, rows...)
	}
	if len(rows) == 0 {
		return
	}
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, v := range row {
			width[i] = max(width[i], utf8.RuneCountInString(Clean(v)))
		}
	}
	for n, row := range rows {
		line := t.Indent
		for i, v := range row {
			if v = Clean(v); n == 0 && t.Head != nil {
				v = strings.ToUpper(v)
			}
			gap := strings.Repeat(" ", max(0, width[i]-utf8.RuneCountInString(v)))
			if i < t.Left {
				line += v + gap + "  "
			} else {
				line += gap + v + "  "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// Markdown writes the table as GitHub reads it.
func (t Table) Markdown(b *strings.Builder) {
	for n, row := range append([][]string{t.Head}, t.Rows...) {
		for _, v := range row {
			b.WriteString("| " + Escape(v) + " ")
		}
		b.WriteString("|\n")
		if n > 0 {
			continue
		}
		for i := range row {
			if i < t.Left {
				b.WriteString("|---")
			} else {
				b.WriteString("|---:")
			}
		}
		b.WriteString("|\n")
	}
}

// Clean takes control characters out of a text: a name from a scenario must not
// steer the terminal.
func Clean(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\t':
			return ' '
		case unicode.IsControl(c) || unicode.Is(unicode.Cf, c):
			return '�'
		}
		return c
	}, s)
}

// Escape makes a text stand in Markdown as it is: a name from a scenario must
// not make links, tables or HTML of a comment, nor call people.
func Escape(s string) string {
	return strings.NewReplacer("\\", "\\\\", "|", "\\|", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]",
		"<", "&lt;", ">", "&gt;", "@", "@\u200b", "#", "\\#").Replace(Clean(s))
}

package golden

import "strings"

// diffLines writes the lines that differ between two texts, with their prefix - or +
// and up to context lines around them.
func diffLines(want, got string) string {
	a, b := strings.SplitAfter(want, "\n"), strings.SplitAfter(got, "\n")
	lines := findEdits(a, b)
	var out strings.Builder
	skipped := false
	for i, l := range lines {
		if l.mark == ' ' && !isNearEdit(lines, i) {
			skipped = true
			continue
		}
		if skipped {
			out.WriteString("  ...\n")
			skipped = false
		}
		if text := strings.TrimSuffix(l.text, "\n"); text != "" {
			out.WriteString(string(l.mark) + " " + text + "\n")
		}
	}
	if skipped {
		out.WriteString("  ...\n")
	}
	return out.String()
}

const context = 3

// edit is a line and whether it stands in both texts (space), only in the first
// (-) or only in the second (+).
type edit struct {
	mark byte
	text string
}

func isNearEdit(lines []edit, at int) bool {
	for i := max(0, at-context); i < min(len(lines), at+context+1); i++ {
		if lines[i].mark != ' ' {
			return true
		}
	}
	return false
}

// findEdits finds the longest common subsequence by the textbook's table.
func findEdits(a, b []string) (out []edit) {
	length := make([][]int, len(a)+1)
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, edit{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && length[i+1][j] >= length[i][j+1]:
			out = append(out, edit{'-', a[i]})
			i++
		default:
			out = append(out, edit{'+', b[j]})
			j++
		}
	}
	return out
}

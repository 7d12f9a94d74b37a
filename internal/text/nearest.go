package text

import (
	"fmt"
	"strings"
)

// DidYouMean returns ` (did you mean "rate"?)` when a known name is near, else "".
func DidYouMean(got string, known []string) string {
	if best := Nearest(got, known); best != "" {
		return fmt.Sprintf(" (did you mean %q?)", best)
	}
	return ""
}

// maxKnown is how many names are compared: a millisecond's work.
const maxKnown = 500

// Nearest returns the known name that is got but for a slip in every third
// letter, in any case; empty when there is none. Of two the first wins, and of very
// many the first ones are looked at: files of strangers may have any number.
func Nearest(got string, known []string) string {
	best, distance := "", max(1, len(got)/3)+1
	for _, k := range known[:min(len(known), maxKnown)] {
		if d := editDistance(strings.ToLower(got), strings.ToLower(k)); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// editDistance is the number of insertions, deletions, replacements and swaps
// of neighbours that turn a into b (optimal string alignment).
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	var before, above []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(row[j-1]+1, above[j]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxFaults bounds what one message shows: beyond it a file is not faulty but
// something else altogether.
const maxFaults = 50

// Fault is one thing wrong with a scenario file. Load and Parse return all of
// them joined, in the order of their lines.
type Fault struct {
	File string
	Line int // from 1; 0 when the fault is not in the file (a --set flag)
	Text string
}

// Error is one line: "FILE:LINE: TEXT".
func (f *Fault) Error() string {
	if f.Line == 0 {
		return f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
}

// faults collects what is wrong with one file.
type faults struct {
	file string
	list []*Fault
}

func (f *faults) add(line int, format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	one := &Fault{File: f.file, Line: line, Text: text}
	if n := len(f.list); n == 0 || *f.list[n-1] != *one { // each round of a repeat would say it again
		f.list = append(f.list, one)
	}
}

// join returns the faults as one error in line order, nil when there are none.
func (f *faults) join() error {
	slices.SortStableFunc(f.list, func(a, b *Fault) int { return a.Line - b.Line })
	var errs []error
	for i, one := range f.list {
		if i == maxFaults {
			errs = append(errs, fmt.Errorf("%s: and %d more", f.file, len(f.list)-maxFaults))
			break
		}
		errs = append(errs, one)
	}
	return errors.Join(errs...)
}

// Hint returns ` (did you mean "rate"?)` when a known name is near, else "":
// for the importers, whose messages are as ours.
func Hint(got string, known []string) string { return hint(got, known) }

// hint returns ` (did you mean "rate"?)` when a known name is near, else "".
func hint(got string, known []string) string {
	best, distance := "", max(1, len(got)/3)+1
	for _, k := range known {
		if d := editDistance(strings.ToLower(got), strings.ToLower(k)); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
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

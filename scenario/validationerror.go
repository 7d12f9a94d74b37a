package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text"
)

// maxProblems bounds what one message shows: beyond it a file is not faulty but
// something else altogether.
const maxProblems = 50

// ValidationError is one thing wrong with a scenario file. Load and Parse return all of
// them joined, in the order of their lines.
type ValidationError struct {
	File string
	Line int // from 1; 0 when it is not in the file (a --set flag)
	Text string
}

// Error is one line: "FILE:LINE: TEXT".
func (f *ValidationError) Error() string {
	if f.Line == 0 {
		return f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
}

// problems collects what is wrong with one file.
type problems struct {
	file      string
	fragments []fragment // whose lines stand in it
	list      []*ValidationError
}

func (f *problems) add(line int, format string, args ...any) {
	file, line := placeOf(f.file, line, f.fragments)
	one := &ValidationError{File: file, Line: line, Text: strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")}
	if n := len(f.list); n == 0 || *f.list[n-1] != *one { // each round of a repeat would say it again
		f.list = append(f.list, one)
	}
}

func (f *problems) sort() {
	slices.SortStableFunc(f.list, func(a, b *ValidationError) int {
		if a.File != b.File && (a.File == f.file || b.File == f.file) {
			return map[bool]int{true: -1, false: 1}[a.File == f.file]
		}
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
}

// join returns the problems as one error in line order, nil when there are none.
func (f *problems) join() error {
	f.sort()
	var errs []error
	for i, one := range f.list {
		if i == maxProblems {
			errs = append(errs, fmt.Errorf("%s: and %d more", f.file, len(f.list)-maxProblems))
			break
		}
		errs = append(errs, one)
	}
	return errors.Join(errs...)
}

// ofSet puts the problems of a file that is right without --set down to the values
// that are wrong by themselves, or to all of them where none is. A value's first
// problem says why; the others follow from it.
func (f *problems) ofSet(set map[string]string, parse func(map[string]string) *problems) *problems {
	out := &problems{file: f.file}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if one := parse(map[string]string{name: set[name]}); len(one.list) > 0 {
			out.addNested("--set "+name+"="+clipText(set[name]), one)
		}
	}
	if len(out.list) == 0 {
		out.addNested("--set", f)
	}
	return out
}

func (f *problems) addNested(what string, of *problems) {
	of.sort()
	switch first := of.list[0]; {
	case first.Line == 0 && strings.HasPrefix(first.Text, "--set "):
		f.list = append(f.list, first)
	case first.Line == 0:
		f.add(0, "%s: %s", what, first.Text)
	default:
		f.add(0, "%s: %s (%s:%d)", what, first.Text, first.File, first.Line)
	}
}

// suggestName returns ` (did you mean "rate"?)` when a known name is near, or is what others
// call the same, else "".
func suggestName(got string, known []string) string {
	for _, one := range otherNames() {
		if strings.EqualFold(got, one[0]) && slices.Contains(known, one[1]) {
			return fmt.Sprintf(" (did you mean %q?)", one[1])
		}
	}
	return text.DidYouMean(got, known)
}

// otherNames are words that people come with, and ours.
func otherNames() [][2]string {
	return [][2]string{
		{"median", "p50"}, {"average", "mean"}, {"avg", "mean"}, {"maximum", "max"}, {"worst", "max"}, {"total", "sum"}, {"throughput", "rate"},
		{"lives", "lifecycle"}, {"life", "lifecycle"}, {"lifecycles", "lifecycle"}, {"pod_startup_latency", "pod-startup"}, {"availability", "api-availability"},
	}
}

package kubeburner

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/scenario"
)

// maxFaults bounds what one message shows.
const maxFaults = 50

// findings collects what is wrong with one file, and what cannot be honoured.
type findings struct {
	file   string
	faults []*scenario.ValidationError
	notes  kit.Notes
	reads  kit.Reads // variables that the config reads
}

// addFaultAt says that something is wrong with the file.
func (f *findings) addFaultAt(line int, format string, args ...any) {
	f.addFault(f.file, line, fmt.Sprintf(format, args...))
}

// addFault says that something is wrong with another file, such as a profile.
func (f *findings) addFault(file string, line int, text string) {
	one := scenario.ValidationError{File: file, Line: line, Text: strings.Join(strings.Fields(text), " ")}
	if !slices.ContainsFunc(f.faults, func(o *scenario.ValidationError) bool { return *o == one }) { // a loop in the template would say it again
		f.faults = append(f.faults, &one)
	}
}

// addNote says what becomes of a field: once, however often the file has it.
func (f *findings) addNote(line int, field, format string, args ...any) {
	f.notes.Add(kit.Note{File: f.file, Line: line, Field: field, Text: fmt.Sprintf(format, args...)})
}

// noteChange notes something that changes the load or the verdict.
func (f *findings) noteChange(line int, field, format string, args ...any) {
	f.notes.Add(kit.Note{File: f.file, Line: line, Field: field, Text: fmt.Sprintf(format, args...), Changes: true})
}

// joinErrors returns the faults as one error in line order, nil when there are none.
func (f *findings) joinErrors() error {
	slices.SortStableFunc(f.faults, func(a, b *scenario.ValidationError) int { return a.Line - b.Line })
	var errs []error
	faults := joinRepeated(f.faults)
	for i, one := range faults {
		if i == maxFaults {
			errs = append(errs, fmt.Errorf("%s: and %d more", f.file, len(faults)-maxFaults))
			break
		}
		errs = append(errs, one)
	}
	return errors.Join(errs...)
}

// joinRepeated makes one fault of those that say the same of several lines.
func joinRepeated(faults []*scenario.ValidationError) []*scenario.ValidationError {
	var out []*scenario.ValidationError
	lines := map[*scenario.ValidationError][]string{} // the further ones
	for _, one := range faults {
		i := slices.IndexFunc(out, func(o *scenario.ValidationError) bool { return o.File == one.File && o.Text == one.Text })
		if i < 0 {
			out = append(out, one)
		} else if one.Line != out[i].Line {
			lines[out[i]] = append(lines[out[i]], strconv.Itoa(one.Line))
		}
	}
	for i, one := range out {
		switch more := lines[one]; len(more) {
		case 0:
		case 1:
			out[i] = &scenario.ValidationError{File: one.File, Line: one.Line, Text: one.Text + " (also on line " + more[0] + ")"}
		default:
			out[i] = &scenario.ValidationError{File: one.File, Line: one.Line, Text: one.Text + " (also on lines " + strings.Join(more, ", ") + ")"}
		}
	}
	return out
}

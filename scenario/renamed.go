package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
)

// renaming is a word of the language that has another name since.
type renaming struct {
	in       string // where it stands: a structure of the language for its fields, STRUCTURE.FIELD for values and keys
	old, now string // both end in * where the rest of a word stays as it is
}

// presentName returns the present name of a word; false where this is not its renaming.
func (r renaming) presentName(word string) (now string, former bool) {
	old, open := strings.CutSuffix(r.old, "*")
	rest, begins := strings.CutPrefix(word, old)
	return strings.TrimSuffix(r.now, "*") + rest, begins && (open || rest == "")
}

// formerWords are the words that files of earlier versions have. They are read as
// their new names, with a warning; nothing writes them, and neither the schema nor
// the reference knows them.
func formerWords() []renaming {
	return []renaming{
		{"scenario", "lives", "lifecycles"},
		{"scenario", "gate", "preflight"},
		{"preflight", "unclean", "dirty"},
		{"preflight.tolerate", "canary", "probe-write"},
		{"phase", "gone", "deleted"},
		{"step", "cool", "settle"},
		{"wait", "gone", "deleted"},
		{"wait.are", "gone", "deleted"},
		{"objective.sli", "life", "lifecycle"},
		{"objective.labels", "life", "lifecycle"},
		{"published.measure", "life_*", "lifecycle_*"},
		{"published.measure", "lives_*", "lifecycles_*"},
		{"--set", "cool", "settle"}, // this and the next of examples/vm/contamination.yaml
		{"--set", "coolFor", "settleFor"},
	}
}

// renameFormer returns the present name of a word on a line, and warns of an old one.
func (d *decoder) renameFormer(in, word string, line int) string {
	for _, r := range formerWords() {
		now, former := r.presentName(word)
		if r.in == in && former {
			d.addWarning(line, "%q is now called %q", word, now)
			return now
		}
	}
	return word
}

// renamedKey is renamed for the names of fields.
func (d *decoder) renamedKey(k *yaml.Node, in place) string {
	return d.renameFormer(in.Name, k.Value, k.Line)
}

// addWarning adds a warning, once: each round of a repeat would say it again.
func (d *decoder) addWarning(line int, format string, args ...any) {
	file, line := placeOf(d.file, line, d.fragments)
	text := (&ValidationError{File: file, Line: line, Text: fmt.Sprintf(format, args...)}).Error()
	if !slices.Contains(d.warnings, text) {
		d.warnings = append(d.warnings, text)
	}
}

// setRenamed gives the values of --set whose parameters have other names since to
// those names, unless the file has a parameter of the old name.
func (d *decoder) setRenamed(parameters *yaml.Node, set map[string]string) map[string]string {
	out := maps.Clone(set)
	for _, r := range formerWords() {
		value, given := set[r.old]
		if r.in != "--set" || !given || strictyaml.Child(parameters, r.old) != nil || strictyaml.Child(parameters, r.now) == nil {
			continue
		}
		if _, both := set[r.now]; both {
			d.add(0, "--set %s: parameter %q is now called %q, and both are set", r.old, r.old, r.now)
			continue
		}
		d.addWarning(0, "--set %s: parameter %q is now called %q", r.old, r.old, r.now)
		delete(out, r.old)
		out[r.now] = value
	}
	return out
}

package kit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Reads are the variables that the templates of an import have read, by name.
type Reads struct {
	names map[string]bool
	whole bool // some template hands all of its variables to a function
}

// Add notes what one template reads. hidden are variables of its own, which stand in
// place of the given ones.
func (r *Reads) Add(names []string, whole bool, hidden map[string]any) {
	r.whole = r.whole || whole
	if r.names == nil {
		r.names = map[string]bool{}
	}
	for _, name := range names {
		if _, ok := hidden[name]; !ok {
			r.names[name] = true
		}
	}
}

// Unread lists which of the given variables no template has read, sorted; none where a
// template may have read any.
func Unread[V any](r *Reads, given map[string]V) (out []string) {
	if r.whole {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !r.names[name] {
			out = append(out, name)
		}
	}
	return out
}

// Known lists what was read, sorted, with other names that mean something.
func (r *Reads) Known(others ...string) []string {
	out := slices.AppendSeq(slices.Clone(others), maps.Keys(r.names))
	slices.Sort(out)
	return slices.Compact(out)
}

// shown is how many names one sentence lists.
const shown = 10

// UnreadFault says that nothing in a file reads a variable that --set gives it, and
// which names it may have been.
func UnreadFault(file, name, value string, known []string) string {
	if field, ok := strings.CutPrefix(name, "plane."); ok {
		return fmt.Sprintf("--set %s=%s: %s is a file of another tool and has no plane: write it as a scenario with `windtunnel import %[3]s -o scenario.yaml`, which takes --set plane.%[4]s", name, value, file, field)
	}
	if best := text.DidYouMean(name, known); best != "" {
		return fmt.Sprintf("--set %s=%s: nothing in %s reads %s%s", name, value, file, name, best)
	}
	return fmt.Sprintf("--set %s=%s: nothing in %s reads %[1]s; it reads %[4]s", name, value, file, ListSome(known))
}

// ListSome lists the first names, and says how many more there are.
func ListSome(names []string) string {
	if more := len(names) - shown; more > 0 {
		return strings.Join(names[:shown], ", ") + " and " + unit.Count(more, "more names")
	}
	return strings.Join(names, ", ")
}

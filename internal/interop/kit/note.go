package kit

import "fmt"

// Note says what of a file is not done as its own tool does it.
type Note struct {
	File    string // that the field stands in
	Line    int    // from 1; 0 when it is nowhere in particular
	Field   string // such as job.preLoadImages, or a measurement and its parameter
	Text    string // what is left out, or done otherwise
	Changes bool   // that changes the load or the verdict: the run can be unknown at best
}

// Where is the place of the field: "FILE:LINE: FIELD".
func (n Note) Where() string {
	if n.Line == 0 {
		return fmt.Sprintf("%s: %s", n.File, n.Field)
	}
	return fmt.Sprintf("%s:%d: %s", n.File, n.Line, n.Field)
}

// String is one line: "FILE:LINE: FIELD: TEXT".
func (n Note) String() string { return n.Where() + ": " + n.Text }

// Notes collects the notes of one import.
type Notes struct {
	list []Note
	at   map[string]int // of a field and a text: where in the list
}

// Add keeps a note, once for a field and a text. A note that changes the load
// or the verdict does so from then on.
func (n *Notes) Add(one Note) {
	key := one.Field + "\x00" + one.Text
	if i, ok := n.at[key]; ok {
		n.list[i].Changes = n.list[i].Changes || one.Changes
		return
	}
	if n.at == nil {
		n.at = map[string]int{}
	}
	n.at[key] = len(n.list)
	n.list = append(n.list, one)
}

// All returns the notes in the order in which they were added.
func (n *Notes) All() []Note { return n.list }

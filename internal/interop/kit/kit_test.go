package kit_test

import (
	"fmt"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/kit"
)

func Example() {
	fates := kit.Fields{{Name: "burst", Fate: kit.Noted, Usual: "1", Text: "objects are due evenly"}}
	var notes kit.Notes
	for line, burst := range []int{1, 20, 20} {
		if f := fates.Named("burst"); f.Asks(burst) {
			notes.Add(kit.Note{File: "job.yml", Line: line + 1, Field: "job.burst", Text: f.Text})
		}
	}
	for _, n := range notes.All() {
		fmt.Println(n)
	}
	// Output: job.yml:2: job.burst: objects are due evenly
}

// TestNoteChanges: a note that was added as a remark changes the verdict once
// it is added as one that does, and stays so.
func TestNoteChanges(t *testing.T) {
	var notes kit.Notes
	for _, changes := range []bool{false, true, false} {
		notes.Add(kit.Note{File: "f", Field: "a", Text: "b", Changes: changes})
	}
	if got := fmt.Sprint(notes.All(), notes.All()[0].Changes); got != "[f: a: b] true" {
		t.Error(got)
	}
}

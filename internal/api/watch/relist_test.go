package watch_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/watch"
)

func TestRelist(t *testing.T) {
	known := []string{"a", "b", "c"}
	var r watch.Relist[string]
	r.Add("a") // of a watch: no list is under way
	if got := r.End(slices.Values(known)); len(got) != 0 || r.Underway() {
		t.Errorf("without a list %v are deleted", got)
	}
	r.Begin()
	r.Add("b")
	r.Begin() // the list was broken off
	r.Add("a")
	r.Add("new")
	if got := r.End(slices.Values(known)); fmt.Sprint(got) != "[b c]" || r.Underway() {
		t.Errorf("%v are deleted, want b and c", got)
	}
	r.Begin()
	if got := r.End(slices.Values(known)); len(got) != 3 {
		t.Errorf("an empty list leaves %v deleted", got)
	}
}

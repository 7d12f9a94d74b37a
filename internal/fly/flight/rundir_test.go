package flight

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// TestRunsOfOneSecond holds that runs that begin in the same second get folders of their own.
func TestRunsOfOneSecond(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "app")
	got := make([]string, 4)
	var wait sync.WaitGroup
	for i := range got {
		wait.Go(func() { got[i] = filepath.Base(makeVacant(filepath.Join(dir, "20260102T030405Z"))) })
	}
	wait.Wait()
	slices.Sort(got)
	if want := []string{"20260102T030405Z", "20260102T030405Z-2", "20260102T030405Z-3", "20260102T030405Z-4"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

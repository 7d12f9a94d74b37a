package record_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A tail sees every record once, whatever part of the file is there when it looks.
func TestTailSeesEveryRecordOnce(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole.wt")
	w := repotest.Must(record.Create(whole))(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.Event(record.Event{Type: record.EventWarned, Text: name}) // each is a block
	}
	repotest.NoError(t, w.Close())
	raw := repotest.Must(os.ReadFile(whole))(t)
	path := filepath.Join(t.TempDir(), "growing.wt")
	grow := func(n int) {
		t.Helper()
		repotest.NoError(t, os.WriteFile(path, raw[:n], 0o600))
	}
	grow(3)
	if _, err := record.OpenTail(path, nil); !errors.Is(err, record.ErrNotRecords) {
		t.Errorf("a file without its header: %v", err)
	}
	grow(40)
	var seen []string
	tail := repotest.Must(record.OpenTail(path, func(*record.Stream) record.Visitor {
		return record.Visitor{Event: func(m record.Event) { seen = append(seen, m.Text) }}
	}))(t)
	news := 0
	for n := 40; n <= len(raw); n++ {
		grow(n)
		more := repotest.Must(tail.Next())(t)
		if more {
			news++
		}
	}
	if more, err := tail.Next(); more || err != nil {
		t.Errorf("at its end the tail has more: %v, %v", more, err)
	}
	if !slices.Equal(seen, []string{"a", "b", "c", "d"}) || news < 2 {
		t.Errorf("seen %q in %d goes", seen, news)
	}
	if err := errors.Join(tail.Close(), tail.Close()); err != nil {
		t.Errorf("close twice: %v", err)
	}
}

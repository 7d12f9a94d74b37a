package store_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// rewrite stores a key of a table n times, each time with so many bytes.
func rewrite(t *testing.T, table *store.Table, key string, n, size int) {
	t.Helper()
	for range n {
		repotest.Must(table.Put(key, table.Get(key), func(uint64) ([]byte, error) { return make([]byte, size), nil }))(t)
	}
}

// TestHistoryBytes forgets the oldest events of the table that keeps most, before their
// time has come.
func TestHistoryBytes(t *testing.T) {
	s := store.New(store.Options{Clock: clock.Start(), History: time.Hour, HistoryBytes: 10_100})
	large, small := s.Table("large"), s.Table("small")
	rewrite(t, small, "a", 5, 10)
	start := s.Version()
	rewrite(t, large, "a", 11, 1000) // ten of which were replaced
	if _, err := large.Since(start); err != nil {
		t.Errorf("10,000 bytes of history: %v", err)
	}
	rewrite(t, large, "a", 1, 1000)
	if _, err := large.Since(start); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("11,000 bytes of history: %v", err)
	}
	if _, err := large.List(store.Query{At: start}); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("a list of the past: %v", err)
	}
	if news, err := large.Since(s.Version() - 5); err != nil || len(news.Events) != 5 {
		t.Errorf("the last events: %v, %v", news.Events, err)
	}
	if news, err := small.Since(1); err != nil || len(news.Events) != 5 {
		t.Errorf("another table's events: %v, %v", news.Events, err)
	}
	if _, err := large.Remove(large.Get("a"), func(uint64) ([]byte, error) { return make([]byte, 20_000), nil }); err != nil {
		t.Fatal(err)
	}
	if news, err := large.Since(s.Version() - 1); err != nil || len(news.Events) != 1 {
		t.Errorf("an event of more bytes than the history has: %v, %v", news.Events, err)
	}
	s.Compact()
	last := s.Version()
	rewrite(t, large, "b", 11, 1000)
	if _, err := large.Since(last); err != nil {
		t.Errorf("10,000 bytes after all was forgotten: %v", err)
	}
}

// TestFormsOfLargeObjects keeps the forms of the last events only.
func TestFormsOfLargeObjects(t *testing.T) {
	table := store.New(store.Options{Clock: clock.Start(), History: time.Hour}).Table("a")
	const size = 1 << 20
	rewrite(t, table, "a", 32, size)
	news := repotest.Must(table.Since(1))(t)
	made := 0
	once := func(at int) string {
		return store.Once(news.Events[at], "form", func() string { made++; return strconv.Itoa(made) })
	}
	if a, b := once(0), once(0); a != "1" || b != "1" {
		t.Errorf("the form of an event among the last 32 MiB: made %d times", made)
	}
	rewrite(t, table, "a", 32, size)
	if a, b := once(0), once(0); a != "2" || b != "2" {
		t.Errorf("the form of an event before them: made %d times, want it once more", made)
	}
	rewrite(t, table, "a", 1, size)
	for at := range news.Events[1:] {
		once(1 + at)
	}
	if a := once(0); a != "2" {
		t.Errorf("the form of an event after 31 others: %s", a)
	}
	rewrite(t, table, "a", 1, size)
	all := repotest.Must(table.Since(news.Version))(t)
	store.Once(all.Events[0], "form", func() string { return "" })
	if a := once(0); a == "2" {
		t.Errorf("the form of an event after 32 others is still kept")
	}
}

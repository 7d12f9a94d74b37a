package repotest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// spy is a test whose failures are looked at.
type spy struct {
	testing.TB
	failed bool
}

func (s *spy) Helper() {}

func (s *spy) Errorf(string, ...any) { s.failed = true }

func (s *spy) Fatalf(string, ...any) { s.failed = true }

func (s *spy) Fatal(...any) { s.failed = true }

// TestMust holds that a value passes, and that an error ends the test.
func TestMust(t *testing.T) {
	for _, err := range []error{nil, os.ErrNotExist} {
		s := &spy{TB: t}
		if got := repotest.Must("value", err)(s); got != "value" || s.failed != (err != nil) {
			t.Errorf("%v: %q, failed is %v", err, got, s.failed)
		}
	}
}

// TestEqual holds what is equal: what reflect says, and an empty slice and none.
func TestEqual(t *testing.T) {
	for _, c := range []struct {
		got, want any
		fails     bool
	}{{1, 1, false}, {1, 2, true}, {[]int{}, []int(nil), false}, {[]int{1}, []int(nil), true}, {map[string]int{}, map[string]int(nil), false}} {
		s := &spy{TB: t}
		if repotest.Equal(s, c.got, c.want, "a %s", "value"); s.failed != c.fails {
			t.Errorf("%v and %v: failed is %v", c.got, c.want, s.failed)
		}
	}
}

func TestGoldenFailsOnADifference(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	repotest.NoError(t, os.WriteFile(path, []byte("a\nb\n"), 0o600))
	for got, fails := range map[string]bool{"a\nb\n": false, "a\nc\n": true, "a\n": true, "a\nb\nc\n": true} {
		s := &spy{TB: t}
		if repotest.Golden(s, path, got); s.failed != fails {
			t.Errorf("%q: failed is %v", got, s.failed)
		}
	}
}

func TestTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	repotest.NoError(t, os.WriteFile(path, []byte("# words\nsay loud times=2\nhello\n----\n2: hello\n\nnothing\n----\n"), 0o600))
	var played []repotest.Step
	repotest.Trace(t, path, func(_ *testing.T, s repotest.Step) string {
		if played = append(played, s); s.Name == "nothing" {
			return ""
		}
		return s.Args["times"] + ": " + s.Input
	})
	if len(played) != 2 || len(played[0].Words) != 1 || played[0].Words[0] != "loud" {
		t.Errorf("played %+v", played)
	}
}

func TestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		repotest.Eventually(t, "three seconds later", func() bool { return time.Since(begun) > 3*time.Second })
		if took := time.Since(begun); took > 3200*time.Millisecond {
			t.Errorf("seen after %v", took)
		}
		s := &spy{TB: t}
		if repotest.Eventually(s, "never", func() bool { return false }); !s.failed {
			t.Error("waited for ever")
		}
	})
}

// told is a test of which the log and the cleanups are kept.
type told struct {
	spy
	log      []string
	cleanups []func()
}

func (s *told) Logf(format string, args ...any) { s.log = append(s.log, fmt.Sprintf(format, args...)) }

func (s *told) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *told) Failed() bool { return s.failed }

func TestRobustTellsItsSeed(t *testing.T) {
	t.Setenv("WINDTUNNEL_ROBUST", "1")
	seeds := map[uint64]bool{}
	for range 3 {
		t.Setenv("WINDTUNNEL_SEED", "")
		s := &told{spy: spy{TB: t}}
		seed := repotest.Robust(s)
		seeds[seed] = true
		s.failed = true
		for _, f := range s.cleanups {
			f()
		}
		if want := []string{fmt.Sprint("seed ", seed), fmt.Sprint("the chances of this failure: WINDTUNNEL_SEED=", seed)}; !slices.Equal(s.log, want) {
			t.Errorf("told %q, want %q", s.log, want)
		}
	}
	if len(seeds) == 1 {
		t.Error("three times the same seed")
	}
	t.Setenv("WINDTUNNEL_SEED", "17")
	if seed := repotest.Robust(&told{spy: spy{TB: t}}); seed != 17 {
		t.Errorf("seed %d", seed)
	}
}

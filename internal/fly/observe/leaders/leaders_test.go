package leaders

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A trace says what a process answers (+ it leads, -: it does not) at 1, 2, 3 ...
func TestThinned(t *testing.T) {
	for trace, want := range map[string]string{
		"":       "",
		"+":      "1+",
		"+++":    "1+ 3+",
		"+++--":  "1+ 3+ 4- 5-",
		"--+-++": "1- 2- 3+ 4- 5+ 6+",
		"+-":     "1+ 2-",
	} {
		var answers thinned
		var got []string
		note := func(all []reading) {
			for _, r := range all {
				got = append(got, fmt.Sprintf("%d%c", r.at, "-+"[map[bool]int{true: 1}[r.leads]]))
			}
		}
		for i, c := range trace {
			note(answers.add(reading{clock.Time(i + 1), c == '+'}))
		}
		note(answers.rest())
		note(answers.rest()) // nothing twice
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s, want %s", trace, text, want)
		}
	}
}

// Candidates are asked until the end, and the records have what they answered.
func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), record.StreamFile)
	w, err := record.Create(path)
	repotest.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	Watch(ctx, w, clock.Start(), []Candidate{
		{"a", time.Millisecond, func(context.Context) (bool, error) {
			if asked++; asked == 6 {
				cancel()
			}
			return asked >= 3, nil
		}},
		{"b", time.Hour, func(context.Context) (bool, error) { return true, errors.New("nobody knows") }},
	})
	repotest.NoError(t, w.Close())
	got := map[string]string{}
	_, err = record.Read(path, func(s *record.Stream) record.Visitor {
		return record.Visitor{Sample: func(v record.Sample) {
			got[s.Series[v.Series].Target] += fmt.Sprint(v.Value)
		}}
	})
	// The sixth answer comes after the end.
	if err != nil || got["a"] != "0011" || got["b"] != "" {
		t.Errorf("%v, %v", got, err)
	}
}

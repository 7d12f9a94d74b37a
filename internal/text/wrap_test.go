package text_test

import (
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/text"
)

func TestWrap(t *testing.T) {
	for in, want := range map[string][]string{
		"":                   {""},
		"one two":            {"one two"},
		"one two three":      {"one two", "three"},
		"≥ 1 ≤ 2":            {"≥ 1 ≤ 2"},
		"a incomprehensible": {"a", "incomprehensible"},
	} {
		if got := text.Wrap(in, 8); !slices.Equal(got, want) {
			t.Errorf("%q: %q", in, got)
		}
	}
}

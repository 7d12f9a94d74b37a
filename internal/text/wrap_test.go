package text_test

import (
	"slices"
	"strings"
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

func TestPairs(t *testing.T) {
	if got := strings.Join(text.Pairs(map[string]string{"B": "2", "A": "1"}), " "); got != "A=1 B=2" {
		t.Errorf("%q", got)
	}
}

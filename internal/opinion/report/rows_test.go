package report

import (
	"slices"
	"testing"
)

func TestCommandLineIsWhatAShellReads(t *testing.T) {
	got := commandLine([]string{"windtunnel", "run", "a b.yaml", "--set", "x=it's", ""})
	if want := `windtunnel run 'a b.yaml' --set 'x=it'\''s' ''`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		s    string
		want []string
	}{
		{"", []string{""}},
		{"one two three", []string{"one two", "three"}},
		{"abcdefghijkl xy", []string{"abcdefgh", "ijkl xy"}},
		{"日本語日本語", []string{"日本語日", "本語"}},
	} {
		if got := wrapWords(c.s, 8); !slices.Equal(got, c.want) {
			t.Errorf("wrap(%q) = %q, want %q", c.s, got, c.want)
		}
	}
}

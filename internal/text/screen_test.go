package text_test

import (
	"bytes"
	"testing"

	"github.com/windtunnel/windtunnel/internal/text"
)

func TestScreen(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\nand more": "plain\ttext\nand more",
		"\x1b[32mpass\x1b[0m":   "\x1b[32mpass\x1b[0m",
		"a\x1b[2Jb":             "a\ufffd[2Jb",
		"a\x1b]0;title\ab":      "a\ufffd]0;title\ufffdb",
		"rm\rls":                "rm\ufffdls",
		"\u009b31mred":          "\ufffd31mred",
		"abc\u202edef":          "abc\ufffddef",
		"bad \xff byte":         "bad \ufffd byte",
		"\x1b":                  "\ufffd",
		"häß":                   "häß",
	} {
		var whole, pieces bytes.Buffer
		if n, err := text.NewScreen(&whole).Write([]byte(in)); n != len(in) || err != nil {
			t.Errorf("%q: %d, %v", in, n, err)
		}
		if whole.String() != want {
			t.Errorf("%q: %q, want %q", in, whole.String(), want)
		}
		if in == "\x1b[32mpass\x1b[0m" {
			continue // a colour comes in one piece
		}
		s := text.NewScreen(&pieces)
		for i := range len(in) {
			if _, err := s.Write([]byte{in[i]}); err != nil {
				t.Fatal(err)
			}
		}
		if pieces.String() != want {
			t.Errorf("%q byte by byte: %q, want %q", in, pieces.String(), want)
		}
	}
	var out bytes.Buffer
	if err := text.NewScreen(&out).Lead("\r\x1b[K", "a\rb"); err != nil || out.String() != "\r\x1b[Ka\ufffdb" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

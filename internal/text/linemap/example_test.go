package linemap_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"text/template"

	"github.com/windtunnel/windtunnel/internal/text/linemap"
)

var errLarge = errors.New("too large")

func Example() {
	text, err := linemap.Execute(template.New("config"), "a: 1\n{{ if .No }}\nb: 2\n{{ end }}c: 3\n", map[string]bool{}, 1000, errLarge)
	if err != nil {
		fmt.Println(err.Line, err.Text)
		return
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text.Bytes)), "\n") {
		fmt.Println(text.Line(i+1), line)
	}
	// Output:
	// 1 a: 1
	// 4 c: 3
}

func TestExecuteErrors(t *testing.T) {
	for text, want := range map[string]string{
		"a\n{{ .A":                   `2 unclosed action`,
		"a\n\n{{ index 1 2 }}":       `3 at <index 1 2>: error calling index: can't index item of type int`,
		"a\x00":                      "1 it is not a text: it has zero bytes",
		"0123456789abcdef, and more": "1 too large",
	} {
		_, err := linemap.Execute(template.New("t"), text, nil, 20, errLarge)
		if err == nil || fmt.Sprint(err.Line, " ", err) != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if text := linemap.Inside([]byte("a\nb\n"), 7); text.Line(2) != 7 || text.Line(0) != 0 {
		t.Error("a text inside of a line stands on that line")
	}
}

package text_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/text"
)

func ExampleTable_Text() {
	var b strings.Builder
	text.Table{Head: []string{"pods", "passed"}, Rows: [][]string{{"100", "3"}, {"20,000", "–"}}, Left: 1}.Text(&b)
	fmt.Print(b.String())
	// Output:
	// PODS    PASSED
	// 100          3
	// 20,000       –
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	text.Table{Head: []string{"a", "b"}, Rows: [][]string{{"x|y", "<b>"}}, Left: 1}.Markdown(&b)
	if want := "| a | b |\n|---|---:|\n| x\\|y | &lt;b&gt; |\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestTextsDoNoHarm(t *testing.T) {
	if got := text.Clean("a\x1b[31m\nb\u202ec"); got != "a�[31m b�c" {
		t.Errorf("%q", got)
	}
	for _, bad := range []string{"[a](", "<img", " @all", "`x`"} {
		if strings.Contains(text.Escape("[a](http://x) <img src=x> @all `x`"), bad) {
			t.Errorf("%q is left", bad)
		}
	}
}

package limit_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"text/template"

	"github.com/Masterminds/sprig/v3"

	"github.com/windtunnel/windtunnel/internal/text/limit"
)

// execute executes a template with sprig's functions and bounds.
func execute(text string) (string, error) {
	t, err := template.New("t").Funcs(limit.Functions(sprig.TxtFuncMap())).Parse(text)
	if err != nil {
		return "", err
	}
	limit.Loops(t)
	var out strings.Builder
	err = t.Execute(&limit.Writer{To: &out}, map[string]any{"s": "abc", "l": []any{"x", "y"}})
	return out.String(), err
}

func TestMuchOfLittle(t *testing.T) {
	double := func(start, step string) string {
		return "{{$x := " + start + "}}{{range until 60}}{{$x = " + step + "}}{{end}}{{$x}}"
	}
	for _, tt := range []struct {
		text string
		want error
	}{
		{`{{repeat 2000000000 "x"}}`, limit.ErrTooLarge},
		{`{{until 2000000000}}`, limit.ErrTooLarge},
		{`{{untilStep 0 2000000000 1}}`, limit.ErrTooLarge},
		{`{{randAlphaNum 2000000000}}`, limit.ErrTooLarge},
		{`{{indent 2000000000 "x"}}`, limit.ErrTooLarge},
		{`{{printf "%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d" 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1}}`, limit.ErrTooLarge},
		{`{{$s := repeat 100000 "x"}}{{replace "x" $s $s}}`, limit.ErrTooLarge},
		{`{{$s := repeat 100000 "x"}}{{regexReplaceAll "x" $s $s}}`, limit.ErrTooLarge},
		{`{{join (repeat 100000 "x") (until 20000)}}`, limit.ErrTooLarge},
		{double(`"x"`, `print $x $x`), limit.ErrTooLarge},
		{double(`"x"`, `printf "%s%s" $x $x`), limit.ErrTooLarge},
		{double(`"x"`, `cat $x $x`), limit.ErrTooLarge},
		{double(`"\""`, `quote $x`), limit.ErrTooLarge},
		{double(`list 1`, `list $x $x`), limit.ErrTooLarge},
		{double(`list 1`, `concat $x $x`), limit.ErrTooLarge},
		{double(`dict "a" 1`, `dict "a" $x "b" $x`), limit.ErrTooLarge},
		{`{{$d := dict}}{{$e := set $d "d" $d}}{{$d}}`, limit.ErrTooLarge},
		{`{{$l := until 500000}}{{range $l}}{{range $l}}{{end}}{{end}}`, limit.ErrTooLong},
		{chain(24) + `{{template "tA"}}`, limit.ErrTooLong},
		{`{{genPrivateKey "rsa"}}`, limit.ErrTooDear},
		{`{{genCA "x" 1}}`, limit.ErrTooDear},
		{`{{bcrypt "x"}}`, limit.ErrTooDear},
		{`{{htpasswd "x" "y"}}`, limit.ErrTooDear},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := execute(tt.text)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, tt.want) {
			t.Errorf("%.60s: %d bytes, %v; want %v", tt.text, len(out), err, tt.want)
		}
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 500 {
			t.Errorf("%.60s: %d MiB", tt.text, mib)
		}
	}
}

// chain defines templates of which each uses the next one twice.
func chain(n int) string {
	var b strings.Builder
	for i := range n {
		next := "t" + string(rune('B'+i))
		if i == n-1 {
			next = ""
		}
		name := "t" + string(rune('A'+i))
		b.WriteString(`{{define "` + name + `"}}`)
		if next != "" {
			b.WriteString(`{{template "` + next + `"}}{{template "` + next + `"}}`)
		}
		b.WriteString(`{{end}}`)
	}
	return b.String()
}

// TestUsualTemplates are what they are without bounds.
func TestUsualTemplates(t *testing.T) {
	for text, want := range map[string]string{
		`{{repeat 3 .s}}`: "abcabcabc",
		`{{range $i, $x := .l}}{{$i}}{{$x}} {{end}}`:       "0x 1y ",
		`{{range .none}}{{else}}none{{end}}`:               "none",
		`{{print 1 2}} {{println "a"}}{{printf "%03d" 7}}`: "1 2 a\n007",
		`{{join "," .l}} {{.s | upper | quote}}`:           `x,y "ABC"`,
		`{{replace "b" "" .s}}{{index .l 1}}`:              "acy",
		`{{define "a"}}[{{.}}]{{end}}{{template "a" 1}}`:   "[1]",
		`{{dict "a" (list 1 2) | toJson}}`:                 `{"a":[1,2]}`,
		`{{default "d" .none}}{{ternary 1 2 true}}`:        "d1",
		`{{html "<a>"}}`: "&lt;a&gt;",
	} {
		if got, err := execute(text); err != nil || got != want {
			t.Errorf("%s gives %q, %v", text, got, err)
		}
	}
}

package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// templates try what templates of stages do, in the ways that YAML has.
var templates = []string{
	"a: {{ .x | Quote }}\nb: {{ .n }}\nc: {{ .x }}",
	"a: '{{ .x }}'\nb: \"{{ .n }}\"\nc: \"{{ .x }}\"",
	"a: |\n  {{ .x }}\nb: |-\n  {{ .x | Quote }}\nc: >-\n  {{ .n }}",
	"{a: {{ .x | Quote }}, b: [{{ .n }}, {{ .x | toJson }}], c: {{ .all | toJson }} }",
	"{{ .x | Quote }}: 1\nb: {{ .n }}",
	"{{ .x }}: 1",
	"a: x-{{ .x }}\nb: {{ .n }}.5\nc: 0{{ .n }}\nd: {{ .n }}m",
	"a:\n{{ YAML .all 1 }}",
	"a:\n  {{ YAML .all 1 }}\n  z: 1",
	"{{ YAML .all }}",
	"a: {{ YAML .all 2 }}\nb: 1",
	"a: '{{ .all | toJson }}'",
	"a: # {{ .x | Quote }}\n  1",
	"a: {{ .x | Quote }}\na: {{ .n }}",
	"a: &b {{ .x | Quote }}\nc: *b",
	"a: !!str {{ .n }}\nb: !!str {{ .x | Quote }}",
	`{"a": {{ .x | Quote }},  "b": {{ .n }}, "c": {{ .all | toJson }}}`,
	`{"a": "{{ .x }}", "a": {{ .n | toJson }}}`,
	"{{ range $i, $v := .list }}\n- {at: {{ $i }}, is: {{ $v | Quote }}}{{ else }}none{{ end }}",
	"{{ with .none }}{{ . }}{{ else }}a: {{ .x | Quote }}{{ end }}",
	"a: {{ or .none .x | Quote }}\nb: {{ and .x .n }}\nc: {{ not .x }}\nd: {{ default 3 .none }}",
	"a: {{ eq .x \"true\" }}\nb: {{ ne .none \"a\" }}\nc: {{ eq .n .n \"5\" }}\nd: {{ len .list }}",
	"a: {{ if eq .x \"a\" }}1{{ else if .none }}2{{ else }}{{ printf \"%v-%s\" .n .x | Quote }}{{ end }}",
	"{{ $d := dict \"k\" .x }}{{ $d = set $d \"l\" .n }}a: {{ $d | toJson }}\nb: {{ $d.k | Quote }}\nc: {{ hasKey $d \"m\" }}",
	"{{ $q := .x | Quote }}a: {{ $q }}\nb: {{ printf \"[%s]\" $q }}\nc: {{ Now }}\nd: {{ Now | Quote }}",
	"a: {{ index .all \"k\" | Quote }}\nb: {{ first .list | Quote }}\nc: {{ index .list 1 | Quote }}",
	"a: {{ .all.k.deeper | Quote }}",
	"a: {{ .none }}\nb: {{ .null | Quote }}\nc: {{ .yes }}",
	"a: {{ .x | upper | Quote }}\nb: {{ add1 .n }}\nc: {{ .list | join \",\" | Quote }}",
	"a: {{ . | toJson }}",
	"a: gzqhole0wkz\nb: {{ .x | Quote }}",
	"a: 736152000\nb: {{ .n }}",
}

// TestProgramIsGeneral plays templates on odd values: what is compiled gives the
// bytes of text/template and YAML, or fails as they do.
func TestProgramIsGeneral(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	compiled := map[string]int64{}
	for _, text := range templates {
		tmpl, err := Compile(text)
		if err != nil {
			t.Fatal(text, err)
		}
		for range 150 {
			same(t, tmpl, text, oddObject(rng))
		}
		compiled[text], _, _ = tmpl.Counts()
	}
	if n := compiled[templates[0]]; n < 60 {
		t.Errorf("%s: only %d are compiled", templates[0], n)
	}
}

func FuzzProgram(f *testing.F) {
	f.Add("a: {{ .x }}", "b", "5", 3)
	f.Add("{{ range .list }}\n- {{ . | Quote }}{{ end }}", "true", "-0", 7)
	f.Fuzz(func(t *testing.T, text, x, n string, seed int) {
		tmpl, err := Compile(text)
		if err != nil || !json.Valid([]byte(n)) || left.MatchString(text) || strings.Contains(text, "rand") {
			t.Skip()
		}
		o := oddObject(rand.New(rand.NewPCG(uint64(seed), 1)))
		if same(t, tmpl, text, o); strings.Trim(n, "0123456789") == "" {
			o["n"] = json.Number(n)
		}
		o["x"] = x
		same(t, tmpl, text, o)
		same(t, tmpl, text, o)
	})
}

func same(t *testing.T, tmpl *Template, text string, o map[string]any) {
	t.Helper()
	env := &Env{Now: time.Unix(1700000000, 5).UTC(), Version: "v1"}
	want, general := tmpl.executeTemplate(nil, object.Of(o), env)
	for range 2 { // the second time of a shape that is known
		got, err := tmpl.JSON(o, env)
		if fmt.Sprint(err) != fmt.Sprint(general) || !bytes.Equal(got, want) {
			t.Fatalf("%s\nof %v\ncompiled %s, %v\ngeneral  %s, %v", text, o, got, err, want, general)
		}
	}
}

func oddObject(rng *rand.Rand) map[string]any {
	texts := []string{
		"a", "b", "word", "true", "no", "null", "~", "y", "1e3", "0x1f", "-5", "5", "", " ", " a", "a ", "a: b", "a:b", "- a", "'", `"`, "{}", "[", "# a", "a # b", "a\nb",
		"\n", "a\tb", `\`, "%", "@a", "&a", "*a", "!!str a", "|", ">", "2026-01-02", "2026-01-02T03:04:05Z", "<a&b>", "ü", "\u0085", "\u2028", "\ufeff", "\x7f", "\x01", "\xff",
		"gzqhole0wkz", "gzqhole1wkz", "736152000", "736152001", "Infinity", ".inf", "<<", "=", "1_000", "1:30", "a,b", "a]b",
	}
	numbers := []json.Number{"0", "1", "17", "-3", "1.5", "1e6", "999999999999999", "12345678901234567890", "010", "0.0"}
	text := func() string {
		if rng.IntN(2) == 0 {
			return "w" + fmt.Sprint(rng.IntN(100))
		}
		return texts[rng.IntN(len(texts))]
	}
	number := func() json.Number {
		if rng.IntN(2) == 0 {
			return json.Number(fmt.Sprint(rng.IntN(1000)))
		}
		return numbers[rng.IntN(len(numbers)-2)]
	}
	o := map[string]any{"x": text(), "n": number(), "null": nil, "yes": rng.IntN(2) == 0, "list": []any{}}
	for range rng.IntN(4) {
		o["list"] = append(o["list"].([]any), text())
	}
	o["all"] = map[string]any{"k": text(), text(): number(), "deep": map[string]any{"list": []any{text(), nil, true}, "none": map[string]any{}}}
	return o
}

// TestSpacing: another way to write a template is as good.
func TestSpacing(t *testing.T) {
	for _, text := range []string{
		"phase: Running\nname: {{ .x | Quote }}", "phase:   Running\nname: {{.x|Quote}}  # so", "{phase: Running, name: {{ Quote .x }}}", "name: {{ $x := .x }}{{ Quote $x }}\nphase: 'Running'",
	} {
		tmpl := repotest.Must(Compile(text))(t)
		for i := range 10 {
			got, err := tmpl.JSON(map[string]any{"x": fmt.Sprint(i)}, &Env{})
			if want := fmt.Sprintf(`{"name":"%d","phase":"Running"}`, i); err != nil || string(got) != want {
				t.Errorf("%s: %s, %v", text, got, err)
			}
		}
		if compiled, executed, why := tmpl.Counts(); tmpl.Slow() != "" || compiled != 9 || executed != 0 {
			t.Errorf("%s: slow %q, %d compiled, %d executed, %s", text, tmpl.Slow(), compiled, executed, why)
		}
	}
}

package template

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Name }}
  namespace: {{ .Namespace }}
  annotations:
    index: "{{ .Index }}"
spec:
  replicas: {{ .replicas }}
  selector:
    matchLabels:
      app: {{ .Name }}
  template:
    metadata:
      labels:
        app: {{ .Name }}
        windtunnel.dev/group: {{ .Group }}
    spec:
      containers:
      - name: pause
        image: registry.k8s.io/pause:3.10
        resources: {requests: {cpu: 1m, memory: 10M}}
`

func compile(t testing.TB, text string) *Template {
	t.Helper()
	return repotest.Must(Compile("body.yaml", text, 1, Windtunnel()))(t)
}

// why returns why objects like v are not made of segments.

func TestRender(t *testing.T) {
	with := map[string]any{"replicas": int64(30)}
	c := compile(t, deployment)
	v := Vars{Name: "web-7", Namespace: "density-1", Group: "saturation", Index: 7, Seed: 1, With: with}
	got := repotest.Must(c.Render([]byte("before "), v))(t)
	want := `before {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"index":"7"},"name":"web-7","namespace":"density-1"},` +
		`"spec":{"replicas":30,"selector":{"matchLabels":{"app":"web-7"}},"template":{"metadata":{"labels":{"app":"web-7","windtunnel.dev/group":"saturation"}},` +
		`"spec":{"containers":[{"image":"registry.k8s.io/pause:3.10","name":"pause","resources":{"requests":{"cpu":"1m","memory":"10M"}}}]}}}}`
	if string(got) != want {
		t.Errorf("Render:\n got %s\nwant %s", got, want)
	}
	if c.Kind() != "Deployment" || c.APIVersion() != "apps/v1" {
		t.Errorf("it is %s %s", c.APIVersion(), c.Kind())
	}
	if why := c.WhyExecuted(v); why != "" {
		t.Errorf("no segments: %s", why)
	}
}

// TestPaths says for each kind of template whether its objects are made of
// segments, and that both ways give the same bytes for ordinary and odd values.
func TestPaths(t *testing.T) {
	const top = "apiVersion: v1\nkind: ConfigMap\n"
	tests := []struct {
		text string
		fast bool
	}{
		{"metadata: {name: {{ .Name }}, namespace: {{ .Namespace }}}", true},
		{"metadata: {name: \"{{ .Name }}\"}", true},
		{"metadata: {name: {{ .Name | quote }}}", true},
		{"metadata: {name: {{ quote .Name }}}", true},
		{"metadata: {name: {{ $.Name }}}", true},
		{"metadata: {name: {{ printf \"%s-%d\" .Name .Index }}}", true},
		{"metadata: {name: {{ printf \"%5s\" .Name }}}", false},
		{"data: {a: {{ .Index }}}", true},
		{"data: {a: '{{ .Index }}'}", true},
		{"data: {a: node-{{ .Index }}}", true},
		{"data: {a: '{{ .Call }}', b: {{ .Call }}}", true},
		{"data: {a: {{ mod .Call 10 }}}", false},
		{"data: {a: {{ .Group }}, b: {{ .Seed }}, c: {{ add .Seed 1 }}}", true},
		{"data:\n  a: |\n    some text with {{ .Name }}\n    and {{ .Index }} in it\n", true},
		{"{{ if eq .Group \"g\" }}data: {a: {{ .Name }}}{{ end }}", true},
		{"data:\n{{ range until 3 }}  k{{ . }}: {{ $.Name }}-{{ . }}\n{{ end }}", true},
		{"data: {a: {{ randAlpha 8 }}, b: {{ randInt 5 900 }}, c: {{ payload 100 }}, d: \"{{ randAlpha 3 }}x\"}", false}, // "???x": too short
		{"data: {a: {{ randAlpha 8 }}, b: {{ randInt 5 900 }}, c: {{ payload 100 }}, d: id-{{ randAlpha 3 }}}", true},
		{"data: {a: {{ randAlpha 8 | quote }}, b: {{ .size }}, c: {{ payload .size }}, d: {{ randInt -5 5 }}}", true},
		{"data: {a: {{ randAlpha 3 }}}", false},
		{"data: {a: {{ payload \"1Ki\" | b64enc }}}", false},
		// The number may be read as part of another one.
		{"data: {a: 0{{ .Index }}}", false},
		{"data: {a: 0x{{ .Index }}}", false},
		{"data: {a: 1e{{ .Index }}}", false},
		{"data: {a: {{ .Index }}.5}", false},
		{"data: {a: {{ .Index }}{{ .Index }}}", false},
		{"data: {a: 12:{{ .Index }}}", false},
		{"data: {a: 2001-01-{{ .Index }}}", false},
		{"data: {a: !!float {{ .Index }}}", false},
		// The value decides about more than its own place.
		{"data: {{ if eq .Index 3 }}{a: b}{{ else }}{c: d}{{ end }}", false},
		{"data: {a: {{ mod .Index 10 }}}", false},
		{"data: {a: {{ len .Name }}}", false},
		{"data: {a: {{ upper .Name }}}", false},
		{"data: {{ $n := .Name }}{a: {{ $n }}}", false},
		{"data: {{ with . }}{a: {{ .Name }}}{{ end }}", false},
		{"data: {{ with $ }}{a: {{ .Name }}}{{ end }}", false},
		{"data: {a: {{ index . \"Name\" }}}", false},
		{"data: {a: {{ (.Name) | upper }}}", false},
		{"{{ define \"x\" }}{a: {{ .Name }}}{{ end }}data: {{ template \"x\" . }}", false},
		{"data:\n{{ range until .Index }}  k{{ . }}: v\n{{ end }}", false},
		{"data: { {{ .Name }}: v, k: v, web: v}", false},
		{"data: {a: b} # {{ .Name }}", false},
		{"data: {a: \"\\x{{ .Index }}\"}", false},
		{"data: {a: &{{ .Name }} v}", false},
		{"data:\n  a: |{{ .Index }}\n    text", false},
		{"data: {a: {{ dict \"n\" .Name | toJson }}}", false},
	}
	names := []string{"web-0", "on", "n", "null", "1", "0x10", "1e3", "a-b", "on-1", "default", "test", "x: y", "tr", `a"b`, "é", "-", ""}
	for _, tt := range tests {
		c := compile(t, top+tt.text)
		v := Vars{Name: "web-0", Namespace: "ns-1", Group: "g", Seed: 7, With: map[string]any{"size": int64(64)}}
		if why := c.WhyExecuted(v); (why == "") != tt.fast {
			t.Errorf("%s: segments = %v (%s), want %v", tt.text, why == "", why, tt.fast)
		}
		for i, n := range names {
			v.Name, v.Namespace, v.Index, v.Call = n, names[len(names)-1-i], i*i*7, i
			same(t, c, v)
			v.Namespace = "ns-1"
			same(t, c, v)
		}
	}
}

// same fails when Render and the general way differ.
func same(t *testing.T, c *Template, v Vars) {
	t.Helper()
	fast, ferr := c.Render(nil, v)
	slow, serr := c.Execute(nil, v)
	if !bytes.Equal(fast, slow) || fmt.Sprint(ferr) != fmt.Sprint(serr) {
		t.Fatalf("%+v:\nfast %s %v\nslow %s %v", v, fast, ferr, slow, serr)
	}
}

// TestPathsAgree makes templates from pieces at random.
func TestPathsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(s ...string) string { return s[rng.IntN(len(s))] }
	values := []string{"{{ .Name }}", "{{ .Namespace }}", "{{ .Index }}", "{{ randAlpha 2 }}", "{{ randAlpha 7 }}", "{{ randInt 0 12 }}",
		"{{ .Name | quote }}", "{{ .Group }}", "{{ .a }}", "{{ .b.c }}", "{{ randInt -3 3 }}", "{{ .Index | quote }}"}
	literals := []string{"", "", "a", "0", "-", ".", "0x", "e", "n", "tr", "ue", " ", ": ", "_", "1", "'", `"`, "web-", "/", "#", " #", "~", "o", "[", "]", ",", "\\"}
	fast, total := 0, 0
	for range 300 {
		var b strings.Builder
		b.WriteString("apiVersion: v1\nkind: K\nmetadata:\n  name: {{ .Name }}\nspec:\n")
		for k := range 1 + rng.IntN(3) {
			fmt.Fprintf(&b, "  k%d: ", k)
			for range 1 + rng.IntN(3) {
				b.WriteString(pick(literals...) + pick(values...) + pick(literals...))
			}
			b.WriteString("\n")
		}
		c := compile(t, b.String())
		with := map[string]any{"a": true, "b": map[string]any{"c": "text"}}
		for j := range 8 {
			v := Vars{Name: pick("web", "l", "on", "n", "us", "e", "k-1", "a-1", "test") + pick("", "-1", "5", "-x"), Namespace: pick("u", "ns-2", "default", "3"),
				Group: "g", Index: j * j * 7, Seed: uint64(rng.IntN(3)), With: with}
			same(t, c, v)
			total++
			if c.WhyExecuted(v) == "" {
				fast++
			}
		}
	}
	t.Logf("%d of %d objects had segments", fast, total)
	if fast < total/20 {
		t.Errorf("only %d of %d objects had segments", fast, total)
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	const text = "apiVersion: v1\nkind: K\na: {{ randAlpha 20 }}\nb: {{ randInt 0 1000000 }}\nc: {{ payload 3000 }}\nd: {{ randAlpha 20 }}"
	render := func(seed uint64, i int) string {
		out := repotest.Must(compile(t, text).Render(nil, Vars{Name: "n", Index: i, Seed: seed}))(t)
		return string(out)
	}
	seen := map[string]bool{}
	for i := range 50 {
		for seed := range uint64(4) {
			a := render(seed, i)
			if a != render(seed, i) {
				t.Fatalf("seed %d, object %d: two bodies", seed, i)
			}
			if seen[a] {
				t.Fatalf("seed %d, object %d: the body of another object", seed, i)
			}
			seen[a] = true
		}
	}
	// Written down, so that a later version that changes them is noticed: runs
	// of the same seed would no longer compare.
	const want = `{"a":"jmuurtstitlklpvgrhvi","apiVersion":"v1","b":688438,"c":"`
	if got := render(1, 0); !strings.HasPrefix(got, want) {
		t.Errorf("got %.60s, want %s", got, want)
	}
}

func TestRandomRange(t *testing.T) {
	counts := map[string]int{}
	for i := range 3000 {
		counts[string(random{call: 1, from: -1, to: 2}.appendValue(nil, 9, i))]++
	}
	for _, k := range []string{"-1", "0", "1"} {
		if counts[k] < 850 || counts[k] > 1150 {
			t.Errorf("%s came %d times of 3000", k, counts[k])
		}
	}
	if len(counts) != 3 {
		t.Errorf("values %v", counts)
	}
	if got := (random{letters: 37}).appendValue(nil, 1, 1); len(got) != 37 {
		t.Errorf("%d letters, want 37", len(got))
	}
}

func TestErrors(t *testing.T) {
	const top = "apiVersion: v1\nkind: K\n"
	for _, tt := range []struct{ text, want string }{
		{top + "{{ .x", `f.yaml:12: unclosed action`},
		{top + "a: {{ nope }}", `f.yaml:12: function "nope" not defined`},
		{top + "a: {{ now }}", `f.yaml:12: function "now" not defined`},
		{top + "a: {{ env \"HOME\" }}", `f.yaml:12: function "env" not defined`},
		{top + "a: 1\nb: {{ .nme }}", `f.yaml:13: object "web-1": at <.nme>: map has no entry for key "nme"; the variables are .Name .Namespace .Index .Replica .Call .Group .Seed .size`},
		{top + "a: {{ fail \"no\" }}", `f.yaml:12: object "web-1": at <fail "no">: error calling fail: no`},
		{top + "a: {{ randInt 5 5 }}", `f.yaml:12: object "web-1": at <randInt 5 5>: error calling randInt: randInt 5 5: the second number is not above the first`},
		{top + "a: {{ payload \"x\" }}", `f.yaml:12: object "web-1": at <payload "x">: error calling payload: payload x: not a size such as 1000 or 10Ki`},
		{top + "a: {{ payload \"1Gi\" }}", `f.yaml:12: object "web-1": at <payload "1Gi">: error calling payload: payload 1Gi: more than 2 MiB`},
		{top + "a: {{ repeat 99999999 \"x\" }}", `f.yaml:12: object "web-1": at <repeat 99999999 "x">: error calling repeat: it takes or makes more than 16 MiB`},
		{top + "{{ range until 999999 }}{{ payload 1000 }}{{ end }}", `f.yaml:10: object "web-1": more than 2 MiB`},
		{top + "{{ range until 1.5 }}{{ end }}", `f.yaml:12: object "web-1": at <until 1.5>: error calling until: until 1.5: not a whole number`},
		{top + "{{ range until \"3\" }}{{ end }}", `f.yaml:12: object "web-1": at <until "3">: error calling until: until 3: not a whole number`},
		{top + "a: {{ len (until (div 7 2)) }}{{ len (until (mulf 1.5 2)) }}{{ len (until .size) }}", ``},
		{top + "a: [", `f.yaml:10: object "web-1": the rendered text is not YAML: line 3: did not find expected node content`},
		{top + "a: 1\na: 2", `f.yaml:10: object "web-1": the rendered text is not YAML: line 4: key "a" already set in map`},
		{"", `f.yaml:10: object "web-1": the template gives no object`},
		{"# nothing\n---\n", `f.yaml:10: object "web-1": the template gives no object`},
		{"- a", `f.yaml:10: object "web-1": the template gives no object but a text, a number or a list`},
		{"kind: K", `f.yaml:10: object "web-1": the object has no apiVersion and kind`},
		{"apiVersion: 1\nkind: K", `f.yaml:10: object "web-1": the object has no apiVersion and kind`},
		{top + "---\n" + top, `f.yaml:10: object "web-1": the template gives more than one object`},
		{"---\n# a comment\n---\n" + top + "...\n---\n# the end\n", ``},
	} {
		c, err := Compile("f.yaml", tt.text, 10, Windtunnel())
		if err == nil {
			_, err = c.Render(nil, Vars{Name: "web-1", Namespace: "ns", With: map[string]any{"size": 1}})
		}
		if got := fmt.Sprint(err); got != tt.want && !(err == nil && tt.want == "") {
			t.Errorf("%q:\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
	c := compile(t, top+"{{ range until 999999 }}{{ payload 1000 }}{{ end }}")
	if _, err := c.Render(nil, Vars{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v is not ErrTooLarge", err)
	}
}

func TestAllObjectsAreOfOneKind(t *testing.T) {
	c := compile(t, "apiVersion: v1\nkind: {{ if eq .Index 5 }}Secret{{ else }}ConfigMap{{ end }}")
	for i := range 7 {
		_, err := c.Render(nil, Vars{Name: fmt.Sprint("c-", i), Index: i})
		if (err != nil) != (i == 5) {
			t.Errorf("object %d: %v", i, err)
		}
	}
	c = compile(t, "apiVersion: v1\nkind: {{ .kind }}")
	for i, kind := range []string{"ConfigMap", "Secret"} {
		_, err := c.Render(nil, Vars{Name: "c", With: map[string]any{"kind": kind}})
		if (err != nil) != (i == 1) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	c := compile(t, deployment+"extra: {{ payload 40 }}\nslow: {{ add .Index 1 }}\n")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 200 {
				with := map[string]any{"replicas": i % 3}
				v := Vars{Name: fmt.Sprintf("web-%d", i), Namespace: "ns-1", Index: i, With: with}
				out, err := c.Render(nil, v)
				if err != nil || !bytes.Contains(out, fmt.Appendf(nil, `"slow":%d,`, i+1)) {
					t.Errorf("%s %v", out, err)
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkRender(b *testing.B) {
	for _, bb := range []struct{ name, text string }{
		{"segments", deployment},
		{"executed", deployment + "last: {{ add .Index 1 }}"},
		{"payload1KiB", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Name }}}\ndata: {payload: {{ payload 1024 }}}"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			c := compile(b, bb.text)
			v := Vars{Name: "saturation-17", Namespace: "density-1", Group: "saturation", Seed: 1, With: map[string]any{"replicas": 30}}
			var buf []byte
			for b.Loop() {
				v.Index++
				var err error
				if buf, err = c.Render(buf[:0], v); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(buf)), "B/object")
		})
	}
}

func FuzzRender(f *testing.F) {
	f.Add(deployment, "web-1", "ns", 3)
	f.Add("apiVersion: v1\nkind: K\na: {{ randAlpha 3 }}{{ .Index }}", "null", "~", 0)
	f.Add("{\"apiVersion\": \"v1\", \"kind\": \"K\", \"n\": {{ .Index }}}", "a", "b", 1)
	f.Fuzz(func(t *testing.T, text, name, namespace string, index int) {
		if strings.Contains(text, "range") || len(text) > 2000 {
			return // loops without end are the author's
		}
		c, err := Compile("f", text, 1, Windtunnel())
		if err != nil {
			return
		}
		v := Vars{Name: name, Namespace: namespace, Index: index & (1<<53 - 1), With: map[string]any{"replicas": 1}}
		same(t, c, v)
		v.Name = "other-1"
		same(t, c, v)
	})
}

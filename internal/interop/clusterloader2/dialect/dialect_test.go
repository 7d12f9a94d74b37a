package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	texttemplate "text/template"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/template"
)

// TestClusterLoader2Functions holds what its pkg/config/template_functions.go
// says of each of them. Errors are the text after "error: ".
func TestClusterLoader2Functions(t *testing.T) {
	data := map[string]any{"int": 7, "long": int64(7), "float": 2.5, "text": "3", "word": "x", "list": "a,b,", "yes": true, "unsigned": uint64(9)}
	for _, tt := range []struct{ text, want string }{
		{"AddInt 1 2 3", "6"},
		{"AddInt", "0"},
		{"AddInt .int .long .float .text", "19"}, // 19.5, cut
		{"AddFloat 1 .float", "3.5"},
		{"AddFloat .unsigned", "9"},
		{"AddInt .word", "error: x is not a number"},
		{"AddInt .nothing", "error: <nil> is not a number"},
		{"AddInt .yes", "error: true is not a number"},
		{"SubtractInt 3 5", "-2"},
		{"SubtractFloat 3 .text", "0"},
		{"SubtractInt 3", "error: Subtract of 1 numbers in place of 2"},
		{"MultiplyInt", "1"},
		{"MultiplyInt 3 .float", "7"},
		{"MultiplyFloat 3 .float", "7.5"},
		{"DivideInt 7 2", "3"},
		{"DivideInt -7 2", "-3"},
		{"DivideInt .int .float", "2"},
		{"DivideFloat 7 2", "3.5"},
		{"DivideFloat \"7\" .text | AddInt 1", "3"},
		{"DivideInt 7 0", "error: division by zero"},
		{"DivideFloat 7 0.0", "error: division by zero"},
		{"MaxInt 1 7.9 3", "7"},
		{"MaxFloat 1 7.9 3", "7.9"},
		{"MaxInt -3 -7", "-3"},
		{"MinInt .text 100", "3"},
		{"MinFloat 2 .float", "2"},
		{"MinInt", "error: Min of no numbers"},
		{"Mod 7 4", "3"},
		{"Mod -7 4", "-3"},
		{"Mod 7 .float", "1"},
		{"IsEven 7", "false"},
		{"IsEven .float", "true"},
		{"IsEven -4", "true"},
		{"Mod 7 0.5", "error: division by zero"},
		{"Ceil 2.1", "3"},
		{"Ceil .text", "3"},
		{"Concat \"a\" 1 2 \"b\" 2.5 true", "a12b2.5true"},
		{"Lowercase \"aBc\"", "abc"},
		{"StringSplit .list", "[a b ]"},
		{"DefaultParam .nothing 5", "5"},
		{"DefaultParam .int 5", "7"},
		{"DefaultParam \"\" 5", ""},
		{"DefaultParam false true", "false"},
		{"IfThenElse (gt .int 5) 1 \"b\"", "1"},
		{"IfThenElse false 1 \"b\"", "b"},
		{"IfThenElse 1 2 3", "error: IfThenElse: 1 is not true or false"},
		{"StructuralData .text", "3"},
		{"StructuralData .nothing", "<no value>"},
		{"MultiplyInt 2 (StructuralData .float)", "5"},
		{"Seq 3", "[0 0 0]"},
		{"SliceOfZeros .text", "[0 0 0]"},
		{"SliceOfZeros 0", "[]"},
		{"Loop 3", "[0 1 2]"},
		{"Loop 2.9", "[0 1]"},
		{"Loop -1", "error: a list of -1"},
		{"Loop 1000001", "error: until: more than 1000000 numbers"},
		{"YamlQuote \"\" 2", "\"\"\n    "},
		{"YamlQuote \"plain\" 2", "plain\n    "},
		{"YamlQuote \"a: b\" 1", "'a: b'\n  "},
		{"YamlQuote \"- a\\n- b\\n\" 2", "|\n      - a\n      - b\n    "},
		{"YamlQuote 5 2", "error: YamlQuote: 5 is not a text"},
		{"RandDataWithSeed 0 \"test\"", ""},
		{"RandDataWithSeed 1 \"test-1\"", "n"},
		{"RandDataWithSeed 1 \"test-2\"", "P"},
		{"RandDataWithSeed 100 \"test\"", "HlXm60Fjrvvp0pE3RK7lDhhhuQZpI6ECS18Gp0qqwFlOKjlZH4rFS3pk9pBkVRLzyqIWUv1Omfnmj7djTRjxL4bnp2kG7O5xD2Rf"},
		{"RandData 0", ""},
		{"RandData -1", "error: a text of -1 letters"},
		{"RandData 3000000", "error: a text of 3000000 letters: more than 2 MiB"},
		{"RandInt 0", "0"},
		{"RandInt -1", "error: RandInt: -1 is not a number of at least 0"},
		{"RandIntRange 5 5", "5"},
		{"RandIntRange 9 5", "9"},
	} {
		if got := run(tt.text, data, 1); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.text, got, tt.want)
		}
	}
}

// run gives what an expression prints in a config, or its error.
func run(text string, data any, seed uint64) string {
	p, err := texttemplate.New("").Funcs(Functions(template.NewSource(seed))).Parse("{{ " + text + " }}")
	if err != nil {
		return "parse: " + err.Error()
	}
	var b strings.Builder
	if err := p.Execute(&b, data); err != nil {
		_, why, _ := strings.Cut(err.Error(), "error calling ")
		_, why, _ = strings.Cut(why, ": ")
		return "error: " + why
	}
	return b.String()
}

func TestClusterLoader2RandomIsTheSeeds(t *testing.T) {
	const text = "RandData 12 }} {{ RandInt 1000000 }} {{ RandIntRange 3 5 }} {{ RandData 5"
	first := run(text, nil, 1)
	if again := run(text, nil, 1); again != first {
		t.Errorf("the same seed gives %q and %q", first, again)
	}
	if other := run(text, nil, 2); other == first {
		t.Errorf("two seeds give %q", first)
	}
	seen := map[string]bool{}
	for seed := range uint64(200) {
		seen[run("RandIntRange 3 5", nil, seed)] = true
		seen[run("RandInt 1", nil, seed)] = true
	}
	if len(seen) != 5 { // 0 1 3 4 5: both ends belong to the range
		t.Errorf("values %v", seen)
	}
}

// TestClusterLoader2Objects: names are put in, unknown variables are no error,
// .Group is the file's own, and the fast way gives the same bytes.
func TestClusterLoader2Objects(t *testing.T) {
	with := map[string]any{"Group": "load", "BaseName": "pod", "ReplicasMin": 5, "ReplicasMax": 15,
		FilesVariable: map[string]any{"note.txt": "some text"}}
	for _, tt := range []struct {
		text, want string
		fast       bool
	}{
		{"apiVersion: v1\nkind: Pod\nmetadata:\n  generateName: pod-\n  labels: {group: {{.Group}}}\n",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"pod-","labels":{"group":"load"},"name":"pod-17"}}`, true},
		{"apiVersion: v1\nkind: Pod\n", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-17"}}`, true},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: {{.Name}}}\na: <>&\n", `{"a":"\u003c\u003e\u0026","apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-17"}}`, true},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: other}\na: <>&\nb: 12345678901234567890\n", `{"a":"<>&","apiVersion":"v1","b":12345678901234567890,"kind":"Pod","metadata":{"name":"pod-17"}}`, true},
		{"apiVersion: v1\nkind: Pod\na: {{.BaseName}}-{{.Index}}\nb: {{.Nope}}\nc: {{.Seed}}\n",
			`{"a":"pod-17","apiVersion":"v1","b":"<no value>","c":"<no value>","kind":"Pod","metadata":{"name":"pod-17"}}`, true},
		{"apiVersion: v1\nkind: Pod\na: {{StructuralData .BaseName}}\n", `{"a":"pod","apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-17"}}`, true},
		{"apiVersion: v1\nkind: Pod\na: {{AddInt .Index 1}}\n", `{"a":18,"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-17"}}`, false},
		{"apiVersion: v1\nkind: Pod\na: {{IncludeFile \"note.txt\"}}\n", `{"a":"some text","apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-17"}}`, true},
	} {
		c := repotest.Must(template.Compile("t.yaml", tt.text, 1, New()))(t)
		v := template.Vars{Name: "pod-17", Namespace: "test-1", Group: "measured", Index: 17, Seed: 1, With: with}
		got, err := c.Render(nil, v)
		if err != nil || !sameJSON(got, tt.want) {
			t.Errorf("%s:\n got %s %v\nwant %s", tt.text, got, err, tt.want)
		}
		if why := c.WhyExecuted(v); (why == "") != tt.fast {
			t.Errorf("%s: segments = %v (%s)", tt.text, why == "", why)
		}
		same(t, c, v)
	}
	c, err := template.Compile("t.yaml", "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: {{RandIntRange .ReplicasMin .ReplicasMax}}}\n", 1, New())
	repotest.NoError(t, err)
	seen := map[string]bool{}
	for i := range 200 {
		v := template.Vars{Name: fmt.Sprint("d-", i), Index: i, Seed: 1, With: with}
		same(t, c, v)
		out, _ := c.Render(nil, v)
		var d struct{ Spec struct{ Replicas int } }
		if err := json.Unmarshal(out, &d); err != nil || d.Spec.Replicas < 5 || d.Spec.Replicas > 15 {
			t.Fatalf("%s %v", out, err)
		}
		seen[fmt.Sprint(d.Spec.Replicas)] = true
	}
	if len(seen) != 11 {
		t.Errorf("%d different replicas, want 11", len(seen))
	}
}

// same fails when Render and Execute differ.
func same(t *testing.T, c *template.Template, v template.Vars) {
	t.Helper()
	fast, ferr := c.Render(nil, v)
	slow, serr := c.Execute(nil, v)
	if !bytes.Equal(fast, slow) || fmt.Sprint(ferr) != fmt.Sprint(serr) {
		t.Fatalf("%+v:\nfast %s %v\nslow %s %v", v, fast, ferr, slow, serr)
	}
}

func sameJSON(a []byte, b string) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal([]byte(b), &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}

func TestClusterLoader2Errors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"a: {{ nope }}", `f.yaml:3: function "nope" not defined`},
		{"a: {{ randAlpha 3 }}", `f.yaml:3: function "randAlpha" not defined`},
		{"a: {{ DivideInt 1 0 }}", `f.yaml:3: object "x": at <DivideInt 1 0>: error calling DivideInt: division by zero`},
		{"a: {{ IncludeFile \"no.yaml\" }}", `f.yaml:3: object "x": at <IncludeFile "no.yaml">: error calling IncludeFile: no.yaml is not in with.IncludeFile`},
	} {
		c, err := template.Compile("f.yaml", tt.text, 3, New())
		if err == nil {
			_, err = c.Render(nil, template.Vars{Name: "x"})
		}
		if fmt.Sprint(err) != tt.want {
			t.Errorf("%s:\n got %v\nwant %s", tt.text, err, tt.want)
		}
	}
}

func TestVariables(t *testing.T) {
	for _, tt := range []struct {
		text  string
		names []string
		whole bool
	}{
		{"a: b", nil, false},
		{"{{ .A }} {{ $.B }} {{ $c := .C.D }} {{ $c }} {{ if .E }}{{ .F }}{{ else }}{{ .G }}{{ end }}", []string{"A", "B", "C", "E", "F", "G"}, false},
		{"{{ range .A }}{{ . }}{{ .B }}{{ $.C }}{{ end }}", []string{"A", "B", "C"}, false},
		{"{{ index . \"A\" }} {{ index $ \"B\" }}", []string{"A", "B"}, false},
		{"{{ index . .A }}", []string{"A"}, true},
		{"{{ with .A }}{{ index . \"B\" }}{{ index $ \"C\" }}{{ end }}", []string{"A", "C"}, false},
		{"{{ print $ }}", nil, true},
		{"{{ define \"x\" }}{{ .A }}{{ end }}{{ template \"x\" . }}", []string{"A"}, false},
		{"{{ AddInt (MaxInt .A 1) .B | Ceil }} {{ (.C).D }}", []string{"A", "B", "C"}, false},
	} {
		c := repotest.Must(template.Compile("f", tt.text, 1, New()))(t)
		if names, whole := c.Variables(); !slices.Equal(names, tt.names) || whole != tt.whole {
			t.Errorf("%s: %v %v, want %v %v", tt.text, names, whole, tt.names, tt.whole)
		}
	}
}

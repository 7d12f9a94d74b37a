package dialect

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/template"
)

func kubeBurnerBody(t testing.TB, text string) *template.Template {
	t.Helper()
	return repotest.Must(template.Compile("pod.yml", text, 1, New()))(t)
}

// TestKubeBurnerFunctions renders one value each; the wanted ones are what
// kube-burner's own functions give.
func TestKubeBurnerFunctions(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"{{ Binomial 5 2 }}", "10"},
		{"{{ Binomial 5 0 }} {{ Binomial 5 5 }} {{ Binomial 0 0 }} {{ Binomial 60 30 }}", "1 1 1 118264581564861424"},
		{"{{ IndexToCombination nil 0 5 3 }}", "[0 1 2]"},
		{"{{ IndexToCombination nil 1 5 3 }} {{ IndexToCombination nil 9 5 3 }}", "[0 1 3] [2 3 4]"},
		{"{{ index (IndexToCombination nil 4 5 2) 1 }}", "2"},
		{"{{ GetSubnet24 0 }} {{ GetSubnet24 3 }} {{ GetSubnet24 256 }} {{ GetSubnet24 65536 }}", "1.0.0.0/24 1.0.3.0/24 1.1.0.0/24 2.0.0.0/24"},
		{`{{ GetIPAddress "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4" 1 2 }}`, "10.0.0.3 10.0.0.4"},
		{`{{ GetIPAddress .addresses .Iteration 1 }}`, "b"},
		{`{{ ReadFile "data.txt" | trim | quote }}`, `"from a file"`},
		{"{{ .Iteration }}-{{ .Replica }}-{{ .JobName }}", "1-3-density"},
		{"{{ add .Iteration 1 }} {{ until .few }} {{ seq 3 }} {{ seq 2 -1 }} {{ seq 0 2 5 }}", "2 [0 1 2] 1 2 3 2 1 0 -1 0 2 4"},
		{`{{ $d := dict "a" 1 }}{{ $_ := set $d "b" 2 }}{{ toJson $d }}`, `{"a":1,"b":2}`},
		{`{{ toJson (set .labels "b" "2") }}`, `{"a":"1","b":"2"}`},
		{"{{ len (randAlphaNum 9) }} {{ len (randNumeric 4) }} {{ len (randAscii 3) }} {{ len (randBytes 6) }} {{ len (uuidv4) }}", "9 4 3 8 36"},
		{`{{ shuffle "aaa" }} {{ until (randInt 2 3) }}`, "aaa [0 1]"},
		{"{{ .Index }}", `pod.yml:5: object "x": at <.Index>: map has no entry for key "Index"; the variables are .Iteration .Replica .JobName .ReadFile .addresses .few .labels`},
		{"{{ Binomial 2 5 }}", "Binomial 2 5: the numbers are not n >= k >= 0"},
		{"{{ Binomial 600 300 }}", "Binomial 600 300: the result is beyond 64 bits"},
		{"{{ IndexToCombination nil 10 5 3 }}", "IndexToCombination: index 10 is not in 0 to 9"},
		{`{{ GetIPAddress "a b" 1 2 }}`, "GetIPAddress: iteration 1 needs addresses 2 to 3 of 2"},
		{`{{ ReadFile "/etc/passwd" }}`, "ReadFile: /etc/passwd is not in with.ReadFile"},
		{"{{ randNumeric -1 }}", "randNumeric -1: not in 0 to 2097152"},
	} {
		with := map[string]any{
			"JobName": "density", "addresses": "a b", "few": int64(3), "labels": map[string]any{"a": "1"},
			"ReadFile": map[string]any{"data.txt": "from a file\n"},
		}
		c := kubeBurnerBody(t, "apiVersion: v1\nkind: ConfigMap\ndata:\n  v: |-\n    "+tt.text+"\n")
		got, err := c.Render(nil, template.Vars{Name: "x", Index: 1, Replica: 3, With: with})
		text := strings.ReplaceAll(string(got), `\"`, `"`)
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, tt.want) {
			t.Errorf("%s: got %s, want %s", tt.text, text, tt.want)
		}
		if len(with["labels"].(map[string]any)) != 1 {
			t.Errorf("%s: it changed a variable that objects share", tt.text)
		}
	}
}

// TestKubeBurnerRandom: the same seed gives the same, and no two replicas or
// iterations share a value.
func TestKubeBurnerRandom(t *testing.T) {
	c := kubeBurnerBody(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ uuidv4 }}\"}\ndata: {a: \"x{{ randAlphaNum 20 }}\", b: {{ randAlpha 12 }}, c: {{ randAscii 8 | toJson }}}\n")
	seen := map[string]bool{}
	for index := range 3 {
		for replica := 1; replica <= 3; replica++ {
			v := template.Vars{Seed: 1, Index: index, Replica: replica}
			first := repotest.Must(c.Render(nil, v))(t)
			if again, _ := c.Render(nil, v); string(again) != string(first) {
				t.Errorf("two renderings differ: %s %s", first, again)
			}
			if seen[string(first)] {
				t.Errorf("iteration %d replica %d is as an earlier one: %s", index, replica, first)
			}
			seen[string(first)] = true
			if !regexp.MustCompile(`"name":"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"`).Match(first) {
				t.Errorf("no UUID of version 4: %s", first)
			}
		}
	}
}

func TestKubeBurnerLabels(t *testing.T) {
	with := func(more ...string) map[string]any {
		out := map[string]any{"JobName": "density", "UUID": "u-1", "RunID": "r-1", "ObjectIndex": int64(2), "ObjectGroup": int64(0)}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	const all = `"kube-burner.io/group":"0","kube-burner.io/index":"2","kube-burner.io/job":"density","kube-burner.io/job-iteration":"7",` +
		`"kube-burner.io/replica":"4","kube-burner.io/runid":"r-1","kube-burner.io/uuid":"u-1"`
	for _, tt := range []struct {
		text string
		with map[string]any
		want string
		fast bool
	}{
		{"kind: Pod\nmetadata: {name: pod-{{.Iteration}}-{{.Replica}}}", with(),
			`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{` + all + `},"name":"pod-7-4"}}`, true},
		{"kind: Pod\nmetadata: {name: pod-{{.Iteration}}-{{.Replica}}}", map[string]any{},
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-7-4"}}`, true},
		{"kind: Pod\nmetadata: {labels: {kube-burner.io/job: mine, a: b}}", with(),
			`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b",` + strings.Replace(all, `job":"density`, `job":"mine`, 1) + `}}}`, true},
		{"kind: Pod", with("Iteration", "9", "Replica", "2"),
			`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{` + strings.NewReplacer(`"7"`, `"9"`, `"4"`, `"2"`).Replace(all) + `}}}`, true},
		{"kind: Deployment\nmetadata: {labels: {a: b}}\nspec: {replicas: 123456789012345678, template: {metadata: {labels: {a: c, d: \"<e>\"}}}}", with(),
			`{"apiVersion":"v1","kind":"Deployment","metadata":{"labels":{"a":"b",` + all + `}},"spec":{"replicas":123456789012345678,"template":{"metadata":{"labels":{"a":"c","d":"<e>",` + all + `}}}}}`, true},
		{"kind: StatefulSet\nspec: {selector: {matchLabels: {a: b}}}", with(),
			`{"apiVersion":"v1","kind":"StatefulSet","metadata":{"labels":{` + all + `}},"spec":{"selector":{"matchLabels":{"a":"b",` + all + `}},"template":{"metadata":{"labels":{` + all + `}}}}}`, true},
		{"kind: Job\nspec: {template: {metadata: {labels: {a: b}}}}", with(),
			`{"apiVersion":"v1","kind":"Job","metadata":{"labels":{` + all + `}},"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`, true},
		{"kind: VirtualMachine\nspec: {dataVolumeTemplates: [{metadata: {name: a}}]}", with(),
			`{"apiVersion":"v1","kind":"VirtualMachine","metadata":{"labels":{` + all + `}},"spec":{"dataVolumeTemplates":[{"metadata":{"labels":{` + all + `},"name":"a"}}],"template":{"metadata":{"labels":{` + all + `}}}}}`, true},
		{"kind: Pod\nmetadata: {name: pod-{{ add .Iteration 1 }}}", with(),
			`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{` + all + `},"name":"pod-8"}}`, false},
		{"kind: Pod\nmetadata: {labels: [a]}", with(), `pod.yml:1: object "": metadata.labels: not a mapping`, false},
		{"kind: VirtualMachine\nspec: {dataVolumeTemplates: [a]}", with(), `pod.yml:1: object "": spec.dataVolumeTemplates: not a list of objects`, false},
	} {
		c := kubeBurnerBody(t, "apiVersion: v1\n"+tt.text+"\n")
		v := template.Vars{Index: 7, Replica: 4, With: tt.with}
		got, err := c.Render(nil, v)
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.text, got, tt.want)
		}
		if slow := c.WhyExecuted(v); (slow == "") != tt.fast {
			t.Errorf("%s: by segments %v (%s), want %v", tt.text, slow == "", slow, tt.fast)
		}
	}
}

// TestNoFile: the importer finds out which files a body reads.
func TestNoFile(t *testing.T) {
	c := kubeBurnerBody(t, `apiVersion: v1
kind: ConfigMap
data: {a: {{ ReadFile (printf "part-%d.txt" .Iteration) | toJson }}}
`)
	_, err := c.Render(nil, template.Vars{Index: 5})
	var missing *NoFileError
	if !errors.As(err, &missing) || missing.Path != "part-5.txt" {
		t.Errorf("got %v", err)
	}
}

// FuzzKubeBurner: an object is the same by segments and by executing its
// template, and what cannot be made is an error.
func FuzzKubeBurner(f *testing.F) {
	f.Add("metadata: {name: pod-{{.Iteration}}-{{.Replica}}}", 3, 2)
	f.Add("kind: StatefulSet\nmetadata: {labels: {a: \"{{.Replica}}\"}}", 0, 1)
	f.Add("data: {a: {{ randAlphaNum 5 }}, b: {{ Binomial 5 .Replica }}, c: {{ GetSubnet24 .Iteration }}}", 70000, 5)
	f.Add("data: {a: {{ index (IndexToCombination nil .Iteration 5 3) 1 }}, b: {{ .Replica }}0, c: 0x{{ .Iteration }}}", 9, 11)
	f.Fuzz(func(t *testing.T, text string, index, replica int) {
		if strings.Contains(text, "range") || len(text) > 2000 || index < 0 || replica < 0 {
			return // loops without end are the author's
		}
		c, err := template.Compile("f", "apiVersion: v1\nkind: ConfigMap\n"+text, 1, New())
		if err != nil {
			return
		}
		with := map[string]any{"JobName": "j", "UUID": "u", "RunID": "r", "ObjectIndex": int64(1), "n": int64(3)}
		v := template.Vars{Name: "x-1", Namespace: "ns", Index: index % (1 << 30), Replica: replica % (1 << 20), Seed: 1, With: with}
		fast, ferr := c.Render(nil, v)
		slow, serr := c.Execute(nil, v)
		if string(fast) != string(slow) || (ferr == nil) != (serr == nil) {
			t.Errorf("by segments %s (%v), by executing %s (%v)", fast, ferr, slow, serr)
		}
	})
}

// TestTwice: of a key that a mapping has twice kube-burner's decoder takes the last value,
// also where it depends on the object.
func TestTwice(t *testing.T) {
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"m-{{.Iteration}}\"}\n"
	for _, tt := range []struct{ name, text, data, twice string }{
		{"of a mapping", head + "data:\n  a: first-{{.Iteration}}\n  a: last-{{.Replica}}\n", `{"a":"last-1"}`, "a"},
		{"in braces", head + "data: {a: '1', b: '2', b: '3'}\n", `{"a":"1","b":"3"}`, "b"},
		{"three times", head + "data: {c: '1', c: '2', c: '3'}\n", `{"c":"3"}`, "c"},
		{"made by the template", head + "data: {a: '1', {{ if true }}a{{ else }}b{{ end }}: '2'}\n", `{"a":"2"}`, "a"},
		{"quoted once", head + "data:\n  \"a\": '1'\n  a: '2'\n", `{"a":"2"}`, "a"},
		{"of the top", head + "data: {a: '1'}\ndata: {b: '2'}\n", `{"b":"2"}`, "data"},
		{"in two mappings", head + "data: {a: '1'}\nbinaryData: {a: aGk=}\n", `{"a":"1"}`, ""},
		{"once", head + "data: {a: '1'}\n", `{"a":"1"}`, ""},
	} {
		b := repotest.Must(template.Compile("f.yml", tt.text, 1, New()))(t)
		v := template.Vars{Name: "x", Index: 4, Replica: 1}
		raw, err := b.Render(nil, v)
		var got struct{ Data json.RawMessage }
		if err = errors.Join(err, json.Unmarshal(raw, &got)); err != nil || string(got.Data) != tt.data {
			t.Errorf("%s: got %s (%v), want %s", tt.name, raw, err, tt.data)
		}
		if key := b.Twice(v); key != tt.twice {
			t.Errorf("%s: the key that is there twice is %q, want %q", tt.name, key, tt.twice)
		}
	}
}

package scenario_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

const including = `scenario: x # 1
include: [parts/bodies.yaml, parts/measures.yaml]
parameters: {kind: ConfigMap}
bodies: {own: {text: "kind: {{ .Name }}"}}
measures: [{name: own, since: fill}]
steps:
- name: fill
  create: {body: small, count: 1, pace: {constant: 1}}`

// files are a scenario with what it includes.
func files() map[string]string {
	return map[string]string{
		"x.yaml":              including,
		"parts/bodies.yaml":   "# Bodies.\nbodies:\n  small:\n    text: |\n      kind: ${kind}\n\n      a: |\n        b\n\n",
		"parts/measures.yaml": "include: [deep/charts.yaml, bodies.yaml]\r\nmeasures:\r\n- {name: filling, until: fill}\r\n",
		"parts/deep/charts.yaml": `charts:
- &all {name: "all of ${kind}", query: 'sum(up)'}
- *all
map: [{name: v, query: up}]
`,
	}
}

// inFolder writes files to a folder, with changes (an empty text takes one away), and
// returns the path of the scenario.
func inFolder(t *testing.T, changes map[string]string) string {
	t.Helper()
	folder, all := t.TempDir(), files()
	for name, text := range changes {
		all[name] = text
	}
	for name, text := range all {
		path := filepath.Join(folder, name)
		repotest.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if text == "" {
			continue
		}
		repotest.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return filepath.Join(folder, "x.yaml")
}

// A scenario has what it includes, and its text is one file from then on.
func TestInclude(t *testing.T) {
	path := inFolder(t, nil)
	set := map[string]string{"kind": "Secret"}
	s := repotest.Must(scenario.Load(path, set))(t)
	if got := s.Bodies["small"].Text; got != "kind: ${kind}\n\na: |\n  b\n" {
		t.Errorf("body %q", got)
	}
	if len(s.Bodies) != 2 || len(s.Measures) != 2 || s.Measures[0].Name != "own" || len(s.Charts) != 2 || s.Charts[1].Name != "all of Secret" || len(s.Map) != 1 {
		t.Errorf("bodies %v, measures %v, charts %v, map %v", s.Bodies, s.Measures, s.Charts, s.Map)
	}
	if file, line := s.Place(path, s.Bodies["small"].Line); file != filepath.Join(filepath.Dir(path), "parts/bodies.yaml") || line != 5 {
		t.Errorf("the body stands in %s, line %d", file, line)
	}
	if file, line := s.Place(path, s.Bodies["own"].Line); file != path || line != 4 {
		t.Errorf("its own body stands in %s, line %d", file, line)
	}
	kept, err := scenario.Read(path)
	if err != nil || !strings.HasPrefix(string(kept), including+"\n") {
		t.Fatalf("kept %s: %v", kept, err)
	}
	again, err := scenario.Parse("kept.yaml", kept, set)
	if err != nil || !same(s, again) {
		t.Errorf("what is kept is another scenario: %v", err)
	}
	if line := strings.Split(string(kept), "\n")[again.Bodies["small"].Line-1]; strings.TrimSpace(line) != "kind: ${kind}" {
		t.Errorf("line %d of what is kept is %q", again.Bodies["small"].Line, line)
	}
	if twice, err := scenario.Resolve(path, kept); err != nil || string(twice) != string(kept) {
		t.Errorf("what is kept was resolved again: %v", err)
	}
}

// What is wrong with an included file is said of it, by its own lines.
func TestIncludeFaults(t *testing.T) {
	chain := map[string]string{"parts/bodies.yaml": "include: [a0.yaml]\n"}
	for i := range 9 {
		chain[fmt.Sprintf("parts/a%d.yaml", i)] = fmt.Sprintf("include: [a%d.yaml]\n", i+1)
	}
	body := "bodies:\n  small:\n    text: t\n"
	for _, tt := range []struct {
		changes map[string]string
		want    string // parts of the messages, without the folder
	}{
		{map[string]string{"parts/bodies.yaml": ""}, "x.yaml:2: include: parts/bodies.yaml: no such file or directory"},
		{map[string]string{"parts/bodies.yaml": body + "    txt: u\n"}, `parts/bodies.yaml:4: field "txt" not found in body (did you mean "text"?)`},
		{map[string]string{"parts/bodies.yaml": body + "  own:\n    text: t\n"}, `parts/bodies.yaml:4: field "own" stands twice in bodies (first on line 4)`},
		{map[string]string{"parts/bodies.yaml": body + "    text: u\n"}, `parts/bodies.yaml:4: field "text" stands twice in body (first on line 3 of parts/bodies.yaml)`},
		{map[string]string{"parts/measures.yaml": "measures:\n- {name: filling, until: fil}\n"}, `parts/measures.yaml:2: measure.until: no step is called "fil" (did you mean "fill"?)`},
		{map[string]string{"parts/bodies.yaml": body + "steps: []\nseed: 1\n"}, `parts/bodies.yaml:4: field "steps" not found in an included file, which has bodies, charts, include, lifecycles, map, measures, objectives and published
parts/bodies.yaml:5: field "seed" not found`},
		{map[string]string{"parts/bodies.yaml": "bodies: []\n"}, "parts/bodies.yaml:1: bodies: a list where a mapping was expected"},
		{map[string]string{"parts/bodies.yaml": "- a\n"}, "parts/bodies.yaml:1: an included file is a mapping of names to values, not a list"},
		{map[string]string{"parts/bodies.yaml": "bodies:\n\tsmall: x\n"}, "parts/bodies.yaml:2: not YAML"},
		{map[string]string{"parts/bodies.yaml": body + "---\na: b\n"}, "parts/bodies.yaml:5: a second document"},
		{map[string]string{"parts/bodies.yaml": "include: [measures.yaml]\n"}, "parts/measures.yaml:1: include: parts/bodies.yaml includes itself: parts/bodies.yaml -> parts/measures.yaml -> parts/bodies.yaml"},
		{map[string]string{"parts/bodies.yaml": "include: [../x.yaml]\n"}, `parts/bodies.yaml:1: include: x.yaml includes itself: x.yaml -> parts/bodies.yaml -> x.yaml`},
		{map[string]string{"parts/bodies.yaml": "include: [../../x.yaml]\n"}, `parts/bodies.yaml:1: include: "../../x.yaml" leads out of the scenario's folder`},
		{map[string]string{"parts/bodies.yaml": "include: [/etc/passwd]\n"}, `"/etc/passwd" leads out of the scenario's folder`},
		{map[string]string{"parts/bodies.yaml": "include: ['${kind}.yaml']\n"}, `"${kind}.yaml": a file's name is no expression`},
		{map[string]string{"parts/bodies.yaml": "include: deep.yaml\n"}, `parts/bodies.yaml:1: include: "deep.yaml" is not a list of files`},
		{map[string]string{"parts/bodies.yaml": "include: [\"a\\nb\"]\n"}, `parts/bodies.yaml:1: include: "a\nb" is not the name of a file`},
		{map[string]string{"parts/bodies.yaml": "include: [[a]]\n"}, `parts/bodies.yaml:1: include: a list is not the name of a file`},
		{map[string]string{"parts/bodies.yaml": "include: [.]\n"}, `parts/bodies.yaml:1: include: parts: `},
		{chain, "parts/a6.yaml:1: include: more than 8 files include each other"},
		{map[string]string{"parts/bodies.yaml": "# " + strings.Repeat("x", 1<<20)}, "x.yaml:2: include: parts/bodies.yaml has more than 1 MiB"},
		{map[string]string{"x.yaml": "{scenario: x, include: [parts/bodies.yaml], steps: [{pause: 1s}]}\n"}, "x.yaml:1: include: the files cannot be kept with the scenario"},
		{map[string]string{"x.yaml": including + "\nfragments: {}\n"}, "x.yaml:2: include: parts/bodies.yaml was not read"},
		{map[string]string{"x.yaml": including + "\nfragments: {parts/bodies.yaml: 'bodies: {}', parts/measures.yaml: x}\n"}, "x.yaml:2: include: fragments: parts/bodies.yaml is no text of its own lines (|)"},
	} {
		path := inFolder(t, tt.changes)
		_, err := scenario.Load(path, nil)
		if got := strings.ReplaceAll(fmt.Sprint(err), filepath.Dir(path)+"/", ""); !strings.Contains(got, tt.want) {
			t.Errorf("%v:\n%s\nlacks %s", tt.changes, got, tt.want)
		}
	}
}

// A symbolic link leads out of the folder no more than a path does.
func TestIncludeFollowsNoLinkOut(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.yaml")
	repotest.NoError(t, os.WriteFile(outside, []byte("bodies: {}\n"), 0o644))
	path := inFolder(t, map[string]string{"parts/bodies.yaml": ""})
	repotest.NoError(t, os.Symlink(outside, filepath.Join(filepath.Dir(path), "parts/bodies.yaml")))
	if _, err := scenario.Load(path, nil); err == nil || !strings.Contains(err.Error(), "x.yaml:2: include: parts/bodies.yaml: it leads out of the folder") {
		t.Error(err)
	}
}

// In a scenario of Go there is nothing to read.
func TestIncludeIsForFiles(t *testing.T) {
	s := scenario.Default()
	s.Name, s.Include, s.Steps = "x", []string{"a.yaml"}, []scenario.Step{{Pause: 1}}
	s.Complete()
	var fault *scenario.ValidationError
	if err := s.Validate(); !errors.As(err, &fault) || !strings.HasPrefix(fault.Text, "include: only a file includes others") {
		t.Error(err)
	}
}

// Files names all that a copy of a scenario needs, and nothing else of the folder.
func TestFiles(t *testing.T) {
	tree := fstest.MapFS{"app/other.yaml": {}}
	for name, text := range files() {
		tree["app/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	tree["app/x.yaml"].Data = []byte(strings.Replace(including, "own: {text: \"kind: {{ .Name }}\"}", "own: {file: own.txt}", 1) +
		"\ncrds: [crd.yaml]\nmanifests: [crd.yaml]\nsubjects: [{name: s, command: x, crds: [sub.yaml]}]\nfleet: {nodes: 1, stages: [fast, my.yaml]}\nmembers: [{name: m, kind: hollow, count: 1, stages: [deployments]}]\n")
	tree["app/my.yaml"] = &fstest.MapFile{}
	got, err := scenario.Files(tree, "app/x.yaml")
	want := []string{"app/x.yaml", "app/parts/bodies.yaml", "app/parts/deep/charts.yaml", "app/parts/measures.yaml", "app/crd.yaml", "app/sub.yaml", "app/own.txt", "app/my.yaml"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("files %v, want %v: %v", got, want, err)
	}
	if _, err := scenario.Files(tree, "app/none.yaml"); err == nil {
		t.Error("no error of a file that is not there")
	}
}

package golden_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/interop/kwok/golden"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

func TestKwokPairs(t *testing.T) {
	var out bytes.Buffer
	result, err := golden.Run(&out, []string{repotest.Compat(t, "kwok")})
	if err != nil || result.Failed > 0 || result.Passed < 4 {
		t.Errorf("%+v, %v\n%s", result, err, &out)
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	repotest.NoError(t, os.MkdirAll(filepath.Join(dir, "testdata"), 0o700))
	for name, text := range files {
		repotest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

const (
	stages = `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: a}
spec:
  resourceRef: {kind: Pod}
  selector: {}
  immediateNextStage: true
  delay: {durationMilliseconds: 5, jitterDurationMilliseconds: 6}
  steps:
  - event: {type: Normal, reason: R, message: M}
  - patch: {subresource: status, root: status, template: 'ip: {{ NodeIPWith .spec.nodeName 1 true nil | Quote }}', impersonation: {username: u}}
---
kind: Kustomization
`
	pod  = "apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: shop}\nspec: {nodeName: m}\n"
	want = `apiGroup: v1
kind: Pod
name: x
namespace: shop
stages:
- delay: [5000000, 6000000]
  next:
  - {kind: event, type: Normal, reason: R, message: M}
  - kind: patch
    type: application/merge-patch+json
    subresource: status
    impersonation: u
    data: {status: {ip: '<NodeIPWith("m", 1, true, <nil>)>'}}
  - {kind: immediate}
  stage: a
  weight: 0
`
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"s.yaml": stages, "testdata/a.input.yaml": pod, "testdata/a.output.yaml": want})
	var out bytes.Buffer
	if r, err := golden.Run(&out, []string{dir}); err != nil || r != (golden.Result{Passed: 1}) {
		t.Fatalf("%+v, %v\n%s", r, err, &out)
	}
	write(t, dir, map[string]string{"testdata/b.input.yaml": pod, "testdata/b.output.yaml": strings.Replace(want, "reason: R", "reason: Q", 1)})
	out.Reset()
	r, err := golden.Run(&out, []string{dir})
	if err != nil || r != (golden.Result{Passed: 1, Failed: 1}) {
		t.Fatalf("%+v, %v", r, err)
	}
	name := filepath.Join(dir, "testdata")
	expected := "ok    " + name + "/a\nDIFF  " + name + "/b (- expected, + played)\n" + `  ...
    next:
    - kind: event
      message: M
-     reason: Q
+     reason: R
      type: Normal
    - data:
        status:
  ...
`
	if out.String() != expected {
		t.Errorf("got\n%s\nwant\n%s", &out, expected)
	}
}

func TestFindingsAreWritten(t *testing.T) {
	dir := t.TempDir()
	odd := stages + "---\napiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: odd}\nspec:\n  resourceRef: {kind: Node}\n  selector: {}\n"
	write(t, dir, map[string]string{
		"s.yaml": odd, "testdata/a.input.yaml": pod, "testdata/a.output.yaml": want, "testdata/b.input.yaml": pod, "testdata/b.output.yaml": want,
	})
	var out bytes.Buffer
	if r, err := golden.Run(&out, []string{dir}); err != nil || r.Passed != 2 || strings.Count(out.String(), "NOTE  "+dir+"/s.yaml:18: stage odd: spec.steps: are missing") != 1 {
		t.Errorf("%+v, %v\n%s", r, err, &out)
	}
}

func TestBadPairs(t *testing.T) {
	for what, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no output":  {map[string]string{"testdata/a.input.yaml": pod}, "read what is expected: open"},
		"bad output": {map[string]string{"testdata/a.input.yaml": pod, "testdata/a.output.yaml": "a: ["}, "a.output.yaml: "},
		"bad object": {map[string]string{"s.yaml": stages, "testdata/a.input.yaml": "a: [", "testdata/a.output.yaml": ""}, "a.input.yaml: "},
		"no object": {
			map[string]string{"s.yaml": stages, "testdata/a.input.yaml": "kind: Pod", "testdata/a.output.yaml": ""},
			"a.input.yaml: want one object with apiVersion and kind",
		},
		"no stages": {map[string]string{"testdata/a.input.yaml": pod, "testdata/a.output.yaml": ""}, " holds no stages"},
		"bad stages": {
			map[string]string{"s.yaml": "kind: Stage", "testdata/a.input.yaml": pod, "testdata/a.output.yaml": ""},
			`s.yaml:1: apiVersion: want kwok.x-k8s.io/v1alpha1, got ""`,
		},
		"no pairs": {nil, "no testdata/*.input.yaml below"},
		"a stage that fails": {
			map[string]string{
				"s.yaml":                strings.Replace(stages, "Quote", "fail", 1),
				"testdata/a.input.yaml": pod, "testdata/a.output.yaml": "",
			},
			"s.yaml:11: stage a: spec.steps[1].patch.template: ",
		},
	} {
		dir := t.TempDir()
		write(t, dir, c.files)
		r, err := golden.Run(&bytes.Buffer{}, []string{dir})
		if err == nil || !strings.Contains(err.Error(), c.want) || r != (golden.Result{}) {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
	}
	if _, err := golden.Run(&bytes.Buffer{}, []string{"/nowhere"}); err == nil || !strings.Contains(err.Error(), "find test data") {
		t.Errorf("%v", err)
	}
}

// BenchmarkStageCRs measures what kwok's benchmark of that name does, on the
// same inputs and under the same names: which stage plays on an object.
func BenchmarkStageCRs(b *testing.B) {
	root := repotest.Compat(b, "kwok")
	inputs := repotest.Must(filepath.Glob(filepath.Join(root, "*", "*", "testdata", "*.input.yaml")))(b)
	for _, path := range inputs {
		dir := filepath.Dir(filepath.Dir(path))
		stages, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		repotest.NoError(b, err)
		f := repotest.Must(kwok.Read(stages...))(b)
		m := repotest.Must(machine.Compile(f.Stages))(b)
		raw := repotest.Must(os.ReadFile(path))(b)
		if raw, err = yaml.YAMLToJSON(raw); err != nil {
			b.Fatal(err)
		}
		object := repotest.Must(machine.Decode(raw))(b)
		rel := repotest.Must(filepath.Rel(root, dir))(b)
		name := rel + "/" + strings.TrimSuffix(filepath.Base(path), ".input.yaml")
		now, rng := time.Date(2006, 1, 2, 15, 4, 5, 0, time.UTC), rand.New(rand.NewPCG(1, 1))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c, err := m.Match(object, now, rng); err != nil || c.Stage == nil {
					b.Fatal(c, err)
				}
			}
		})
	}
}

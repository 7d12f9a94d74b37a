package flight

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/scenario"
)

func TestTheCallerTakesTheSubjectsPlace(t *testing.T) {
	metrics := &scenario.Metrics{Port: 1}
	wait := &scenario.Wait{Objects: "pods"}
	s := &scenario.Scenario{Subjects: []scenario.Subject{{
		Name: "operator", Command: "bin/operator", Args: []string{"x"}, Limits: scenario.Limits{CPU: 1}, Metrics: metrics,
		Ready: scenario.Ready{HTTP: "/readyz", Wait: wait}, CRDs: []string{"crd.yaml"}, Manifests: []string{"m.yaml"},
	}}}
	if err := adoptCaller(s, ""); err != nil {
		t.Fatal(err)
	}
	if s.Subjects[0].External {
		t.Error("nobody was to take its place")
	}
	if err := adoptCaller(s, "operator"); err != nil {
		t.Fatal(err)
	}
	want := scenario.Subject{Name: "operator", External: true, Metrics: metrics, Ready: scenario.Ready{Wait: wait}, CRDs: []string{"crd.yaml"}, Manifests: []string{"m.yaml"}}
	if len(s.Subjects) != 1 || !reflect.DeepEqual(s.Subjects[0], want) {
		t.Errorf("%+v", s.Subjects)
	}
	if n := subjectSteps(s); n != 2 {
		t.Errorf("%d steps, want the start and the wait of one", n)
	}
	none := &scenario.Scenario{}
	if err := adoptCaller(none, "manager"); err != nil || len(none.Subjects) != 1 || !none.Subjects[0].External || none.Subjects[0].Metrics == nil {
		t.Errorf("%+v: %v", none.Subjects, err)
	}
}

// A misspelt name must not start the file's own subject beside the caller's.
func TestASubjectThatTheScenarioDoesNotHaveIsRefused(t *testing.T) {
	s := &scenario.Scenario{Subjects: []scenario.Subject{{Name: "operator", Command: "bin/operator"}, {Name: "db", Command: "bin/db"}}}
	err := adoptCaller(s, "opreator")
	const want = `the scenario has no such subject: "opreator" is not one of operator, db (did you mean "operator"?); name the one that your program replaces, or declare opreator with external: true`
	if !errors.Is(err, ErrNoSubject) || err.Error() != want || len(s.Subjects) != 2 {
		t.Errorf("%v\n%+v", err, s.Subjects)
	}
}

func TestFaultsOfSubjectsAreKnownBeforeAPlaneBoots(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"good.yaml": "apiVersion: v1\nkind: A\nmetadata: {name: a}\n", "bad.yaml": "kind: A\n", "s.yaml": ""} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &scenario.Scenario{CRDs: []string{"good.yaml"}, Manifests: []string{"none.yaml"}, Subjects: []scenario.Subject{
		{Name: "a", External: true, CRDs: []string{"good.yaml", "absent.yaml"}, Manifests: []string{"bad.yaml"}},
		{Name: "b", Command: "./none"},
	}}
	file := filepath.Join(folder, "s.yaml")
	_, programs := compileSubjects(s, Options{File: file})
	in, err := readInstallation(s, file)
	if programs == nil || err == nil {
		t.Fatal("no fault")
	}
	lines := strings.Split(programs.Error()+"\n"+err.Error(), "\n")
	for i, want := range []string{
		"subject a: it is external: ", "subject b: no such program: ",
		"none.yaml: no such file", "absent.yaml: no such file", "bad.yaml: document 1: it is no object of Kubernetes: no apiVersion",
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("fault %d of %q: want %s", i, lines, want)
		}
	}
	if len(in.definitions) != 2 {
		t.Errorf("%+v", in.definitions)
	}
}

package flight

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/fly/subject/program"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestTheCallerTakesTheSubjectsPlace(t *testing.T) {
	metrics := &scenario.Metrics{Port: 1}
	wait := &scenario.Wait{Objects: "pods"}
	s := &scenario.Scenario{Subjects: []scenario.Subject{{
		Name: "operator", Command: "bin/operator", Args: []string{"x"}, Limits: scenario.Limits{CPU: 1}, Metrics: metrics,
		Ready: scenario.Ready{HTTP: "/readyz", Wait: wait}, CRDs: []string{"crd.yaml"}, Manifests: []string{"m.yaml"},
	}}}
	repotest.NoError(t, adoptCaller(s, ""))
	if s.Subjects[0].External {
		t.Error("nobody was to take its place")
	}
	repotest.NoError(t, adoptCaller(s, "operator"))
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

// A run builds what the cache does not have, and installs what the scenario takes from the
// module.
func TestSubjectsAreBuiltFirst(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	repotest.UseModules(t, map[string]map[string]string{"example.org/operator@v1.2.3": {
		"go.mod": "module example.org/operator\n\ngo 1.26.0\n", "cmd/manager/main.go": "package main\n\nfunc main() {}\n",
		"webhooks/a.yaml": webhookOf("ValidatingWebhookConfiguration"),
		"crds/a.yaml":     "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.org}\n",
	}})
	build := &scenario.Build{Module: "example.org/operator", Version: "v1.2.3", Package: "./cmd/manager", CRDs: []string{"crds/*.yaml"}, Webhooks: []string{"webhooks/*.yaml"}}
	s := &scenario.Scenario{Subjects: []scenario.Subject{{Name: "operator", Build: build}}}
	o := Options{File: filepath.Join(t.TempDir(), "s.yaml"), Log: slog.New(slog.DiscardHandler)}
	if _, err := compileSubjects(s, o); !errors.Is(err, program.ErrAbsent) {
		t.Errorf("before: %v", err)
	}
	repotest.NoError(t, buildSubjects(t.Context(), s, o))
	_, err := compileSubjects(s, o)
	in, failed := readInstallation(s, o.File)
	if err != nil || failed != nil || len(in.definitions) != 1 || in.definitions[0].Name != "as.example.org" || len(in.webhooks["operator"]) != 1 {
		t.Errorf("after: %v, %v, %+v", err, failed, in)
	}
	build.CRDs = []string{"config/*.yaml"}
	if _, err := readInstallation(s, o.File); !errors.Is(err, program.ErrNoFile) {
		t.Errorf("a pattern without files: %v", err)
	}
	build.Version = "v1.2.4"
	if err := buildSubjects(t.Context(), s, o); !errors.Is(err, program.ErrUnknown) || !strings.HasPrefix(err.Error(), "subject operator: example.org/operator v1.2.4: ") {
		t.Errorf("an unknown version: %v", err)
	}
}

// webhookOf is an object that names a service of a webhook, if its kind does.
func webhookOf(kind string) string {
	return "apiVersion: admissionregistration.k8s.io/v1\nkind: " + kind + "\nmetadata: {name: a}\nwebhooks: [{clientConfig: {service: {name: a}}}]\n"
}

// Webhooks that nobody can call are refused before anything is started.
func TestWebhooksNeedAProgramHere(t *testing.T) {
	folder := t.TempDir()
	for name, kind := range map[string]string{"good.yaml": "MutatingWebhookConfiguration", "bad.yaml": "Service"} {
		repotest.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(webhookOf(kind)), 0o600))
	}
	read := func(x scenario.Subject) (*installation, error) {
		return readInstallation(&scenario.Scenario{Subjects: []scenario.Subject{x}}, filepath.Join(folder, "s.yaml"))
	}
	in, err := read(scenario.Subject{Name: "a", Command: "a", Webhooks: []string{"good.yaml"}})
	if err != nil || in.isEmpty() || in.checkWebhooks(true) != nil {
		t.Errorf("%+v, %v", in, err)
	}
	if err := in.checkWebhooks(false); !errors.Is(err, ErrFarWebhooks) || !strings.HasPrefix(err.Error(), "subject a: webhooks: ") {
		t.Errorf("in a cluster of others: %v", err)
	}
	if _, err := read(scenario.Subject{Name: "a", Command: "a", Webhooks: []string{"bad.yaml"}}); !errors.Is(err, subject.ErrNoWebhook) {
		t.Errorf("another kind: %v", err)
	}
	if _, err := read(scenario.Subject{Name: "a", External: true, Webhooks: []string{"good.yaml"}}); !errors.Is(err, ErrNoCertificate) {
		t.Errorf("a program of others: %v", err)
	}
	if in, err := read(scenario.Subject{Name: "a", Command: "a"}); err != nil || !in.isEmpty() || in.checkWebhooks(false) != nil {
		t.Errorf("none: %+v, %v", in, err)
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
	for name, text := range map[string]string{"good.yaml": "apiVersion: v1\nkind: A\nmetadata: {name: a}\n", "bad.yaml": "kind: A\n", "s.yaml": "", "empty.yaml": "# nothing\n---\n", "list.yaml": "{apiVersion: v1, kind: List, items: []}"} {
		repotest.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	s := &scenario.Scenario{CRDs: []string{"good.yaml"}, Manifests: []string{"none.yaml", "empty.yaml", "list.yaml"}, Subjects: []scenario.Subject{
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
		"manifests: none.yaml: no such file", "manifests: empty.yaml has no objects", "manifests: list.yaml has no objects", "crds: absent.yaml: no such file", "bad.yaml: document 1: it is no object of Kubernetes: no apiVersion",
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("fault %d of %q: want %s", i, lines, want)
		}
	}
	if len(in.definitions) != 2 {
		t.Errorf("%+v", in.definitions)
	}
}

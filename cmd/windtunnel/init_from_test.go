package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

const gadgetsManager = `package main

import "flag"

func main() {
	flag.String("kubeconfig", "", "path")
	flag.String("metrics-bind-address", ":8080", "address")
	flag.Bool("leader-elect", true, "elect")
	flag.Parse()
}
`

// TestInitFrom holds that init builds a published controller and writes a scenario of its
// flags, definitions and example, and what it refuses.
func TestInitFrom(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles")
	}
	repotest.UseModules(t, map[string]map[string]string{"example.org/gadgets@v1.2.3": {
		"go.mod":              "module example.org/gadgets\n\ngo 1.26.0\n",
		"cmd/manager/main.go": gadgetsManager,
		"config/crd/bases/gadgets.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gadgets.example.org}\n" +
			"spec:\n  group: example.org\n  scope: Namespaced\n  names: {kind: Gadget, plural: gadgets}\n  versions:\n  - {name: v1, served: true, storage: true}\n",
		"config/samples/gadget.yaml": "apiVersion: example.org/v1\nkind: Gadget\nmetadata: {name: a}\nspec: {size: 3}\n",
	}})
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	run := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := executeVerb(t.Context(), &environment{stdout: &out, stderr: &out}, append([]string{"init", "operator"}, args...))
		return code, out.String()
	}
	if code, out := run("--from", "example.org/gadgets@v1.2.3"); code != exitPass || !strings.Contains(out, "next: read gadgets/README.md") {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	raw := repotest.Must(os.ReadFile(filepath.Join("gadgets", "load.yaml")))(t)
	s, err := scenario.Parse("load.yaml", raw, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	want := []string{"--kubeconfig=$(KUBECONFIG)", "--metrics-bind-address=127.0.0.1:$(METRICS_PORT)", "--leader-elect=false"}
	if x := s.Subjects[0]; !slices.Equal(x.Args, want) || x.Build.Package != "./cmd/manager" || !slices.Equal(x.Build.CRDs, []string{"config/crd/bases/*.yaml"}) || !strings.Contains(string(raw), "size: 3") {
		t.Errorf("%+v\n%s", x, raw)
	}
	for _, c := range []struct {
		args  []string
		words string
	}{
		{[]string{"--from", "example.org/gadgets@v1.2.3"}, "gadgets is there already: name another folder"},
		{[]string{"--from", "example.org/gadgets@v1.2.3", "other", "--kind", "Widget"}, "no such kind: Widget; it defines Gadget"},
		{[]string{"--from", "example.org/gadgets@v1.2.3", "other", "--package", "./lib"}, "its main packages are ./cmd/manager"},
		{[]string{"--from", "example.org/gadgets"}, "is not a Go module at a version"},
		{[]string{"--kind", "Gadget"}, "--package and --kind belong to --from"},
	} {
		if code, out := run(c.args...); code != exitFault || !strings.Contains(out, c.words) {
			t.Errorf("%q: exit code %d, %q lacks %q", c.args, code, out, c.words)
		}
		if _, err := os.Stat("other"); err == nil {
			t.Errorf("%q left a folder", c.args)
		}
	}
}

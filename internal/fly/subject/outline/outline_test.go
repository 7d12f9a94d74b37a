package outline_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/build"
	"github.com/windtunnel/windtunnel/internal/fly/subject/outline"
	"github.com/windtunnel/windtunnel/internal/fly/subject/program"
	"github.com/windtunnel/windtunnel/scenario"
)

// The same program's help, as package flag, pflag and kingpin print it.
var helps = map[string]string{
	"flag": `Usage of /tmp/manager:
  -health-probe-bind-address string
    	The address the probe endpoint binds to. (default ":8081")
  -kubeconfig string
    	Paths to a kubeconfig. Only required if out-of-cluster.
  -leader-elect
    	Enable leader election. A second line
    	tells of --metrics-bind-address.
  -leader-elect-resource-namespace string
    	Where.
  -metrics-bind-address string
    	The address the metric endpoint binds to. (default ":8080")
  -metrics-secure
    	Serve with TLS. (default true)
  -webhook-port int
    	Port. (default 9443)
`,
	"pflag": `Runs it.

Usage:
  manager [flags]

Flags:
      --health-probe-bind-address string   The address of probes (default ":8081")
  -h, --help                               help for manager
      --kubeconfig string                  Path
      --leader-elect                       Enable leader election
      --leader-elect-lease-duration d      How long (default 15s)
      --metrics-bind-address string        The address of metrics (default ":8080")
      --metrics-cert-path string           A folder
      --metrics-secure                     With TLS (default true)
      --webhook-port int                   Port (default 9443)
`,
	"kingpin": `usage: manager [<flags>]

Flags:
  -h, --[no-]help            Show help.
      --health-probe-bind-address=":8081"
                             The address of probes.
      --kubeconfig=""        Path.
      --[no-]leader-elect    Enable leader election.
      --metrics-bind-address=:8080
                             The address of metrics.
      --[no-]metrics-secure  With TLS.
      --webhook-port=9443    Port.
`,
}

// argsOf returns the command line that a scenario gets for the flags of a help.
func argsOf(t *testing.T, help string) (args []string, readme string) {
	t.Helper()
	files, err := controller(outline.ParseFlags(help)).Write()
	if err != nil {
		t.Fatal(err)
	}
	return argsIn(t, files), string(files["README.md"])
}

func argsIn(t *testing.T, files map[string][]byte) []string {
	t.Helper()
	s, err := scenario.Parse("load.yaml", files["load.yaml"], nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, files["load.yaml"])
	}
	return s.Subjects[0].Args
}

func controller(flags []outline.Flag, kinds ...outline.Kind) outline.Controller {
	return outline.Controller{Build: scenario.Build{Module: "example.org/widgets", Version: "v1.2.3", Package: "./cmd/manager"}, Flags: flags, Kinds: kinds}
}

// What a controller listens at is set to its own ports, whichever library prints its help.
func TestFlags(t *testing.T) {
	want := []string{
		"--kubeconfig=$(KUBECONFIG)", "--metrics-bind-address=127.0.0.1:$(METRICS_PORT)", "--health-probe-bind-address=127.0.0.1:$(PROBE_PORT)",
		"--webhook-port=$(WEBHOOK_PORT)", "--metrics-secure=false", "--leader-elect=false",
	}
	for library, help := range helps {
		if got, _ := argsOf(t, help); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", library, got, want)
		}
	}
	for help, want := range map[string][]string{
		"  --metricsPort int   (default 8080)\n":                     {"--metricsPort=$(METRICS_PORT)"},
		"  --metrics-addr string   (default \"8080\")\n":             {"--metrics-addr=$(METRICS_PORT)"},
		"  --metrics-port string   (default \":8080\")\n":            {"--metrics-port=127.0.0.1:$(METRICS_PORT)"},
		"  --enable-leader-election\n  --leader-election-id x\n":     {"--enable-leader-election=false"},
		"  --kubeconfig-context x\n  --metrics-path /metrics\n":      nil,
		"  --remote-kubeconfig x\n  --leader-election-namespace x\n": nil,
		"":                            nil,
		"panic: no cluster\n\n\t-1\n": nil,
	} {
		if got, readme := argsOf(t, help); !slices.Equal(got, want) || !strings.Contains(readme, "## Not found\n\n* ") {
			t.Errorf("%q: %q, want %q; %s", help, got, want, readme)
		}
	}
}

// The likely main package is taken, and where none is likely all are named.
func TestChooseMain(t *testing.T) {
	for name, c := range map[string]struct {
		module, want string
		mains        []string
	}{
		"the only one":     {"example.org/x", "./hack/tool", []string{"./hack/tool"}},
		"a manager":        {"example.org/x", "./cmd/manager", []string{"./cmd/manager", "./cmd/x", "./hack"}},
		"called as module": {"example.org/x", "./cmd/x", []string{"./cmd/cli", "./cmd/x"}},
		"the root":         {"example.org/x", ".", []string{".", "./hack"}},
	} {
		if got, err := outline.ChooseMain(c.module, c.mains); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
	if _, err := outline.ChooseMain("example.org/x", []string{"./a", "./b"}); !errors.Is(err, outline.ErrManyMains) || !strings.Contains(err.Error(), "2 main packages: name the package, such as --package ./a or ./b") {
		t.Errorf("two: %v", err)
	}
	if _, err := outline.ChooseMain("example.org/x", nil); !errors.Is(err, program.ErrNoMain) {
		t.Errorf("none: %v", err)
	}
}

// A controller's name is one that a subject can have.
func TestName(t *testing.T) {
	for c, want := range map[[2]string]string{
		{"sigs.k8s.io/kueue", "./cmd/kueue"}:                                   "kueue",
		{"example.org/widgets", "./cmd/manager"}:                               "widgets",
		{"example.org/widgets/v3", "."}:                                        "widgets",
		{"example.org/widgets/v12", "./cmd/manager"}:                           "widgets",
		{"example.org/vpa", "."}:                                               "vpa",
		{"example.org/Some_Thing", "."}:                                        "some-thing",
		{"example.org/2", "."}:                                                 "controller",
		{"example.org/x", "./cmd/a-name-that-is-far-too-long-for-any-subject"}: "a-name-that-is-far-too-long-fo",
	} {
		if got := (outline.Controller{Build: scenario.Build{Module: c[0], Package: c[1]}}).Name(); got != want {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
}

const definitions = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v1beta1, served: true, storage: false}
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {status: {type: object, properties: {conditions: {type: array}}}}}}
`

// kindsOf reads the kinds of a module that has two definitions and a sample.
func kindsOf(t *testing.T, sample string) []outline.Kind {
	t.Helper()
	p := program.Program{Product: build.Product{Folder: t.TempDir()}, Definitions: []string{"crds.yaml", "gone.yaml"}, Manifests: []string{"samples/widget.yaml"}}
	for name, text := range map[string]string{"crds.yaml": definitions, "samples/widget.yaml": sample} {
		file := filepath.Join(p.Files(), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return outline.ReadKinds(p)
}

// The object that a scenario creates is an example of the module's, without what belongs to
// one object of it alone.
func TestSample(t *testing.T) {
	kinds := kindsOf(t, "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: a, namespace: b, uid: c}\nspec: {size: 3}\nstatus: {ready: true}\n")
	if len(kinds) != 2 || kinds[0].Kind != "Widget" || kinds[0].Version != "v1" || !kinds[0].Conditions || kinds[0].Place() != "samples/widget.yaml" {
		t.Fatalf("%+v", kinds)
	}
	files, err := controller(nil, kinds...).Write()
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Parse("load.yaml", files["load.yaml"], nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, files["load.yaml"])
	}
	body := s.Bodies["object"].Text
	for _, want := range []string{"apiVersion: example.org/v1", "kind: Widget", "size: 3", "name: '{{ .Name }}'", "namespace: '{{ .Namespace }}'", "windtunnel.dev/group: '{{ .Group }}'"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Contains(body, "status") || strings.Contains(body, "uid") {
		t.Errorf("it has what belongs to one object:\n%s", body)
	}
}

// A sample that a scenario would take for a template of its own is not used, nor one of
// another version, and the README says that there is none.
func TestNoSample(t *testing.T) {
	for name, sample := range map[string]string{
		"a parameter":     "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: \"${SIZE}\"}\n",
		"a template":      "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: \"{{ .size }}\"}\n",
		"another version": "apiVersion: example.org/v1beta1\nkind: Widget\nmetadata: {name: a}\n",
		"no YAML":         "apiVersion: [\nkind: Widget\n",
	} {
		kinds := kindsOf(t, sample)
		files, err := controller(nil, kinds...).Write()
		if err != nil || len(kinds) != 2 || kinds[0].Sample != nil {
			t.Fatalf("%s: %+v, %v", name, kinds, err)
		}
		if !strings.Contains(string(files["README.md"]), "no Widget that could serve as an example") {
			t.Errorf("%s: %s", name, files["README.md"])
		}
		argsIn(t, files)
	}
}

// Another kind can be chosen, of those that the module has.
func TestChooseKind(t *testing.T) {
	c := controller(nil, kindsOf(t, "")...)
	if err := c.ChooseKind("gadget"); err != nil || c.Kinds[0].Kind != "Gadget" || len(c.Kinds) != 2 {
		t.Errorf("%+v, %v", c.Kinds, err)
	}
	if err := c.ChooseKind("thing"); !errors.Is(err, outline.ErrNoKind) || !strings.Contains(err.Error(), "it defines Gadget, Widget") {
		t.Errorf("an unknown one: %v", err)
	}
}

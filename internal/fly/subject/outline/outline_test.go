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
	"github.com/windtunnel/windtunnel/internal/repotest"
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
	files := repotest.Must(controller(outline.ParseFlags(help)).Write())(t)
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
		"  --metricsPort int   (default 8080)\n":                                                         {"--metricsPort=$(METRICS_PORT)"},
		"  --metrics-addr string   (default \"8080\")\n":                                                 {"--metrics-addr=$(METRICS_PORT)"},
		"  --metrics-port string   (default \":8080\")\n":                                                {"--metrics-port=127.0.0.1:$(METRICS_PORT)"},
		"  --enable-leader-election\n  --leader-election-id x\n":                                         {"--enable-leader-election=false"},
		"  --web.listen-address string\n    \tAddress on which to expose metrics. (default \":8080\")\n": {"--web.listen-address=127.0.0.1:$(METRICS_PORT)"},
		"  --diagnostics-address string   Where metrics are served. (default \":8443\")\n  --insecure-diagnostics   As HTTP\n": {
			"--diagnostics-address=127.0.0.1:$(METRICS_PORT)", "--insecure-diagnostics=true"},
		"  --health-addr string   Where metrics of health are. (default \":9440\")\n": {"--health-addr=127.0.0.1:$(PROBE_PORT)"},
		"  --webhook-port int   (default 9443)\n  --webhook-cert-dir string\n":        {"--webhook-port=$(WEBHOOK_PORT)", "--webhook-cert-dir=$(FILES)"},
		"  -disable-leader-election\n":                                                {"--disable-leader-election=true"},
		"  --kubeconfig-context x\n  --metrics-path /metrics\n":                       nil,
		"  --remote-kubeconfig x\n  --leader-election-namespace x\n":                  nil,
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
		repotest.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)))
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
	files := repotest.Must(controller(nil, kinds...).Write())(t)
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

// Of several samples the smallest is taken.
func TestSmallestSample(t *testing.T) {
	sample := func(spec string) string {
		return "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: a}\nspec: " + spec + "\n"
	}
	p := moduleOf(t, map[string]string{"crd.yaml": definition("Widget"), "a.yaml": sample("{size: 3, secretName: other}"), "b.yaml": sample("{size: 3}"), "c.yaml": sample("{size: 3, x: y}")})
	if kinds := outline.ReadKinds(p); len(kinds) != 1 || kinds[0].Place() != "b.yaml" {
		t.Errorf("%+v", kinds)
	}
}

// A README says which other objects the example names.
func TestReferences(t *testing.T) {
	spec := "{serviceAccountName: prometheus, config: {secretKeyRef: {name: token, key: a}}, volumes: [{configMap: {name: files}}, {secret: {secretName: certificate}}], class: {name: x}, name: y, secret: z}"
	c := outline.New(scenario.Build{Module: "example.org/widgets", Version: "v1.2.3"},
		moduleOf(t, map[string]string{"crd.yaml": definition("Widget"), "a.yaml": "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: a}\nspec: " + spec + "\n"}), "", nil)
	files := repotest.Must(c.Write())(t)
	if want := "(`configMap: files`, `secretKeyRef: token`, `secretName: certificate`, `serviceAccountName: prometheus`)"; !strings.Contains(string(files["README.md"]), want) {
		t.Errorf("no %s in\n%s", want, files["README.md"])
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

// moduleOf writes the YAML files of a module.
func moduleOf(t *testing.T, files map[string]string) program.Program {
	t.Helper()
	p := program.Program{Product: build.Product{Folder: t.TempDir()}}
	for name, text := range files {
		file := filepath.Join(p.Files(), name)
		repotest.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)))
		switch {
		case strings.Contains(text, "kind: CustomResourceDefinition\n"):
			p.Definitions = append(p.Definitions, name)
		case strings.Contains(text, "kind: "):
			p.Manifests = append(p.Manifests, name)
		}
	}
	slices.Sort(p.Definitions)
	slices.Sort(p.Manifests)
	return p
}

// definition defines one kind, with columns of kubectl.
func definition(kind string, conditions ...string) string {
	lower := strings.ToLower(kind)
	text := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + lower + "s.example.org}\nspec:\n  group: example.org\n  scope: Namespaced\n" +
		"  names: {kind: " + kind + ", plural: " + lower + "s}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n" +
		"    schema: {openAPIV3Schema: {type: object, properties: {status: {type: object, properties: {conditions: {type: array}}}}}}\n    additionalPrinterColumns:\n"
	for _, c := range conditions {
		text += "    - {name: A, type: string, jsonPath: '.status.conditions[?(@.type==\"" + c + "\")].status'}\n"
	}
	return text
}

const (
	patch     = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.org}\nspec: {conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: a, path: /convert}}}}}\n"
	admission = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: a}\nwebhooks: [{name: a, clientConfig: {service: {name: a, path: /validate}}}]\n"
	account   = "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\n"
)

// Each kind is defined once, by the file that is for that; what only has webhooks called is
// applied as such.
func TestDefinitions(t *testing.T) {
	for name, c := range map[string]struct {
		files          map[string]string
		crds, webhooks []string
	}{
		"as kubebuilder has it": {
			map[string]string{
				"config/crd/bases/a.yaml": definition("Widget"), "config/crd/bases/b.yaml": definition("Gadget"), "config/crd/kustomization.yaml": "resources: []\n",
				"config/crd/patches/webhook_in_widgets.yaml": patch, "config/webhook/manifests.yaml": admission, "config/webhook/service.yaml": account,
			},
			[]string{"config/crd/bases/*.yaml"}, []string{"config/crd/patches/*.yaml", "config/webhook/manifests.yaml"},
		},
		"a bundle and two folders": {
			map[string]string{
				"bundle.yaml": definition("Widget") + account, "example/crds/a.yaml": definition("Widget"), "example/crds-full/a.yaml": definition("Widget"),
				"example/crds/b.yaml": definition("Gadget"),
			},
			[]string{"example/crds/*.yaml"}, nil,
		},
		"one more elsewhere": {
			map[string]string{"crds/a.yaml": definition("Widget"), "crds/b.yaml": definition("Gadget"), "kwok/crds/c.yaml": definition("Class"), "kwok/crds/d.yaml": definition("Widget")},
			[]string{"crds/*.yaml", "kwok/crds/c.yaml"}, nil,
		},
		"beside another file": {
			map[string]string{"deploy/crd.yaml": definition("Widget"), "deploy/values.yaml": "a: b\n"},
			[]string{"deploy/crd.yaml"}, nil,
		},
		"in tests":  {map[string]string{"internal/testdata/a.yaml": definition("Widget"), "test/e2e/b.yaml": admission}, nil, nil},
		"not whole": {map[string]string{"a.yaml": "kind: CustomResourceDefinition\n", "b.yaml": "kind: CustomResourceDefinition\n: ["}, nil, nil},
		"of another program of the module": {
			map[string]string{"provider/crds/a.yaml": definition("Widget"), "provider/webhooks.yaml": admission, "cmd/manager/crds/b.yaml": definition("Gadget")},
			[]string{"cmd/manager/crds/*.yaml"}, nil,
		},
		"installed as one": {
			map[string]string{"install.yaml": definition("Widget") + account + "---\n" + admission},
			nil, nil,
		},
	} {
		got := outline.New(scenario.Build{Package: "./cmd/manager"}, moduleOf(t, c.files), "", []string{"./cmd/manager", "./provider", "."})
		if !slices.Equal(got.CRDs, c.crds) || !slices.Equal(got.Webhooks, c.webhooks) {
			t.Errorf("%s: definitions %q, webhooks %q, want %q and %q", name, got.CRDs, got.Webhooks, c.crds, c.webhooks)
		}
		if want := name == "installed as one"; slices.Equal(got.Mixed, []string{"install.yaml"}) != want {
			t.Errorf("%s: mixed files %q", name, got.Mixed)
		}
	}
}

// An object counts as ready by the condition that its definition shows.
func TestReadyCondition(t *testing.T) {
	for want, conditions := range map[string][]string{"Ready": {"Available", "Ready"}, "Available": {"Reconciled", "Available"}, "Admitted": {"Paused", "Admitted"}, "": {"Degraded"}} {
		c := outline.New(scenario.Build{Module: "example.org/widgets", Version: "v1.2.3"}, moduleOf(t, map[string]string{"crd.yaml": definition("Widget", conditions...)}), "  --webhook-port int\n", nil)
		files := repotest.Must(c.Write())(t)
		s, err := scenario.Parse("load.yaml", files["load.yaml"], nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, files["load.yaml"])
		}
		waited := want
		if want == "" {
			waited = "Ready"
		}
		if got := s.Lifecycles[0].Phases[0].Condition; got != waited {
			t.Errorf("%q: %q, want %q", conditions, got, waited)
		}
		if said := strings.Contains(string(files["README.md"]), "does not say which condition"); said != (want == "") {
			t.Errorf("%q: the README says that it is unknown: %v", conditions, said)
		}
	}
}

// Webhooks are applied if the program can be told the port, else the README says so.
func TestWebhooks(t *testing.T) {
	for help, want := range map[string]bool{"  --webhook-port int\n": true, "  --config string\n": false} {
		c := outline.New(scenario.Build{Module: "example.org/widgets", Version: "v1.2.3"}, moduleOf(t, map[string]string{"config/webhook/manifests.yaml": admission}), help, nil)
		files := repotest.Must(c.Write())(t)
		s, err := scenario.Parse("load.yaml", files["load.yaml"], nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, files["load.yaml"])
		}
		if got := len(s.Subjects[0].Build.Webhooks) > 0; got != want || strings.Contains(string(files["README.md"]), "No flag for the port of webhooks") == want {
			t.Errorf("%q: applied %v\n%s", help, got, files["README.md"])
		}
	}
}

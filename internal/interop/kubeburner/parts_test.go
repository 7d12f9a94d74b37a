package kubeburner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/text/environ"

	"github.com/windtunnel/windtunnel/scenario"
)

func TestStatusPaths(t *testing.T) {
	two, err := statusPaths([]statusPath{{Key: ".a", Value: "1"}, {Key: ".b", Value: "2"}})
	if want := `(self.status.a == "1") && (self.status.b == "2")`; two != want || err != nil {
		t.Errorf("two paths: %s %v", two, err)
	}
}

func TestBuiltInWaiters(t *testing.T) {
	for _, tt := range []struct {
		kind   string
		object string
		holds  bool
	}{
		{"Deployment", `{"spec":{"replicas":2},"status":{"readyReplicas":2}}`, true},
		{"Deployment", `{"spec":{"replicas":2},"status":{"readyReplicas":1}}`, false},
		{"Deployment", `{"spec":{"replicas":2},"status":{}}`, false},
		{"DaemonSet", `{"metadata":{"generation":1},"status":{"observedGeneration":1,"numberReady":3,"desiredNumberScheduled":3}}`, true},
		{"DaemonSet", `{"metadata":{"generation":1},"status":{"numberReady":0,"desiredNumberScheduled":0}}`, false},
		{"Pod", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, true},
		{"Pod", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"}]}}`, false},
		{"Pod", `{"status":{"phase":"Pending"}}`, false},
		{"Job", `{"status":{"conditions":[{"type":"Complete","status":"True"}]}}`, true},
		{"PersistentVolumeClaim", `{"status":{"phase":"Bound"}}`, true},
		{"VolumeSnapshot", `{"status":{"readyToUse":true}}`, true},
		{"VolumeSnapshot", `{"status":{"readyToUse":false}}`, false},
		{"Build", `{"status":{"phase":"Complete"}}`, true},
		{"Build", `{"status":{"phase":"Running"}}`, false},
		{"Build", `{"status":{}}`, false},
		{"VirtualMachine", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, true},
	} {
		text, ok := builtIn(tt.kind, false)
		c, err := scenario.ParseCondition(text)
		if !ok || err != nil {
			t.Errorf("%s: %q %v", tt.kind, text, err)
			continue
		}
		if holds, err := c.Holds([]byte(tt.object)); holds != tt.holds || err != nil {
			t.Errorf("%s of %s holds %v (%v), want %v", text, tt.object, holds, err, tt.holds)
		}
	}
	if text, ok := builtIn("ConfigMap", false); ok {
		t.Errorf("config maps are waited for: %s", text)
	}
}

// TestSizes: the rounds of an incremental load.
func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		load       incremental
		iterations int
		want       []int
	}{
		{incremental{StartIterations: 5, TotalIterations: 8}, 1, []int{5, 6, 7, 8}},
		{incremental{TotalIterations: 25, Pattern: pattern{Linear: &linear{StepSize: 10}}}, 10, []int{10, 20, 25}},
		{incremental{StartIterations: 10, TotalIterations: 20, Pattern: pattern{Linear: &linear{StepSize: 10, MinSteps: 3}}}, 1, []int{10, 14, 18, 20}},
		{incremental{StartIterations: 1, TotalIterations: 40, Pattern: pattern{Type: "exponential"}}, 1, []int{1, 5, 13, 29, 40}},
		{incremental{StartIterations: 2, TotalIterations: 30, Pattern: pattern{Type: "exponential", Exponential: &exponential{Base: 3, MaxIncrease: 10, WarmupSteps: 2}}}, 1, []int{2, 4, 10, 20, 30}},
		{incremental{StartIterations: 9, TotalIterations: 3}, 1, []int{9}},
		{incremental{StartIterations: 1, TotalIterations: 1 << 30, Pattern: pattern{Type: "exponential", Exponential: &exponential{Base: 1e300}}}, 1, []int{1, 1_000_000_001, 1 << 30}},
	} {
		if got := tt.load.roundSizes(tt.iterations); !slices.Equal(got, tt.want) {
			t.Errorf("%+v from %d: %v, want %v", tt.load, tt.iterations, got, tt.want)
		}
	}
}

func TestFiring(t *testing.T) {
	for expr, want := range map[string]string{
		"up == 0":                        "max_over_time((up == bool 0)[%v:5s])",
		"rate(a[5m])>0.5":                "max_over_time((rate(a[5m]) > bool 0.5)[%v:5s])",
		`sum(a{x="b > c"}) >= b{y!="z"}`: `max_over_time((sum(a{x="b > c"}) >= bool b{y!="z"})[%v:5s])`,
		"(a > 1) or b":                   "count_over_time(((a > 1) or b)[%v:5s]) or vector(0)",
		"a > 1 and b > 2":                "count_over_time((a > 1 and b > 2)[%v:5s]) or vector(0)",
		"a > bool 1":                     "count_over_time((a > bool 1)[%v:5s]) or vector(0)",
		"a > on(x) b":                    "count_over_time((a > on(x) b)[%v:5s]) or vector(0)",
		"absent(up)":                     "count_over_time((absent(up))[%v:5s]) or vector(0)",
		"band > 1":                       "max_over_time((band > bool 1)[%v:5s])",
	} {
		if got := firingQuery(expr, usualStep); got != want {
			t.Errorf("%s: got %s, want %s", expr, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"kube-burner": "kube-burner", "one.by.one": "one-by-one", "My_Config": "my-config", "---": "config", "": "config",
		strings.Repeat("a", 50): strings.Repeat("a", 31) + "-160b4e43",
	} {
		if got := dnsLabel(name); got != want {
			t.Errorf("label(%q) = %q, want %q", name, got, want)
		}
	}
	for kind, want := range map[string]string{
		"Pod": "pods", "NetworkPolicy": "networkpolicies", "Ingress": "ingresses", "Gateway": "gateways", "Endpoints": "endpoints",
		"StorageClass": "storageclasses", "Y": "ys", "": "",
	} {
		if got := pluralOf(kind); got != want {
			t.Errorf("plural(%q) = %q, want %q", kind, got, want)
		}
	}
	im := &importer{names: map[string]int{}, bodies: &bodies{kinds: map[groupKind]crd{{"example.org", "Mouse"}: {"mice", true}}}}
	for want, of := range map[string][2]string{
		"pods false": {"v1", "Pod"}, "deployments.apps false": {"apps/v1", "Deployment"}, "namespaces true": {"v1", "Namespace"},
		"mice.v1beta1.example.org true": {"example.org/v1beta1", "Mouse"}, "routes.route.openshift.io false": {"route.openshift.io/v1", "Route"},
	} {
		name, cluster := im.resourceOf(of[0], of[1])
		if got := fmt.Sprint(name, " ", cluster); got != want {
			t.Errorf("resource of %v: %s, want %s", of, got, want)
		}
	}
	long := strings.Repeat("x", 70)
	for range 3 {
		if name := im.uniqueStep(long); len(name) > 63 {
			t.Errorf("a step's name of %d letters: %s", len(name), name)
		}
	}
	if len(im.names) != 3 {
		t.Errorf("names that are not told apart: %v", im.names)
	}
	for text, want := range map[string]string{"afterGC": "after-gc", "onEachIteration": "on-each-iteration"} {
		if got := dashedName(text); got != want {
			t.Errorf("dashed(%q) = %q", text, got)
		}
	}
}

// TestLines: what a template makes of a config is blamed on the line that it
// came from.
func TestLines(t *testing.T) {
	o := Options{Env: environ.New([]string{"LIST=x\ny"}, nil)}
	vars := repotest.Must(o.templateVariables())(t)
	r, ok := o.renderConfig(&findings{}, []byte("a:\n{{- range until 2 }}\n- b{{ . }}\n- c\n{{- end }}\n{{ .LIST }} z\n{{ if true }}\nd: 1\n{{ end }}e: 2\n"), vars)
	var got []string
	n := 0
	for line := range strings.Lines(string(r.Bytes)) {
		n++
		got = append(got, fmt.Sprintf("%d %q", r.Line(n), line))
	}
	want := []string{`1 "a:\n"`, `3 "- b0\n"`, `4 "- c\n"`, `3 "- b1\n"`, `4 "- c\n"`, `6 "x\n"`, `6 "y z\n"`, `7 "\n"`, `8 "d: 1\n"`, `9 "e: 2\n"`}
	if !ok || !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// TestConfigsSeeWhatTheyName: of the environment, and of the files beside them.
func TestConfigsSeeWhatTheyName(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"config/near.txt": "near", "far.txt": "far"} {
		path := filepath.Join(dir, name)
		repotest.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)))
	}
	file := filepath.Join(dir, "config", "c.yml")
	for config, want := range map[string]string{
		`name: {{ .TEAM }}-{{ env "ZONE" }}-{{ index . "CITY" }}`:                   "name: red-a-rome",
		`{{ range $k, $v := . }}{{ $k }}={{ $v }} {{ end }}# {{ .TEAM }}`:           "TEAM=red # red",
		`a: {{ ReadFile "near.txt" }} {{ ReadFile "` + dir + `/config/near.txt" }}`: "a: near near",
		`a: {{ ReadFile "../far.txt" }}`:                                            "not in the config's folder",
		`a: {{ ReadFile "` + dir + `/far.txt" }}`:                                   "not in the config's folder",
		`a: {{ ReadFile "/etc/hostname" }}`:                                         "not in the config's folder",
		`a: {{ .GH_TOKEN }}`:                                                        "as they look like secrets: GH_TOKEN (--env GH_TOKEN",
		`a: {{ env "AWS_SECRET_ACCESS_KEY" }}.`:                                     "a: .",
		`a: {{ .API_TOKEN }}`:                                                       "a: allowed",
	} {
		o := Options{Env: environ.New([]string{"TEAM=red", "ZONE=a", "CITY=rome", "GH_TOKEN=secret", "AWS_SECRET_ACCESS_KEY=secret", "API_TOKEN=allowed", "HOME=/"}, []string{"API_TOKEN"})}
		f := &findings{file: file}
		got := ""
		if out, ok := o.renderConfig(f, []byte(config), map[string]any{}); ok {
			got = string(out.Bytes)
		} else {
			got = f.joinErrors().Error()
		}
		if !strings.Contains(got, want) || strings.Contains(got, "=secret") {
			t.Errorf("%s gives %q, want %q", config, got, want)
		}
	}
}

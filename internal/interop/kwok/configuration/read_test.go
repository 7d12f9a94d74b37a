package configuration

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

func read(t testing.TB, text string) (*Configuration, error) {
	t.Helper()
	return Read(strings.NewReader(text), "-")
}

func TestRead(t *testing.T) {
	c := repotest.Must(Read(nil, filepath.Join("testdata", "all.yaml")))(t)
	o := c.Objects
	if len(o.Stages) != 1 || len(o.Metrics) != 1 {
		t.Errorf("%d stages, %d metrics", len(o.Stages), len(o.Metrics))
	}
	for name, n := range map[string][2]int{
		"logs":     {len(o.Logs.Pods), len(o.Logs.Cluster)},
		"execs":    {len(o.Execs.Pods), len(o.Execs.Cluster)},
		"attaches": {len(o.Attaches.Pods), len(o.Attaches.Cluster)},
		"forwards": {len(o.PortForwards.Pods), len(o.PortForwards.Cluster)},
		"usages":   {len(o.Usages.Pods), len(o.Usages.Cluster)},
	} {
		if n != [2]int{1, 1} {
			t.Errorf("%s: %v", name, n)
		}
	}
	if got := o.Execs.Pods[0]; got.Namespace != "default" || got.Name != "web" || got.Entries[0].Local.Envs[0] != (Env{"A", "b"}) || *got.Entries[0].Local.SecurityContext.RunAsUser != 1000 {
		t.Errorf("%+v", got)
	}
	if got := o.Usages.Cluster[0].Entries[0].Usage; got["cpu"].Value.String() != "250m" || *got["memory"].Expression != `Quantity("1Mi")` {
		t.Errorf("%+v", got)
	}
	if got := o.Metrics[0].Metrics[1]; got.Dimension != PerNode || got.Buckets[1] != (Bucket{2.5, "2", true}) {
		t.Errorf("%+v", got)
	}
	want := Default()
	want.CIDR, want.NodePort, want.ManageAllNodes, want.NodeLeaseDurationSeconds = "10.1.0.0/16", 10247, true, 40
	want.EnableProfilingHandler, want.EnableCRDs, want.TracingEndpoint = false, []string{"ClusterLogs"}, "localhost:4317"
	if !reflect.DeepEqual(c.Options, want) {
		t.Errorf("options\n%+v, want\n%+v", c.Options, want)
	}
	notes := []string{
		"testdata/all.yaml:17: KwokctlConfiguration own is for kwokctl, and ignored",
		"testdata/all.yaml:21: StorageClass fast is no configuration, and ignored",
	}
	if !reflect.DeepEqual(c.Notes, notes) {
		t.Errorf("%q", c.Notes)
	}
}

// TestFaults has the message that each bad file must give.
func TestFaults(t *testing.T) {
	content := repotest.Must(os.ReadFile(filepath.Join("testdata", "faults.txt")))(t)
	for _, one := range strings.Split(string(content), "=====\n")[1:] {
		text, want, ok := strings.Cut(one, "-----\n")
		if !ok {
			t.Fatalf("no message: %s", one)
		}
		c, err := read(t, text)
		if err == nil {
			err = c.checkAll()
		}
		if got := strings.ReplaceAll(errorText(err), "standard input", "f"); got != strings.TrimSpace(want) {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return "none"
	}
	return err.Error()
}

func TestFiles(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		repotest.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		repotest.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	metric := func(name string) string {
		return "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Metric\nmetadata: {name: " + name + "}\nspec: {path: /metrics/" + name + ", metrics: []}\n"
	}
	write("a/kustomization.yaml", "kind: Kustomization\nresources: [one.yaml, ../b]\n")
	write("a/one.yaml", metric("one"))
	write("b/kustomization.yml", "kind: Kustomization\nresources:\n- two.yaml\n")
	write("b/two.yaml", metric("two"))
	c, err := Read(nil, filepath.Join(folder, "a"))
	if err != nil || len(c.Objects.Metrics) != 2 || c.Objects.Metrics[1].Name != "two" {
		t.Fatal(err, c.Objects.Metrics)
	}
	write("round/kustomization.yaml", "kind: Kustomization\nresources: [../round]\n")
	write("more/kustomization.yaml", "kind: Kustomization\nnamePrefix: a\n")
	write("far/kustomization.yaml", "kind: Kustomization\nresources:\n- https://example.com/a\n")
	write("empty/x.yaml", "")
	for name, want := range map[string]string{
		"round": "F/round: 16 folders deep: does it name itself?",
		"more":  "F/more/kustomization.yaml:2: Kustomization: namePrefix: there is no field \"namePrefix\"\nF/more/kustomization.yaml: only resources are followed: build the rest with kubectl kustomize and give it as -",
		"far":   "F/far/kustomization.yaml:3: Kustomization: resources[0]: https://example.com/a: only files are followed",
		"empty": "F/empty: a folder without kustomization.yaml",
		"none":  "read configuration: stat F/none: no such file or directory",
	} {
		_, err := Read(nil, filepath.Join(folder, name))
		if got := strings.ReplaceAll(strings.ReplaceAll(errorText(err), folder, "F"), "F/round/../round", "F/round"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

// TestFlags shows what comes before what: flags, files, defaults.
func TestFlags(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", "")
	file := func(path, text string) string {
		path = filepath.Join(home, path)
		repotest.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		repotest.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const head = "apiVersion: config.kwok.x-k8s.io/v1alpha1\nkind: KwokConfiguration\noptions:\n"
	file(".kwok/kwok.yaml", head+"  cidr: 10.1.0.0/16\n  nodeName: own\n  nodeIP: 10.0.0.1\n  nodePort: 1\n")
	kubeconfig := file(".kube/config", "")
	more := file("more.yaml", head+"  nodeName: more\n  nodePort: 2\n  manageAllNodes: true\n  podPlayStageParallelism: 4\n")
	load := func(args ...string) (*Configuration, error) {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		f := Register(set)
		repotest.NoError(t, set.Parse(args))
		return f.Load(nil)
	}
	c, err := load("--config", more, "--node-port=3", "--enable-crds=Stage,Logs", "-v=-4", "--tracing-endpoint=a:1", "--tls-cert-file=c", "--tls-private-key-file=k")
	repotest.NoError(t, err)
	got := c.Options
	if level, err := got.Level(); level != -4 || err != nil {
		t.Error(level, err)
	}
	want := Default()
	want.CIDR, want.NodeName, want.NodeIP, want.NodePort, want.ManageAllNodes = "10.1.0.0/16", "more", "10.0.0.1", 3, true
	want.EnableCRDs, want.TracingEndpoint, want.PodPlayStageParallelism, want.Verbosity = []string{"Stage", "Logs"}, "a:1", 4, "-4"
	want.TLSCertFile, want.TLSPrivateKeyFile, want.Kubeconfig = "c", "k", kubeconfig
	want.Config = []string{filepath.Join(home, ".kwok/kwok.yaml"), more}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	notes := []string{
		"podPlayStageParallelism has no meaning here: requests are not sent by a number of workers",
		"tracing-endpoint has no meaning here: no traces are sent",
	}
	if !reflect.DeepEqual(c.Notes, notes) {
		t.Errorf("%q", c.Notes)
	}
	if got.Serve() != "127.0.0.1:3" || !strings.Contains(got.ServesOnlyHere(), "server-address 0.0.0.0:3 serves it to all") {
		t.Error(got.Serve(), got.ServesOnlyHere())
	}
	if got.ClientCAFile = "ca"; got.Serve() != "0.0.0.0:3" || got.ServesOnlyHere() != "" {
		t.Error(got.Serve(), got.ServesOnlyHere())
	}
	c = repotest.Must(load("--manage-all-nodes=false", "--config=~/more.yaml", "--server-address=127.0.0.1:7"))(t)
	if c.Options.ManageAllNodes || c.Options.Kubeconfig != kubeconfig || c.Options.Serve() != "127.0.0.1:7" {
		t.Errorf("%+v", c)
	}
	file("logs.yaml", "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Logs\nmetadata: {name: n}\nspec: {logs: [{logsFile: a}]}\n")
	for args, want := range map[string]string{
		"--manage-all-nodes --manage-single-node=a":                    "manage-single-node excludes manage-all-nodes",
		"--manage-single-node=a --manage-nodes-with-label-selector=a":  "manage-single-node excludes manage-nodes-with-annotation-selector and manage-nodes-with-label-selector",
		"--manage-all-nodes --manage-nodes-with-annotation-selector=a": "manage-all-nodes excludes manage-nodes-with-annotation-selector and manage-nodes-with-label-selector",
		"--manage-nodes-with-label-selector=a==,,b":                    "manage-nodes-with-label-selector: found ',', expected: identifier after ','",
		"--cidr=10.0.0.0 --node-ip=here --node-port=70000":             "cidr: \"10.0.0.0\" is no network such as 10.0.0.0/24\nnode-ip: \"here\" is no IP address\nnode-port: want 0 to 65535, got 70000",
		"--server-address=1234":                                        `server-address: "1234" is no address such as 127.0.0.1:10247`,
		"--tls-cert-file=a":                                            "tls-cert-file and tls-private-key-file go together",
		"--enable-crds=Log,Stage,Stage":                                "enable-crds: there is no kind \"Log\"; is it \"Logs\"?\nenable-crds: Stage stands there twice",
		"-v=loud":                                                      `v: want DEBUG, INFO, WARN, ERROR or a number such as -4, got "loud"`,
		"--config=~/logs.yaml --enable-crds=Logs":                      home + "/logs.yaml:1: a Logs stands here and enable-crds names Logs: take one of them away",
		"--manage-all-nodes --kubeconfig=~/none":                       "kubeconfig: there is no file " + home + "/none",
		"--manage-all-nodes --kubeconfig=":                             "kubeconfig: the name that was given is empty",
		"--config=~/none.yaml":                                         "read configuration: stat " + home + "/none.yaml: no such file or directory",
	} {
		if _, err := load(strings.Fields(args)...); errorText(err) != want {
			t.Errorf("%s:\n got %v\nwant %s", args, err, want)
		}
	}
}

func TestFind(t *testing.T) {
	c := repotest.Must(read(t, `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Logs
metadata: {name: web, namespace: a}
spec: {logs: [{logsFile: rest}, {containers: [c], logsFile: c}, {logsFile: never}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Logs
metadata: {name: strict}
spec: {logs: [{containers: [c], logsFile: strict}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: one}
spec: {selector: {matchNamespaces: [b], matchNames: [x, y]}, logs: [{containers: [c], logsFile: one}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: two}
spec: {selector: {matchNamespaces: [b]}, logs: [{logsFile: two}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterPortForward
metadata: {name: ports}
spec: {forwards: [{ports: [80], target: {address: a, port: 1}}]}
`))(t)
	for what, want := range map[[3]string]string{
		{"a", "web", "c"}:          "c",
		{"a", "web", "d"}:          "rest",
		{"default", "strict", "c"}: "strict",
		{"default", "strict", "d"}: "there is no object about it: container d of pod default/strict is not named in the object of that name",
		{"b", "x", "c"}:            "one",
		{"b", "x", "d"}:            "two",
		{"b", "z", "c"}:            "two",
		{"c", "z", "c"}:            "there is no object about it: container c of pod c/z",
	} {
		entry, _, err := Find(&c.Objects.Logs, what[0], what[1], what[2])
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = entry.LogsFile
		}
		if got != want {
			t.Errorf("%v: %s, want %s", what, got, want)
		}
	}
	if _, _, err := Find(&c.Objects.PortForwards, "a", "b", int32(81)); err == nil || err.Error() != "there is no object about it: port 81 of pod a/b" {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"all.yaml", "faults.txt"} {
		content := repotest.Must(os.ReadFile(filepath.Join("testdata", name)))(f)
		for _, one := range strings.FieldsFunc(strings.ReplaceAll(strings.ReplaceAll(string(content), "=====\n", "\x00"), "---\n", "\x00"), func(r rune) bool { return r == 0 }) {
			f.Add(one) // small inputs: the fuzzer minimises each that it finds interesting
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := read(t, text)
		if err == nil {
			_ = c.checkAll()
			_ = c.Objects.Merge(c.Objects)
		} else if err.Error() == "" {
			t.Error("an error without a message")
		}
	})
}

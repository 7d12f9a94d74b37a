package release

import (
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/build"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// versionOfFake is package version of a fake staging module: what the linker does not
// stamp stays as it is in the sources of Kubernetes.
const versionOfFake = `package version

var (
	gitMajor, gitMinor, gitTreeState, buildDate string
	gitVersion = "v0.0.0-master+$Format:%H$"
	gitCommit  = "$Format:%H$"
)

func Text() string { return gitVersion + " " + gitMajor + "." + gitMinor + " " + gitCommit + " " + gitTreeState + " " + buildDate }

func Version() string { return gitVersion }
`

// appOfFake is package app of a fake component: it says its version, and what it has from
// each of the two packages version.
const appOfFake = `package app

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	client "k8s.io/client-go/pkg/version"
	"k8s.io/component-base/version"
)

func %s() *cobra.Command {
	return &cobra.Command{Run: func() {
		switch os.Args[1] {
		case "--version":
			fmt.Println("Kubernetes " + version.Version())
		case "--component":
			fmt.Println(version.Text())
		case "--client":
			fmt.Println(client.Text())
		}
	}}
}
`

// fakeModules are as much of Kubernetes v1.36.9, of etcd and of cobra as source/main.go.txt
// compiles with, by MODULE@VERSION and file.
func fakeModules() map[string]map[string]string {
	kubernetes := map[string]string{
		"go.mod": "module k8s.io/kubernetes\n\ngo 1.26.0\n\nrequire (\n\tgithub.com/spf13/cobra v1.10.2\n\tgo.etcd.io/etcd/server/v3 v3.6.8\n\tk8s.io/apiserver v0.0.0\n\tk8s.io/client-go v0.0.0\n\tk8s.io/component-base v0.0.0\n)\n\n" +
			"replace (\n\tk8s.io/apiserver => ./staging/src/k8s.io/apiserver\n\tk8s.io/client-go => ./staging/src/k8s.io/client-go\n\tk8s.io/component-base => ./staging/src/k8s.io/component-base\n\tk8s.io/sample-apiserver => ./staging/src/k8s.io/sample-apiserver\n)\n",
	}
	for name, function := range map[string]string{component.APIServer: "NewAPIServerCommand", component.Scheduler: "NewSchedulerCommand", component.ControllerManager: "NewControllerManagerCommand"} {
		kubernetes["cmd/"+name+"/app/app.go"] = fmt.Sprintf(appOfFake, function)
	}
	base := map[string]string{"go.mod": "module k8s.io/component-base\n\ngo 1.26.0\n\nrequire github.com/spf13/cobra v1.10.2\n", "version/version.go": versionOfFake,
		"cli/cli.go": "package cli\n\nimport \"github.com/spf13/cobra\"\n\nfunc Run(c *cobra.Command) int { c.Run(); return 0 }\n"}
	for _, folder := range []string{"logs/json/register", "metrics/prometheus/clientgo", "metrics/prometheus/version"} {
		base[folder+"/empty.go"] = "package " + path.Base(folder) + "\n"
	}
	out := map[string]map[string]string{
		"k8s.io/kubernetes@v1.36.9":     kubernetes,
		"k8s.io/component-base@v0.36.9": base,
		"k8s.io/apiserver@v0.36.9":      {"go.mod": "module k8s.io/apiserver\n\ngo 1.26.0\n", "pkg/server/config.go": "package server\n\nfunc SetHostnameFuncForTests(string) {}\n"},
		"k8s.io/client-go@v0.36.9":      {"go.mod": "module k8s.io/client-go\n\ngo 1.26.0\n", "pkg/version/version.go": versionOfFake},
		"github.com/spf13/cobra@v1.10.2": {"go.mod": "module github.com/spf13/cobra\n\ngo 1.26.0\n",
			"cobra.go": "package cobra\n\ntype Command struct{ Run func() }\n"},
	}
	for _, version := range []string{"3.6.8", "3.6.12"} {
		out["go.etcd.io/etcd/server/v3@v"+version] = map[string]string{"go.mod": "module go.etcd.io/etcd/server/v3\n\ngo 1.26.0\n",
			"etcdmain/main.go": "package etcdmain\n\nimport \"fmt\"\n\nfunc Main([]string) { fmt.Println(\"etcd Version: " + version + "\") }\n"}
	}
	return out
}

// TestBuiltComponentsSayTheTrueVersion builds fake components with the real go command:
// both packages version, of which one is for --version and metrics and the other for
// User-Agents, have the release, its commit and its date.
func TestBuiltComponentsSayTheTrueVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles")
	}
	repotest.UseModules(t, fakeModules())
	for _, c := range []struct {
		name, etcd, want string
		executables      []string
	}{
		{"etcd of Kubernetes' go.mod", "v3.6.8", "v3.6.8", []string{Executable}},
		{"the usual etcd, an executable of its own", "", "v3.6.12", []string{Executable, component.Etcd}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache := OpenCache(filepath.Join(t.TempDir(), "planes"))
			p := repotest.Must(Builder{Cache: cache, Progress: t.Output()}.Build(t.Context(), Wanted{Kubernetes: "v1.36.9", Etcd: c.etcd}, false))(t)
			var names []string
			for _, f := range p.Executables {
				if names = append(names, f.Name); len(f.SHA256) != 64 {
					t.Errorf("%s has the sum %q", f.Name, f.SHA256)
				}
			}
			if p.Kubernetes != "v1.36.9" || p.Etcd != c.want || !slices.Equal(names, c.executables) {
				t.Errorf("built %s with etcd %s as %v", p.Kubernetes, p.Etcd, names)
			}
			if !slices.Contains(p.Flags, "-tags="+BuildTags) || !slices.Contains(p.Flags, "-trimpath=true") || !slices.Contains(p.Flags, "CGO_ENABLED=0") {
				t.Errorf("flags %v", p.Flags)
			}
			want := "v1.36.9 1.36 " + repotest.CommitOfModules + " clean 2026-10-01T12:00:00Z"
			for _, name := range []string{component.APIServer, component.Scheduler, component.ControllerManager} {
				for _, asked := range []string{"--component", "--client"} {
					program, args := p.Command(name)
					said, err := exec.Command(program, append(args, asked)...).CombinedOutput()
					if got := strings.TrimSpace(string(said)); err != nil || got != want {
						t.Errorf("%s %s: %q, %v; want %q", name, asked, got, err, want)
					}
				}
			}
			if said, err := AskVersion(t.Context(), p, component.Etcd); err != nil || "v"+said != c.want {
				t.Errorf("etcd says %s, %v", said, err)
			}
			if kept, err := cache.List(); err != nil || len(kept) != 1 || kept[0].Err != nil || kept[0].Folder != p.Folder {
				t.Errorf("the cache has %+v, %v", kept, err)
			}
		})
	}
}

// TestStampsOfTheRealClient stamps the client library that components are linked with:
// the linker ignores a variable that a release has renamed.
func TestStampsOfTheRealClient(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a client")
	}
	stamps := stampFlags(version{1, 36, 3}, repotest.CommitOfModules, "2026-10-01T12:00:00Z")
	program := filepath.Join(t.TempDir(), "kube-scheduler")
	compile := exec.Command("go", "build", "-ldflags", stamps, "-o", program, "./internal/fly/plane/release/testdata/useragent")
	compile.Dir = repotest.Root(t)
	if said, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	said, err := exec.Command(program).Output()
	if want := "kube-scheduler/v1.36.3 (" + build.System + ") kubernetes/0123456\n"; err != nil || string(said) != want {
		t.Errorf("its User-Agent is %q, %v; want %q", said, err, want)
	}
}

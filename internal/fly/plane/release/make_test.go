package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/build"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestMain is also a component that says its version: as a process of its own, started
// as kube-plane NAME --version.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && slices.Contains(component.Names(), os.Args[1]) && os.Args[2] == "--version" {
		if os.Args[1] == component.Etcd {
			fmt.Println("etcd Version: 3.6.12\nGit SHA: none")
		} else {
			fmt.Println("Kubernetes " + os.Getenv("SAID_"+strings.ToUpper(strings.TrimPrefix(os.Args[1], "kube-"))))
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// standIn makes a folder with this test as kube-plane.
func standIn(t *testing.T) string {
	t.Helper()
	own := repotest.Must(os.Executable())(t)
	folder := t.TempDir()
	repotest.NoError(t, copyFile(own, filepath.Join(folder, Executable)))
	for _, name := range []string{"APISERVER", "SCHEDULER", "CONTROLLER-MANAGER"} {
		t.Setenv("SAID_"+name, "v1.36.3")
	}
	return folder
}

func TestImport(t *testing.T) {
	folder, cache := standIn(t), OpenCache(filepath.Join(t.TempDir(), "planes"))
	p, err := Import(t.Context(), cache, folder, "")
	if err != nil || p.Kubernetes != "v1.36.3" || p.Etcd != "v3.6.12" || len(p.Executables) != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	kept, err := cache.List()
	if err != nil || len(kept) != 1 || kept[0].Err != nil {
		t.Fatalf("%+v, %v", kept, err)
	}
	if got, err := choose(Wanted{Kubernetes: "v1.36.3"}, nil, kept); err != nil || got.Folder != p.Folder {
		t.Errorf("a scenario finds %+v, %v", got, err)
	}
	if _, err := Import(t.Context(), cache, folder, strings.Repeat("0", 64)+"  kube-plane\n"); !errors.Is(err, ErrSum) {
		t.Errorf("another sum: %v", err)
	}
	if _, err := Import(t.Context(), cache, t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "etcd is missing") {
		t.Errorf("an empty folder: %v", err)
	}
	script := t.TempDir()
	for _, name := range component.Names() {
		repotest.NoError(t, os.WriteFile(filepath.Join(script, name), []byte("#!/bin/sh\n"), 0o700))
	}
	if _, err := Import(t.Context(), cache, script, ""); !errors.Is(err, build.ErrForeign) {
		t.Errorf("scripts: %v", err)
	}
	t.Setenv("SAID_SCHEDULER", "v1.35.0")
	if _, err := Import(t.Context(), cache, folder, ""); err == nil || !strings.Contains(err.Error(), "import one release") {
		t.Errorf("two releases: %v", err)
	}
	if got := namesIn(t, cache); len(got) != 1 {
		t.Errorf("the cache has %v", got)
	}
}

// fakeGo is a go command that knows a proxy with one release, which lacks modules, or the
// zips of those whose names begin with zip:, or fetches none of a name behind full:, since
// the disk is full, and does not reach the proxy for a name behind away:. It writes down what
// it is asked for.
func fakeGo(t *testing.T, lacking string) (log string) {
	t.Helper()
	dir := t.TempDir()
	log = filepath.Join(dir, "log")
	repotest.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(someMod), 0o600))
	script := `#!/bin/sh
echo "$@" >> ` + log + `
case "$1" in
list)
	shift 4
	[ "$1" = -versions ] && { echo '{"Path": "'$2'", "Versions": ["v1.36.2", "v1.36.3", "v3.6.8", "v3.6.12", "v3.6.13"]}'; exit; }
	for each; do
		path=${each%@*} version=${each#*@}
		case " ` + lacking + ` " in
		*" $each "*) echo '{"Path": "'$path'", "Version": "'$version'", "Error": {"Err": "not found"}}' ;;
		*" away:$each "*) echo '{"Path": "'$path'", "Version": "'$version'", "Error": {"Err": "dial tcp:\\n\\tconnection refused"}}' ;;
		*" unkept:$each "*) echo '{"Path": "'$path'", "Version": "'$version'"}' ;;
		*) mod=go.mod
			[ $path = go.etcd.io/etcd/server/v3 ] && { mod=etcd$version.mod; echo "require go.etcd.io/etcd/raft/v3 $version" > ` + dir + `/$mod; }
			echo '{"Path": "'$path'", "Version": "'$version'", "GoMod": "` + dir + `/'$mod'"}' ;;
		esac
	done ;;
mod)
	shift 3
	for each; do
		path=${each%@*} version=${each#*@}
		case " ` + lacking + ` " in
		*" full:$each "*) echo '{"Path": "'$path'", "Version": "'$version'", "Error": "write '$path'.zip: no space left on device"}' ; failed=1 ;;
		*" zip:$each "*) echo '{"Path": "'$path'", "Version": "'$version'", "Error": "403 Forbidden"}' ; failed=1 ;;
		*) echo '{"Path": "'$path'", "Version": "'$version'"}' ;;
		esac
	done
	exit $failed ;;
build) echo 'main.go:1:1: it does not compile' >&2; exit 1 ;;
esac
`
	repotest.NoError(t, os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return log
}

// What the module proxy lacks is named before anything is compiled, and a build that
// fails leaves nothing in the cache.
func TestBuildNamesWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		name, lacking string
		wanted        Wanted
		is            error
		words         string
		built         bool
	}{
		{"no such release", "k8s.io/kubernetes@v1.36.9", Wanted{"v1.36.9", ""}, ErrUnknown, "Kubernetes v1.36.9: the module proxy does not have it; name another one: it has v1.36.2, v1.36.3", false},
		{"no such minor release", "k8s.io/kubernetes@v1.99.0", Wanted{"v1.99.0", ""}, ErrUnknown, "it has v1.36.2, v1.36.3, v3.6.8", false},
		{"no such etcd", "go.etcd.io/etcd/server/v3@v3.6.99", Wanted{"v1.36.3", "v3.6.99"}, ErrUnknown, "etcd v3.6.99: the module proxy does not have it; name another one: it has v3.6.8, v3.6.12, v3.6.13", false},
		{"no proxy", "away:k8s.io/kubernetes@v1.36.3", Wanted{"v1.36.3", ""}, nil, "ask the module proxy for Kubernetes v1.36.3: dial tcp: connection refused; `go env GOPROXY GOMODCACHE`", false},
		{"no proxy any more", "away:go.etcd.io/etcd/server/v3@v3.6.8", Wanted{"v1.36.3", "v3.6.8"}, nil, "ask the module proxy for etcd v3.6.8: dial tcp: connection refused; `go env GOPROXY GOMODCACHE`", false},
		{"no module cache", "unkept:k8s.io/kubernetes@v1.36.3", Wanted{"v1.36.3", ""}, nil, "set GOMODCACHE to a folder that can be written to", false},
		{"not whole", "k8s.io/kubelet@v0.36.3 k8s.io/sample-apiserver@v0.36.3", Wanted{"v1.36.3", ""}, ErrNotWhole, "it lacks k8s.io/kubelet v0.36.3; `windtunnel plane check v1.36`", false},
		{"not whole, though it is listed", "zip:k8s.io/kubelet@v0.36.3", Wanted{"v1.36.3", ""}, ErrNotWhole, "it lacks k8s.io/kubelet v0.36.3; `windtunnel plane check v1.36`", false},
		{"etcd without its sources", "zip:go.etcd.io/etcd/server/v3@v3.6.12", Wanted{"v1.36.3", "v3.6.12"}, ErrNotWhole, "it lacks go.etcd.io/etcd/server/v3 v3.6.12", false},
		{"no etcd with all of its modules", "zip:go.etcd.io/etcd/raft/v3@v3.6.12 zip:go.etcd.io/etcd/raft/v3@v3.6.13", Wanted{"v1.36.3", ""}, ErrNotWhole, "it lacks go.etcd.io/etcd/raft/v3 v3.6.12", false},
		{"a full disk", "full:k8s.io/kubelet@v0.36.3", Wanted{"v1.36.3", ""}, build.ErrNoRoom, "fetch k8s.io/kubelet v0.36.3: no room for the build: free some, or set GOCACHE, TMPDIR and XDG_CACHE_HOME to folders with more", false},
		{"no release", "", Wanted{"latest", ""}, nil, "such as v1.37.1", false},
		{"a compiler's fault", "k8s.io/sample-apiserver@v0.36.3", Wanted{"v1.36.3", ""}, nil, "it does not compile", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := fakeGo(t, c.lacking)
			cache := OpenCache(filepath.Join(t.TempDir(), "planes"))
			var said bytes.Buffer
			_, err := Builder{Cache: cache, Progress: &said}.Build(t.Context(), c.wanted, false)
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
			asked, _ := os.ReadFile(log)
			if strings.Contains(said.String(), "compiling") != c.built {
				t.Errorf("it says: %s", said.String())
			}
			if built := strings.Contains(string(asked), "build "); built != c.built {
				t.Errorf("compiled: %v\n%s", built, asked)
			}
			if kept, err := cache.List(); err != nil || len(kept) > 0 {
				t.Errorf("the cache has %v, %v", kept, err)
			}
		})
	}
}

func TestCheckFindsTheNewestWholePatch(t *testing.T) {
	fakeGo(t, "zip:k8s.io/kubelet@v0.36.3")
	whole, others, err := Check(t.Context(), "v1.36", &bytes.Buffer{})
	if err != nil || whole == nil || whole.Kubernetes != "v1.36.2" || whole.Etcd != "v3.6.12" {
		t.Fatalf("%+v, %v", whole, err)
	}
	for _, lacking := range []string{"zip:go.etcd.io/etcd/raft/v3@v3.6.12", "go.etcd.io/etcd/server/v3@v3.6.12"} { // it is listed
		fakeGo(t, lacking)
		if whole, _, err := Check(t.Context(), "v1.36", &bytes.Buffer{}); err != nil || whole == nil || whole.Etcd != "v3.6.13" {
			t.Errorf("without %s: %+v, %v", lacking, whole, err)
		}
	}
	if len(others) != 1 || others[0].Kubernetes != "v1.36.3" || !slices.Equal(others[0].Missing, []string{"k8s.io/kubelet v0.36.3"}) {
		t.Errorf("others %+v", others)
	}
}

func TestBuildWithoutGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := (Builder{Cache: OpenCache(t.TempDir()), Progress: &bytes.Buffer{}}).Build(context.Background(), Wanted{"v1.36.3", ""}, false); !errors.Is(err, build.ErrNoGo) {
		t.Errorf("%v", err)
	}
}

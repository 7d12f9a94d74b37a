package release

import (
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/build"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// The sources of the tool are those of plane/: what plane build compiles is what make
// build compiles.
func TestSourcesAreThoseOfThePlaneModule(t *testing.T) {
	for _, name := range []string{"main.go", "etcd.go"} {
		ours := repotest.Must(sources.ReadFile("source/" + name + ".txt"))(t)
		theirs, err := os.ReadFile(repotest.Path(t, "plane", name))
		if err != nil || string(ours) != string(theirs) {
			t.Errorf("source/%s.txt is not plane/%s: copy it (%v)", name, name, err)
		}
	}
}

const someMod = `module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

godebug (
	winsymlink=0
)

require (
	go.etcd.io/etcd/api/v3 v3.6.8
	go.etcd.io/etcd/server/v3 v3.6.8 // indirect
)

replace (
	k8s.io/kubelet => ./staging/src/k8s.io/kubelet
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/sample-apiserver => ./staging/src/k8s.io/sample-apiserver
	example.org/other => example.org/fork v1.0.0
)
`

func TestReadNeeds(t *testing.T) {
	n := repotest.Must(readNeeds(someMod))(t)
	if n.language != "1.26.0" || n.etcd != "v3.6.8" || !slices.Equal(n.godebug, []string{"default=go1.26", "winsymlink=0"}) ||
		!slices.Equal(n.staging, []string{"k8s.io/api", "k8s.io/kubelet", "k8s.io/sample-apiserver"}) {
		t.Errorf("%+v", n)
	}
	if _, err := readNeeds("module k8s.io/kubernetes\n\ngo 1.26.0\n"); err == nil {
		t.Error("a go.mod without modules of its repository passed")
	}
	without := func(lacking ...string) func(string) bool {
		return func(module string) bool { return !slices.Contains(lacking, module) }
	}
	for _, c := range []struct{ lacking, missing []string }{
		{nil, nil},
		{[]string{"k8s.io/sample-apiserver"}, nil}, // no component imports it
		{[]string{"k8s.io/sample-apiserver", "k8s.io/kubelet"}, []string{"k8s.io/kubelet"}},
	} {
		if got := n.missing(without(c.lacking...)); !slices.Equal(got, c.missing) {
			t.Errorf("without %v: missing %v, want %v", c.lacking, got, c.missing)
		}
	}
	const want = `module github.com/windtunnel/windtunnel/plane

go 1.26.0

godebug default=go1.26

godebug winsymlink=0

require k8s.io/kubernetes v1.36.3

require go.etcd.io/etcd/server/v3 v3.6.8

replace (
	k8s.io/api => k8s.io/api v0.36.3
	k8s.io/kubelet => k8s.io/kubelet v0.36.3
	k8s.io/sample-apiserver => ./unused
)
`
	if got := n.moduleFile(version{1, 36, 3}, "v3.6.8", without("k8s.io/sample-apiserver")); got != want {
		t.Errorf("got %s", got)
	}
}

func TestCheckNames(t *testing.T) {
	for _, c := range []struct{ kubernetes, etcd, words string }{
		{"v1.36.3", "v3.6.12", ""},
		{"", "", ""},
		{"1.36.3", "", `release "1.36.3": want the name of a release of Kubernetes, such as v1.37.1`},
		{"v1.36", "", "such as"},
		{"v2.0.0", "", "such as"},
		{"v1.36.3-rc.0", "", "such as"},
		{"v1.36.3", "3.6", `etcd "3.6": want the name of a release of etcd`},
		{"../../etc", "", "such as"},
	} {
		if err := CheckNames(c.kubernetes, c.etcd); (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%q, %q: %v", c.kubernetes, c.etcd, err)
		}
	}
}

func TestChooseEtcd(t *testing.T) {
	published := []string{"v3.5.21", "v3.5.31", "v3.6.8", "v3.6.16", "v3.6.12", "v3.7.0-rc.0", "v3.7.0", "v3.7.3"}
	for _, c := range []struct{ kubernetes, want string }{
		{"v1.30.14", "v3.5.21"}, // that of kubeadm
		{"v1.33.13", "v3.5.31"}, // kubeadm has 3.5.24, which the proxy lacks
		{"v1.36.3", "v3.6.12"},
		{"v1.37.1", "v3.7.0"},
		{"v1.38.0", "v3.7.3"}, // newer than this windtunnel
		{"v1.29.6", ""},
	} {
		v, _ := parseVersion(c.kubernetes)
		if got, err := chooseEtcd(v, published); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", c.kubernetes, got, err, c.want)
		}
	}
	if _, err := chooseEtcd(version{1, 36, 3}, nil); err == nil || !strings.Contains(err.Error(), "--etcd") {
		t.Errorf("nothing published: %v", err)
	}
}

func TestPatchesOf(t *testing.T) {
	published := []string{"v1.34.2", "v1.34.10", "v1.34.0-rc.1", "v1.3.4", "v1.35.0"}
	got, err := patchesOf("v1.34", published)
	if err != nil || fmt.Sprint(got) != "[v1.34.10 v1.34.2]" {
		t.Errorf("%v, %v", got, err)
	}
	for minor, words := range map[string]string{"v1.40": "its newest are v1.3.4, v1.34.2, v1.34.10, v1.35.0", "1.34": "such as v1.34", "v1.34.2": "such as v1.34"} {
		if _, err := patchesOf(minor, published); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", minor, err)
		}
	}
}

// Which plane is started, of those that there are.
func TestChoose(t *testing.T) {
	plane := func(kubernetes, etcd string) Plane {
		return Plane{Product: build.Product{Folder: folderOf(kubernetes, etcd, build.System)}, Kubernetes: kubernetes, Etcd: etcd}
	}
	beside := plane(Default, "v3.7.0")
	beside.Folder = "beside"
	a, b, c := plane("v1.36.3", "v3.6.12"), plane("v1.36.3", "v3.6.16"), plane(Default, "v3.7.3")
	odd := plane("v1.36.3", "v3.6.8")
	broken := Kept{plane("v1.35.4", "v3.6.12"), fmt.Errorf("kept: %w", build.ErrDamaged)}
	kept := func(all ...Plane) (out []Kept) {
		for _, p := range all {
			out = append(out, Kept{Plane: p})
		}
		return out
	}
	for _, x := range []struct {
		name   string
		wanted Wanted
		beside *Plane
		kept   []Kept
		want   string // folder, or words of the error
	}{
		{"beside first", Wanted{}, &beside, kept(c), "beside"},
		{"the default release of the cache", Wanted{}, nil, kept(a, c), c.Folder},
		{"nothing", Wanted{}, nil, kept(a), "kube-plane is neither beside windtunnel nor in its cache: run `windtunnel plane build v1.37.1`"},
		{"beside is that release", Wanted{Default, ""}, &beside, kept(c), "beside"},
		{"beside has another etcd", Wanted{Default, "v3.7.3"}, &beside, kept(c), c.Folder},
		{"another release", Wanted{"v1.36.3", ""}, &beside, kept(a, c), a.Folder},
		{"the etcd of plane build", Wanted{"v1.36.3", ""}, &beside, kept(b, a), a.Folder},
		{"an etcd by name", Wanted{"v1.36.3", "v3.6.16"}, &beside, kept(b, a), b.Folder},
		{"only an older etcd", Wanted{"v1.36.3", ""}, nil, kept(odd), odd.Folder},
		{"no such release", Wanted{"v1.33.13", "v3.5.31"}, &beside, kept(a), "run `windtunnel plane build v1.33.13 --etcd v3.5.31`"},
		{"a damaged one", Wanted{"v1.35.4", ""}, &beside, []Kept{broken}, "damaged: run `windtunnel plane build v1.35.4 --again`"},
	} {
		got, err := choose(x.wanted, x.beside, x.kept)
		if text := got.Folder + fmt.Sprint(err); !strings.Contains(text, x.want) || (err == nil) != (got.Folder == x.want) {
			t.Errorf("%s: %s, %v", x.name, got.Folder, err)
		}
	}
	older := plane("v1.36.3", "v3.6.9")
	if _, err := choose(Wanted{"v1.36.3", ""}, nil, kept(odd, older)); err == nil || !strings.Contains(err.Error(), "plane.etcd") {
		t.Errorf("two, and neither is the usual one: %v", err)
	}
}

// fill makes a plane of one small file.
func fill(text string) func(string) (Plane, error) {
	return func(folder string) (Plane, error) {
		p := Plane{Product: build.Product{Folder: folder, System: build.System}, Kubernetes: "v1.36.3", Etcd: "v3.6.12"}
		path := filepath.Join(folder, Executable)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			return p, err
		}
		return p, errors.Join(p.AddFile(path), p.Sum())
	}
}

// onlyFolder returns the names in a cache, without locks.
func namesIn(t *testing.T, c Cache) (out []string) {
	t.Helper()
	entries := repotest.Must(os.ReadDir(c.shelf.Folder))(t)
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}

// A plane comes into the cache whole or not at all, and one at a time.
func TestKeep(t *testing.T) {
	c := OpenCache(filepath.Join(t.TempDir(), "windtunnel", "planes"))
	name := folderOf("v1.36.3", "v3.6.12", build.System)
	failed := errors.New("does not compile")
	if _, err := c.keep(name, func(folder string) (Plane, error) {
		p, _ := fill("half")(folder)
		return p, failed
	}); !errors.Is(err, failed) || len(namesIn(t, c)) > 0 {
		t.Errorf("a build that failed: %v, left %v", err, namesIn(t, c))
	}
	repotest.NoError(t, os.MkdirAll(filepath.Join(c.shelf.Folder, "."+name+".new", "of a killed build"), 0o700))
	for _, text := range []string{"first", "second one"} {
		p, err := c.keep(name, func(folder string) (Plane, error) {
			if _, err := c.keep(name, fill("at the same time")); !errors.Is(err, build.ErrBusy) {
				t.Errorf("a second build at once: %v", err)
			}
			return fill(text)(folder)
		})
		if err != nil || p.Folder != filepath.Join(c.shelf.Folder, name) {
			t.Fatal(p, err)
		}
		kept, err := c.read(p.Folder)
		raw, _ := os.ReadFile(filepath.Join(p.Folder, Executable))
		if err != nil || string(raw) != text || kept.Executables[0].SHA256 != fmt.Sprintf("%x", sha256.Sum256([]byte(text))) {
			t.Errorf("%q, %+v, %v", raw, kept, err)
		}
		if err := kept.Sum(); err != nil {
			t.Error(err)
		}
	}
	if got := namesIn(t, c); !slices.Equal(got, []string{name}) {
		t.Errorf("the cache has %v", got)
	}
	if info, err := os.Stat(c.shelf.Folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the cache's mode: %v, %v", info.Mode(), err)
	}
	full := fmt.Errorf("write: %w", syscall.ENOSPC)
	if _, err := c.keep(name, func(string) (Plane, error) { return Plane{}, full }); !errors.Is(err, build.ErrNoRoom) {
		t.Errorf("a full file system: %v", err)
	}
	if _, err := c.read(filepath.Join(c.shelf.Folder, name)); err != nil {
		t.Errorf("the plane of before is gone: %v", err)
	}
}

func TestListSaysWhyAPlaneCannotBeStarted(t *testing.T) {
	c := OpenCache(t.TempDir())
	if kept, err := OpenCache(filepath.Join(c.shelf.Folder, "none")).List(); err != nil || len(kept) != 0 {
		t.Errorf("no cache: %v, %v", kept, err)
	}
	for name, x := range map[string]struct {
		record string
		is     error
		words  string
	}{
		"empty":   {"", build.ErrDamaged, "plane.json"},
		"torn":    {`{"format": 1, "kuber`, build.ErrDamaged, "JSON"},
		"newer":   {`{"format": 2, "kubernetes": {"version": "v1.40.0"}}`, build.ErrFormat, "its format is 2, this version reads 1"},
		"foreign": {`{"format": 1, "system": "plan9/arm"}`, build.ErrForeign, "it was built for plan9/arm"},
		"shorter": {`{"format": 1, "system": "` + build.System + `", "executables": [{"name": "plane.json", "bytes": 3}]}`, build.ErrDamaged, "had 3"},
		"lacking": {`{"format": 1, "system": "` + build.System + `", "executables": [{"name": "etcd", "bytes": 3}]}`, build.ErrDamaged, "etcd"},
	} {
		folder := filepath.Join(c.shelf.Folder, name)
		repotest.NoError(t, os.Mkdir(folder, 0o700))
		if x.record != "" {
			repotest.NoError(t, os.WriteFile(filepath.Join(folder, c.shelf.Record), []byte(x.record), 0o600))
		}
		if _, err := c.read(folder); !errors.Is(err, x.is) || !strings.Contains(err.Error(), x.words) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	kept, err := c.List()
	if err != nil || len(kept) != 6 || len(usable(kept)) != 0 {
		t.Errorf("%d planes, %d usable, %v", len(kept), len(usable(kept)), err)
	}
}

func TestCheckSums(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "etcd"), filepath.Join(dir, "kube-apiserver")
	repotest.NoError(t, errors.Join(os.WriteFile(a, []byte("a"), 0o600), os.WriteFile(b, []byte("b"), 0o600)))
	ofA, ofB := fmt.Sprintf("%x", sha256.Sum256([]byte("a"))), fmt.Sprintf("%x", sha512.Sum512([]byte("b")))
	for _, c := range []struct{ sums, words string }{
		{ofA + "  etcd\n" + ofB + " *server/bin/kube-apiserver\n", ""},
		{"# of a release\n\n" + strings.ToUpper(ofA) + "\tetcd\n" + ofB + "  kube-apiserver", ""},
		{ofA + "  etcd\n", "the file of sums does not name it"},
		{ofA + "  etcd\n" + ofA + "  kube-apiserver\n", "fetch it again"},
		{ofA[1:] + "  etcd\n", "line 1"},
		{ofA + "\n", "line 1"},
	} {
		err := checkSums([]string{a, b}, c.sums)
		if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%.20q...: %v", c.sums, err)
		}
	}
}

package program

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/build"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// modules are a controller and what it imports: a fork in place of one module, a folder of
// its repository in place of another.
func modules() map[string]map[string]string {
	const language = "\n\ngo 1.26.0\n"
	lib := func(name, says string) map[string]string {
		return map[string]string{"go.mod": "module example.org/" + name + language, "lib.go": "package " + name + "\n\nconst Says = \"" + says + "\"\n"}
	}
	needs := func(name, version string) map[string]string {
		return map[string]string{"go.mod": "module example.org/" + name + language + "\nrequire example.org/" + version + "\n",
			"main.go": "package main\n\nimport \"example.org/fork\"\n\nfunc main() { println(fork.Says) }\n"}
	}
	local := needs("local", "fork v0.0.0")
	local["go.mod"] += "\nreplace example.org/fork => ./fork\n"
	staged := needs("staged", "fork v0.0.0-00010101000000-000000000000")
	staged["go.mod"] += "\nreplace example.org/fork => ./staging/fork\n"
	newer := needs("newer", "fork v1.0.0")
	newer["go.mod"] = strings.Replace(newer["go.mod"], "1.26.0", "1.99", 1)
	return map[string]map[string]string{
		"example.org/operator@v1.2.3": {
			"go.mod": "module example.org/operator" + language + "\nrequire (\n\texample.org/fork v1.0.0\n\texample.org/api v1.1.0\n)\n\n" +
				"replace (\n\texample.org/fork => example.org/better v1.0.1\n\texample.org/api => ./api\n\texample.org/unused => ./unused\n)\n\nexclude example.org/fork v1.9.9\n",
			"cmd/manager/main.go":          "package main\n\nimport (\n\t\"example.org/api\"\n\t\"example.org/fork\"\n)\n\nfunc main() { print(fork.Says + \" \" + api.Says) }\n",
			"cmd/broken/main.go":           "package main\n\nfunc main() { missing() }\n",
			"lib/lib.go":                   "package lib\n\nconst Says = \"lib\"\n",
			"config/crd/bases/things.yaml": "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.org}\n",
			"config/rbac/role.yaml":        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\n",
			"config/performance.yml":       "queues: 3\n",
			"charts/templates/crd.yaml":    "\n{{ if .Values.crds }}\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n{{ end }}\n",
			"testdata/tool/main.go":        "package main\n\nfunc main() {}\n",
		},
		"example.org/operator@v1.2.2": {"go.mod": "module example.org/operator" + language},
		"example.org/fork@v1.0.0":     lib("fork", "original"),
		"example.org/better@v1.0.1":   {"go.mod": "module example.org/fork" + language, "lib.go": "package fork\n\nconst Says = \"fork\"\n"},
		"example.org/api@v1.1.0":      lib("api", "published"),
		"example.org/api@v1.2.0":      lib("api", "newer"),
		"example.org/local@v1.3.0":    local,
		"example.org/staged@v1.0.0":   staged,
		"example.org/lacking@v1.0.0":  needs("lacking", "fork v1.5.0"),
		"example.org/newer@v1.0.0":    newer,
		"example.org/root/v2@v2.0.0":  {"go.mod": "module example.org/root/v2" + language, "main.go": "package main\n\nfunc main() {}\n"},
	}
}

func wanted(module, version, pkg string) scenario.Build {
	return scenario.Build{Module: "example.org/" + module, Version: version, Package: pkg}
}

// A program is linked as its own go.mod says, and comes with the YAML files of its module.
func TestBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles")
	}
	repotest.UseModules(t, modules())
	cache := OpenCache(filepath.Join(t.TempDir(), "subjects"))
	b := Builder{Cache: cache, Progress: t.Output()}
	operator := wanted("operator", "v1.2.3", "./cmd/manager")
	p := repotest.Must(b.Build(t.Context(), operator, false))(t)
	said, err := exec.CommandContext(t.Context(), p.Path()).CombinedOutput()
	if err != nil || string(said) != "fork published" {
		t.Errorf("it says %q, %v", said, err)
	}
	if p.Module.Version != "v1.2.3" || !strings.HasPrefix(p.Module.Sum, "h1:") || filepath.Base(p.Path()) != "manager" || p.Package != "./cmd/manager" || len(p.Executables[0].SHA256) != 64 {
		t.Errorf("%+v", p)
	}
	if !slices.Equal(p.Definitions, []string{"config/crd/bases/things.yaml"}) || !slices.Equal(p.Manifests, []string{"config/rbac/role.yaml"}) {
		t.Errorf("definitions %q, manifests %q", p.Definitions, p.Manifests)
	}
	for _, pattern := range []string{"config/crd/bases/*.yaml", "config/performance.yml", "charts/templates/*.yaml"} {
		if files, err := p.Match(pattern); err != nil || len(files) != 1 {
			t.Errorf("%s: %q, %v", pattern, files, err)
		}
	}
	if _, err := p.Match("config/crd/*.yaml"); !errors.Is(err, ErrNoFile) {
		t.Errorf("a pattern without files: %v", err)
	}
	found, err := cache.Find(wanted("operator", "v1.2.3", "example.org/operator/cmd/manager"))
	if err != nil || found.Folder != p.Folder || found.Sum() != nil {
		t.Errorf("found %+v, %v", found, err)
	}
	var progress bytes.Buffer
	if _, err := (Builder{Cache: cache, Progress: &progress}).Build(t.Context(), operator, false); err != nil || !strings.Contains(progress.String(), "--again") {
		t.Errorf("a second build: %v, %q", err, progress.String())
	}
	if kept, err := cache.List(); err != nil || len(kept) != 1 || kept[0].Err != nil {
		t.Errorf("the cache has %+v, %v", kept, err)
	}
	repotest.NoError(t, os.Truncate(p.Path(), 3))
	if _, err := cache.Find(operator); !errors.Is(err, build.ErrDamaged) || !strings.Contains(err.Error(), "run `windtunnel subject build example.org/operator@v1.2.3 ./cmd/manager --again`") {
		t.Errorf("a damaged one: %v", err)
	}
	if p, err := b.Build(t.Context(), wanted("root/v2", "v2.0.0", "."), false); err != nil || filepath.Base(p.Path()) != "root" {
		t.Errorf("a root package of a major version: %q, %v", p.Path(), err)
	}
}

// A module without a main package is linked by a file of the scenario's, whose text decides
// whether the cache has the program.
func TestBuildOfAMainOfOnesOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles")
	}
	repotest.UseModules(t, modules())
	b := Builder{Cache: OpenCache(filepath.Join(t.TempDir(), "subjects")), Progress: t.Output()}
	operator := wanted("operator", "v1.2.3", "")
	operator.Main, operator.Folder = "main.go", t.TempDir()
	path := filepath.Join(operator.Folder, operator.Main)
	for _, says := range []string{"one", "two"} {
		text := "//go:build ignore\n\npackage main\n\nimport (\n\t\"example.org/fork\"\n\t\"example.org/operator/lib\"\n)\n\nfunc main() { print(fork.Says + lib.Says + \"" + says + "\") }\n"
		repotest.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := b.Cache.Find(operator); !errors.Is(err, ErrAbsent) || !strings.HasSuffix(err.Error(), "--main "+path+"`") {
			t.Errorf("before it is built: %v", err)
		}
		p := repotest.Must(b.Build(t.Context(), operator, false))(t)
		said, err := exec.CommandContext(t.Context(), p.Path()).CombinedOutput()
		if err != nil || string(said) != "forklib"+says {
			t.Errorf("it says %q, %v", said, err)
		}
		if p.Main != operator.Main || p.Module.Path != operator.Module || !strings.HasPrefix(p.Module.Sum, "h1:") || filepath.Base(p.Path()) != "operator" || len(p.Definitions) != 1 {
			t.Errorf("%+v", p)
		}
		if found, err := b.Cache.Find(operator); err != nil || found.Folder != p.Folder {
			t.Errorf("found %+v, %v", found, err)
		}
	}
	other := "package main\n\nimport \"example.org/fork\"\n\nfunc main() { print(fork.Says) }\n"
	repotest.NoError(t, os.WriteFile(path, []byte(other), 0o600))
	if _, err := b.Build(t.Context(), operator, false); err == nil || !strings.Contains(err.Error(), "main.go imports nothing of example.org/operator v1.2.3") {
		t.Errorf("a program without the module: %v", err)
	}
	operator.Main = "none.go"
	if _, err := b.Build(t.Context(), operator, false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// A module that the repository keeps in a folder, and requires at no version, is taken as it is
// published at the program's version.
func TestBuildBesideItsRepository(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles")
	}
	repotest.UseModules(t, modules())
	b := Builder{Cache: OpenCache(filepath.Join(t.TempDir(), "subjects")), Progress: t.Output()}
	staged := repotest.Must(b.Build(t.Context(), wanted("staged", "v1.0.0", "."), false))(t)
	if said, err := exec.CommandContext(t.Context(), staged.Path()).CombinedOutput(); err != nil || string(said) != "original\n" || !slices.ContainsFunc(staged.Modules, func(m build.Module) bool {
		return m.Path == "example.org/fork" && m.Version == "v1.0.0"
	}) {
		t.Errorf("with a module of its repository it says %q, %v; of %+v", said, err, staged.Modules)
	}
}

// What cannot be built is one sentence, said before anything is compiled, and leaves
// nothing in the cache.
func TestBuildRefuses(t *testing.T) {
	repotest.UseModules(t, modules())
	cache := OpenCache(filepath.Join(t.TempDir(), "subjects"))
	for _, c := range []struct {
		name     string
		wanted   scenario.Build
		is       error
		words    string
		compiles bool
	}{
		{"no version", wanted("operator", "", "."), nil, "is not a Go module at a version, such as sigs.k8s.io/kueue@v0.17.0", false},
		{"a word", wanted("operator", "latest", "."), nil, "is not a Go module at a version", false},
		{"outside", wanted("operator", "v1.2.3", "../other"), nil, `"../other" is not a package of example.org/operator`, false},
		{"no such version", wanted("operator", "v1.2.9", "."), ErrUnknown, "its newest are v1.2.2, v1.2.3", false},
		{"no such module", wanted("nothing", "v1.0.0", "."), ErrUnknown, "example.org/nothing v1.0.0: the module proxy does not have it; it has no version of that module: check the path, and which proxy GOPROXY names", false},
		{"no Go files", wanted("operator", "v1.2.3", "."), ErrNoMain, ". has no Go files; its main packages are ./cmd/broken, ./cmd/manager", false},
		{"a library", wanted("operator", "v1.2.3", "./lib"), ErrNoMain, "./lib is package lib", false},
		{"no program at all", wanted("api", "v1.1.0", "."), ErrNoMain, "none of its packages is one: name another module", false},
		{"a folder that nobody publishes", wanted("local", "v1.3.0", "."), ErrLocal, "replaces example.org/fork by the folder ./fork, and nobody publishes example.org/fork v1.3.0", false},
		{"a dependency that is withheld", wanted("lacking", "v1.0.0", "."), ErrNotWhole, "example.org/fork@v1.5.0", false},
		{"a newer Go", wanted("newer", "v1.0.0", "."), ErrNewerGo, "requires go >= 1.99 (running go ", false},
		{"a fault of its own", wanted("operator", "v1.2.3", "./cmd/broken"), ErrNotCompiled, "undefined: missing", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var progress bytes.Buffer
			_, err := Builder{Cache: cache, Progress: &progress}.Build(t.Context(), c.wanted, false)
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.words) || !c.compiles && strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("%v", err)
			}
			if compiles := strings.Contains(progress.String(), "compiling"); compiles != c.compiles {
				t.Errorf("compiles: %v", compiles)
			}
			if kept, err := cache.List(); err != nil || len(kept) > 0 {
				t.Errorf("the cache has %+v, %v", kept, err)
			}
		})
	}
}

// Two builds of one program at once: the second says so and leaves the first alone.
func TestBuildAtOnce(t *testing.T) {
	repotest.UseModules(t, modules())
	cache, operator := OpenCache(filepath.Join(t.TempDir(), "subjects")), wanted("operator", "v1.2.3", "./cmd/manager")
	err := cache.shelf.Keep(folderOf(operator, nil), 0, func(string) (any, error) {
		if _, err := (Builder{Cache: cache, Progress: t.Output()}).Build(t.Context(), operator, false); !errors.Is(err, build.ErrBusy) {
			t.Errorf("%v", err)
		}
		return nil, errors.New("does not compile")
	})
	if _, found := cache.Find(operator); !errors.Is(found, ErrAbsent) || !strings.Contains(found.Error(), "run `windtunnel subject build example.org/operator@v1.2.3 ./cmd/manager`") {
		t.Errorf("after %v: %v", err, found)
	}
}

func TestBuildWithoutGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := (Builder{Cache: OpenCache(t.TempDir()), Progress: &bytes.Buffer{}}).Build(context.Background(), wanted("operator", "v1.2.3", "."), false); !errors.Is(err, build.ErrNoGo) {
		t.Errorf("%v", err)
	}
}

package publish_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/publish"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// built is an executable with one module beside its own, and its digest.
func built(t testing.TB) (path, sum string) {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":         "module example.com/program\n\ngo 1.26\n\nrequire example.com/library v1.2.3\n\nreplace example.com/library => ./library\n",
		"main.go":        "package main\n\nimport \"example.com/library\"\n\nfunc main() { library.Do() }\n",
		"library/go.mod": "module example.com/library\n\ngo 1.26\n",
		"library/do.go":  "package library\n\nfunc Do() {}\n",
	} {
		repotest.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700))
		repotest.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", "program", ".")
	build.Dir, build.Env = folder, append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	path = filepath.Join(folder, "program")
	raw := repotest.Must(os.ReadFile(path))(t)
	return path, fmt.Sprintf("%x", sha256.Sum256(raw))
}

// checkOf is the check of that name.
func checkOf(t *testing.T, v *publish.Verification, name string) publish.Check {
	t.Helper()
	for _, c := range v.Checks {
		if c.Name == name {
			return c
		}
	}
	return publish.Check{State: "none"}
}

// TestComponents publishes runs whose executables are at hand, or not, or others.
func TestComponents(t *testing.T) {
	key := signer(t, "author")
	path, sum := built(t)
	find := func(string, record.Manifest) string { return path }
	fact := func(path, version string) *record.BuildFact {
		return &record.BuildFact{Executables: map[string]string{"kube-plane": sum}, Modules: map[string]string{path: version}}
	}
	for _, c := range []struct {
		name, state, why string
		sum              string
		plane            *record.BuildFact
		find             func(string, record.Manifest) string
	}{
		{name: "at hand", sum: sum, find: find, state: publish.Holds, why: "lists of components of 1 of 1 executable"},
		{name: "the plane's, too", sum: sum, plane: fact("example.com/library", "v1.2.3"), find: find, state: publish.Holds, why: "lists of components of 2 of 2 executables"},
		{name: "no digest", find: find, state: "none"},
		{name: "gone", sum: sum, state: publish.Holds, why: "0 of 1 executable; windtunnel: the executable was not at hand"},
		{name: "another", sum: strings.Repeat("a", 64), find: find, state: publish.Holds, why: "windtunnel: the executable at hand is another"},
		{name: "no Go", sum: fmt.Sprintf("%x", sha256.Sum256([]byte("#!/bin/sh\n"))), find: script(t), state: publish.Holds, why: "does not say what Go modules"},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := experiment(t, 1, func(f *flown) { f.sum, f.plane = c.sum, c.plane })
			raw := made(t, publish.Options{Source: source, Key: key, MadeBy: "v1", FindProgram: c.find})
			v := verify(t, raw, "v1", key)
			if got := checkOf(t, v, "components"); v.State != publish.Holds || got.State != c.state || !strings.Contains(got.Why, c.why) {
				t.Errorf("%s: %+v, want %q: %+v", v.State, got, c.why, v.Checks)
			}
		})
	}
	// A plane whose manifest names a module that the executable does not have.
	source := experiment(t, 1, func(f *flown) { f.plane = fact("example.com/other", "v1.0.0 h1:x") })
	if _, err := publish.Make(t.Context(), io.Discard, publish.Options{Source: source, MadeBy: "v1", FindProgram: find}); err == nil || !strings.Contains(err.Error(), "has the module example.com/other v1.0.0") {
		t.Errorf("%v", err)
	}
}

// script is a program that Go has not built.
func script(t *testing.T) func(string, record.Manifest) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "operator")
	repotest.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700))
	return func(string, record.Manifest) string { return path }
}

// TestComponentsAreCycloneDX reads a list as other tools would.
func TestComponentsAreCycloneDX(t *testing.T) {
	path, sum := built(t)
	raw := made(t, publish.Options{
		Source: experiment(t, 1, func(f *flown) { f.sum = sum }), MadeBy: "v1", FindProgram: func(string, record.Manifest) string { return path },
	})
	z := repotest.Must(zip.NewReader(bytes.NewReader(raw), int64(len(raw))))(t)
	var list struct {
		BOMFormat, SpecVersion string
		Components             []struct{ Name, Version, PURL string }
	}
	for _, f := range z.File {
		if !strings.HasPrefix(f.Name, "components/") {
			continue
		}
		in := repotest.Must(f.Open())(t)
		content := repotest.Must(io.ReadAll(in))(t)
		repotest.NoError(t, json.Unmarshal(expand(t, content), &list))
	}
	var found []string
	for _, c := range list.Components {
		found = append(found, c.PURL)
	}
	if want := "pkg:golang/std@" + runtime.Version() + " pkg:golang/example.com/library@v1.2.3"; list.BOMFormat != "CycloneDX" || list.SpecVersion != "1.6" || strings.Join(found, " ") != want {
		t.Errorf("%+v, want %s", list, want)
	}
}

// TestRecordsGrow expands records that become far larger than a run's do.
func TestRecordsGrow(t *testing.T) {
	author := signer(t, "author")
	whole := made(t, publish.Options{Source: experiment(t, 1, nil), Key: author, MadeBy: "v1"})
	f := &forger{t: t, author: author, files: filesOf(t, whole)}
	for name, c := range map[string]struct {
		content []byte
		why     string
	}{
		"zeros":    {compress(t, make([]byte, 100<<20)), "records.wt.gz: too large"},
		"cut":      {f.files["runs/a-01/records.wt.gz"][:50], "unexpected EOF"},
		"no gzip":  {[]byte("windtunnel records 2\n"), "invalid header"},
		"checksum": {damageEnd(f.files["runs/a-01/records.wt.gz"]), "invalid checksum"},
	} {
		f.files["runs/a-01/records.wt.gz"] = c.content
		v := verify(t, f.repack(f.files, 3, author), "v1", author)
		if got := checkOf(t, v, "results"); v.State != publish.Fails || !strings.Contains(got.Why, c.why) || strings.Contains(got.Why, os.TempDir()) {
			t.Errorf("%s: %s: %+v", name, v.State, v.Checks)
		}
	}
}

func damageEnd(raw []byte) []byte {
	out := bytes.Clone(raw)
	out[len(out)-8] ^= 1
	return out
}

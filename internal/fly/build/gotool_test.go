package build

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb"
	"golang.org/x/mod/sumdb/note"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

const otherSum = "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

// useLib lets the go command know one module, and returns that command.
func useLib(t *testing.T) GoTool {
	t.Helper()
	repotest.UseModules(t, map[string]map[string]string{
		"example.org/lib@v1.0.0": {"go.mod": "module example.org/lib\n\ngo 1.26.0\n", "lib.go": "package main\n\nfunc main() {}\n"},
	})
	tool, remove, err := FindGo(t.Output())
	repotest.NoError(t, err)
	t.Cleanup(remove)
	return tool
}

// serveSums is a checksum database that has another sum of each module.
func serveSums(t *testing.T) {
	t.Helper()
	signer, verifier, err := note.GenerateKey(rand.Reader, "sums.example.org")
	repotest.NoError(t, err)
	sums := sumdb.NewServer(sumdb.NewTestServer(signer, func(path, version string) ([]byte, error) {
		return []byte(path + " " + version + " " + otherSum + "\n" + path + " " + version + "/go.mod " + otherSum + "\n"), nil
	}))
	mux := http.NewServeMux()
	for _, path := range sumdb.ServerPaths {
		mux.Handle(path, sums)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Setenv("GOSUMDB", verifier+" "+server.URL)
	t.Setenv("GOPATH", t.TempDir()) // the go command keeps what it knows of a database there
}

// A module that is not the one of the checksum database, or of a go.sum, is one sentence that
// says so, whichever go command finds it.
func TestAnotherSum(t *testing.T) {
	for name, find := range map[string]func(t *testing.T, tool GoTool) error{
		"download": func(t *testing.T, tool GoTool) error {
			t.Helper()
			serveSums(t)
			all := repotest.Must(tool.Download(t.Context(), "example.org/lib@v1.0.0"))(t)
			there, err := all["example.org/lib"].IsThere()
			if there {
				t.Error("it is there")
			}
			return err
		},
		"build": func(t *testing.T, tool GoTool) error {
			t.Helper()
			for file, text := range map[string]string{
				"go.mod": "module example.org/program\n\ngo 1.26.0\n\nrequire example.org/lib v1.0.0\n", "go.sum": "example.org/lib v1.0.0 " + otherSum + "\n",
			} {
				repotest.NoError(t, os.WriteFile(filepath.Join(tool.Dir, file), []byte(text), 0o600))
			}
			_, err := tool.Run(t.Context(), "build", "-o", os.DevNull, "example.org/lib")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := find(t, useLib(t))
			if !errors.Is(err, ErrSum) || !strings.Contains(err.Error(), "has "+otherSum+": set GOPROXY to another proxy, or run `go clean -modcache`") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
		})
	}
}

// A full disk, or a proxy that lacks a module, is one sentence, whatever else the compilers say of it.
func TestExplain(t *testing.T) {
	err := explain("# example.org/lib\ncompile: writing output: write $WORK/b094/_pkg_.a: no space left on device\n# example.org/other\nlink: no space left on device\n")
	if !errors.Is(err, ErrNoRoom) || strings.Contains(err.Error(), "\n") || !strings.HasSuffix(err.Error(), "to folders with more: compile: writing output: write $WORK/b094/_pkg_.a: no space left on device") {
		t.Errorf("%v", err)
	}
	err = explain("/m/server@v1.2.3/raft.go:31:2: example.org/etcd/raft/v3@v3.5.31: reading https://example.org/etcd/raft/v3/@v/v3.5.31.zip: 403 Forbidden\n\tserver response: This module version is not available.\n")
	if err == nil || err.Error() != "the module proxy lacks example.org/etcd/raft/v3 v3.5.31: set GOPROXY to one that has it, or build another version" {
		t.Errorf("%v", err)
	}
	if err := explain("main.go:1:1: it does not compile\n"); err != nil {
		t.Errorf("%v", err)
	}
}

// Settings of a user that have nothing to do with what is built do not end a build.
func TestUsersSettings(t *testing.T) {
	tool := useLib(t)
	t.Setenv("GOFLAGS", "-modcacherw -mod=vendor")
	t.Setenv("GOWORK", filepath.Join(t.TempDir(), "go.work"))
	all := repotest.Must(tool.List(t.Context(), "example.org/lib@v1.0.0"))(t)
	if there, err := all["example.org/lib"].IsThere(); !there || err != nil {
		t.Errorf("%v, %v", there, err)
	}
}

// A proxy that cannot be asked is not one that lacks a module.
func TestIsThere(t *testing.T) {
	for name, tt := range map[string]struct{ proxy, want string }{
		"lacks it":    {"", ""},
		"is off":      {"off", "module lookup disabled by GOPROXY=off; `go env GOPROXY GOMODCACHE`"},
		"is no proxy": {"gopher://x", "GOPROXY GOMODCACHE` prints where"},
	} {
		t.Run(name, func(t *testing.T) {
			tool := useLib(t)
			if tt.proxy != "" {
				t.Setenv("GOPROXY", tt.proxy)
			}
			all := repotest.Must(tool.List(t.Context(), "example.org/lib@v1.9.0"))(t)
			there, err := all["example.org/lib"].IsThere()
			if there || (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%v, %v", there, err)
			}
		})
	}
}

func TestFindGoRefuses(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if _, _, err := FindGo(t.Output()); err == nil || !strings.Contains(err.Error(), "set TMPDIR to a folder that exists") {
		t.Errorf("%v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, _, err := FindGo(t.Output()); !errors.Is(err, ErrNoGo) {
		t.Errorf("%v", err)
	}
}

// The folder of a cache that cannot be made is one sentence with what to set.
func TestKeepRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	repotest.NoError(t, os.WriteFile(file, nil, 0o600))
	fill := func(string) (any, error) {
		t.Error("it is filled")
		return nil, context.Canceled
	}
	for name, tt := range map[string]struct {
		shelf Shelf
		room  uint64
		is    error
		want  string
	}{
		"a file":  {Shelf{Folder: filepath.Join(file, "planes")}, 0, nil, "set XDG_CACHE_HOME to a folder that can be written to"},
		"no room": {Shelf{Folder: t.TempDir()}, 1 << 62, ErrNoRoom, "free some, or set XDG_CACHE_HOME"},
	} {
		if err := tt.shelf.Keep("one", tt.room, fill); err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

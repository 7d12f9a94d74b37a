package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// standIn is an archive whose windtunnel is a script.
func standIn(t *testing.T, folder, script string) (name string) {
	t.Helper()
	name = "windtunnel_0.1.0_linux_" + runtime.GOARCH + ".tar.gz"
	source := t.TempDir()
	var files []file
	for _, f := range []struct {
		name, text string
		mode       os.FileMode
	}{
		{"LICENSE", "text\n", 0o644}, {"THIRD_PARTY_LICENSES", "text\n", 0o644}, {"completions/windtunnel.bash", "text\n", 0o644},
		{"kube-plane", "#!/bin/sh\n", 0o755}, {"man/windtunnel.1", "text\n", 0o644}, {"windtunnel", script, 0o755},
	} {
		path := filepath.Join(source, f.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(f.text), f.mode); err != nil {
			t.Fatal(err)
		}
		files = append(files, file{f.name, path, f.mode})
	}
	if err := writeArchive(filepath.Join(folder, name), strings.TrimSuffix(name, ".tar.gz"), files, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	return name
}

// writeSumOf writes the SHA256SUMS of one archive.
func writeSumOf(t *testing.T, folder, name, to string) {
	t.Helper()
	sum, err := sumOf(filepath.Join(folder, name))
	if err == nil {
		err = os.WriteFile(filepath.Join(to, "SHA256SUMS"), []byte("0000  other\n"+sum+"  "+name+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

const versionScript = "#!/bin/sh\necho windtunnel 0.1.0\n"

// The installer puts everything below the prefix, or nothing.
func TestInstall(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the archive of this test is for Linux")
	}
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, folder, archive string)
		args  []string
		want  string // in the output
		fails bool
	}{
		"good":            {want: "installed windtunnel 0.1.0 to "},
		"version":         {args: []string{"--version", "v0.1.0"}, want: "installed windtunnel 0.1.0 to "},
		"another version": {args: []string{"--version=0.2.0"}, want: "has windtunnel_0.1.0_linux_" + runtime.GOARCH + ".tar.gz, not version 0.2.0", fails: true},
		"bad sum": {func(t *testing.T, folder, archive string) {
			raw, err := os.ReadFile(filepath.Join(folder, archive))
			if err == nil {
				raw[len(raw)/2] ^= 1
				err = os.WriteFile(filepath.Join(folder, archive), raw, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, nil, "nothing was installed", true},
		"missing archive": {func(t *testing.T, folder, archive string) {
			if err := os.Remove(filepath.Join(folder, archive)); err != nil {
				t.Fatal(err)
			}
		}, nil, "cannot download", true},
		"missing sums": {func(t *testing.T, folder, _ string) {
			if err := os.Remove(filepath.Join(folder, "SHA256SUMS")); err != nil {
				t.Fatal(err)
			}
		}, nil, "cannot download", true},
		"no line": {func(t *testing.T, folder, _ string) {
			if err := os.WriteFile(filepath.Join(folder, "SHA256SUMS"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, nil, "names no archive for linux/" + runtime.GOARCH, true},
		"cut":              {func(*testing.T, string, string) {}, nil, "cannot download", true},
		"unknown argument": {args: []string{"--prefx", "/nowhere"}, want: "unknown argument --prefx", fails: true},
		"no value":         {args: []string{"--version"}, want: "--version needs a value", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder, prefix := t.TempDir(), filepath.Join(t.TempDir(), "a folder")
			archive := standIn(t, folder, versionScript)
			writeSumOf(t, folder, archive, folder)
			if tt.spoil != nil {
				tt.spoil(t, folder, archive)
			}
			served := http.FileServer(http.Dir(folder))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if name == "cut" && strings.HasSuffix(r.URL.Path, ".gz") {
					w.Header().Set("Content-Length", "100000")
					_, _ = w.Write([]byte("the beginning"))
					return // net/http breaks the connection off
				}
				served.ServeHTTP(w, r)
			}))
			defer server.Close()
			args := append([]string{"../../install.sh", "--base-url", server.URL, "--prefix", prefix}, tt.args...)
			c := exec.CommandContext(t.Context(), "sh", args...)
			c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}
			said, err := c.CombinedOutput()
			if (err != nil) != tt.fails || !strings.Contains(string(said), tt.want) {
				t.Errorf("%v\n%s", err, said)
			}
			files := []string{"bin/windtunnel", "bin/kube-plane", "share/man/man1/windtunnel.1", "share/windtunnel/completions/windtunnel.bash", "share/doc/windtunnel/LICENSE"}
			for _, name := range files {
				if _, err := os.Stat(filepath.Join(prefix, name)); (err != nil) != tt.fails {
					t.Errorf("%s: %v", name, err)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(strings.TrimPrefix(c.Env[2], "TMPDIR="), "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

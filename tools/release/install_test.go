package main

import (
	"bytes"
	"cmp"
	"errors"
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

// fullAtTool is a cp that finds no more room when it comes to windtunnel.
const fullAtTool = `#!/bin/sh
case $1 in
*/windtunnel) echo half >"$2"; echo "cp: error writing '$2': No space left on device" >&2; exit 1 ;;
esac
cat "$1" >"$2"
`

// noHalves holds that no file below a prefix is one that was not renamed.
func noHalves(t *testing.T, prefix string) {
	t.Helper()
	err := filepath.WalkDir(prefix, func(path string, _ os.DirEntry, err error) error {
		if strings.Contains(path, ".new.") {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
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

		stub      map[string]string // programs that come before those of the machine
		script    string            // in place of windtunnel
		installed bool              // although it fails
	}{
		"good":            {want: "installed windtunnel 0.1.0 to "},
		"version":         {args: []string{"--version", "v0.1.0"}, want: "installed windtunnel 0.1.0 to "},
		"another version": {args: []string{"--version=0.2.0"}, want: "has windtunnel_0.1.0_linux_" + runtime.GOARCH + ".tar.gz, not version 0.2.0", fails: true},
		"bad sum": {spoil: func(t *testing.T, folder, archive string) {
			raw, err := os.ReadFile(filepath.Join(folder, archive))
			if err == nil {
				raw[len(raw)/2] ^= 1
				err = os.WriteFile(filepath.Join(folder, archive), raw, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, want: "nothing was installed", fails: true},
		"missing archive": {spoil: func(t *testing.T, folder, archive string) {
			if err := os.Remove(filepath.Join(folder, archive)); err != nil {
				t.Fatal(err)
			}
		}, want: "cannot download", fails: true},
		"missing sums": {spoil: func(t *testing.T, folder, _ string) {
			if err := os.Remove(filepath.Join(folder, "SHA256SUMS")); err != nil {
				t.Fatal(err)
			}
		}, want: "cannot download", fails: true},
		"no line": {spoil: func(t *testing.T, folder, _ string) {
			if err := os.WriteFile(filepath.Join(folder, "SHA256SUMS"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, want: "names no archive for linux/" + runtime.GOARCH, fails: true},
		"another system":   {stub: map[string]string{"uname": "#!/bin/sh\n[ \"$1\" = -s ] && echo Plan9 || echo x86_64\n"}, want: "there is no archive for Plan9", fails: true},
		"another machine":  {stub: map[string]string{"uname": "#!/bin/sh\n[ \"$1\" = -s ] && echo Linux || echo riscv64\n"}, want: "there is no archive for riscv64", fails: true},
		"no room in /tmp":  {stub: map[string]string{"tar": "#!/bin/sh\necho 'tar: No space left on device' >&2\nexit 2\n"}, want: "if that is full, set TMPDIR to another folder", fails: true},
		"no room":          {stub: map[string]string{"cp": fullAtTool}, want: "nothing was installed: use --prefix DIR", fails: true},
		"does not run":     {script: "#!/bin/sh\nexit 126\n", want: "does not run on this machine", fails: true, installed: true},
		"cut":              {want: "cannot download", fails: true},
		"unknown argument": {args: []string{"--prefx", "/nowhere"}, want: "unknown argument --prefx", fails: true},
		"no value":         {args: []string{"--version"}, want: "--version needs a value", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder, prefix := t.TempDir(), filepath.Join(t.TempDir(), "a folder")
			archive := standIn(t, folder, cmp.Or(tt.script, versionScript))
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
			bin := t.TempDir()
			for name, text := range tt.stub {
				if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			c.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}
			said, err := c.CombinedOutput()
			if (err != nil) != tt.fails || !strings.Contains(string(said), tt.want) {
				t.Errorf("%v\n%s", err, said)
			}
			files := []string{"bin/windtunnel", "bin/kube-plane", "share/man/man1/windtunnel.1", "share/windtunnel/completions/windtunnel.bash", "share/doc/windtunnel/LICENSE"}
			for _, name := range files {
				if _, err := os.Stat(filepath.Join(prefix, name)); (err == nil) != (tt.installed || !tt.fails) {
					t.Errorf("%s: %v", name, err)
				}
			}
			noHalves(t, prefix)
			if left, _ := filepath.Glob(filepath.Join(strings.TrimPrefix(c.Env[2], "TMPDIR="), "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// Two installs at once end well, one over another that finds no room leaves what was there.
func TestInstallOver(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the archive of this test is for Linux")
	}
	folder, prefix, bin := t.TempDir(), t.TempDir(), t.TempDir()
	publish := func(script string) {
		writeSumOf(t, folder, standIn(t, folder, script), folder)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	defer server.Close()
	installer := func(path string) (*exec.Cmd, *bytes.Buffer) {
		c, said := exec.CommandContext(t.Context(), "sh", "../../install.sh", "--base-url", server.URL, "--prefix", prefix), new(bytes.Buffer)
		c.Env = []string{"PATH=" + path + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}
		c.Stdout, c.Stderr = said, said
		return c, said
	}
	publish(versionScript)
	first, said := installer("")
	second, alsoSaid := installer("")
	if err := errors.Join(first.Start(), second.Start()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Wait(), second.Wait()); err != nil {
		t.Errorf("two at once: %v\n%s%s", err, said, alsoSaid)
	}
	noHalves(t, prefix)
	publish("#!/bin/sh\necho windtunnel 0.1.0 again\n")
	if err := os.WriteFile(filepath.Join(prefix, "bin/kube-plane"), []byte("of before"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "cp"), []byte(fullAtTool), 0o700); err != nil {
		t.Fatal(err)
	}
	third, said := installer(bin + ":")
	if err := third.Run(); err == nil {
		t.Errorf("no error without room\n%s", said)
	}
	noHalves(t, prefix)
	for name, want := range map[string]string{"windtunnel": versionScript, "kube-plane": "of before"} {
		if raw, err := os.ReadFile(filepath.Join(prefix, "bin", name)); err != nil || string(raw) != want {
			t.Errorf("%s is %q, %v", name, raw, err)
		}
	}
}

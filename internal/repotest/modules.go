package repotest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// CommitOfModules is the commit that the proxy of UseModules knows of each module.
const CommitOfModules = "0123456789abcdef0123456789abcdef01234567"

// UseModules lets the go command know some modules and nothing else: the texts of their
// files, by MODULE@VERSION and name.
func UseModules(t *testing.T, modules map[string]map[string]string) {
	t.Helper()
	proxy := t.TempDir()
	for name, files := range modules {
		modulePath, version, _ := strings.Cut(name, "@")
		var all []modzip.File
		for file, text := range files {
			all = append(all, moduleFile{file, text})
		}
		var zip bytes.Buffer
		if err := modzip.Create(&zip, module.Version{Path: modulePath, Version: version}, all); err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(proxy, filepath.FromSlash(modulePath), "@v")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		known, err := os.ReadFile(filepath.Join(folder, "list"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		info := fmt.Sprintf(`{"Version": %q, "Time": "2026-10-01T12:00:00Z", "Origin": {"VCS": "git", "Hash": %q}}`, version, CommitOfModules)
		for file, text := range map[string]string{"list": string(known) + version + "\n", version + ".info": info, version + ".mod": files["go.mod"], version + ".zip": zip.String()} {
			if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, value := range map[string]string{"GOPROXY": "file://" + proxy, "GONOPROXY": "none", "GOSUMDB": "off", "GOMODCACHE": t.TempDir(), "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local"} {
		t.Setenv(name, value)
	}
}

// moduleFile is a file of a module that stands in a test.
type moduleFile struct{ name, text string }

func (f moduleFile) Path() string                { return f.name }
func (f moduleFile) Lstat() (os.FileInfo, error) { return f, nil }
func (f moduleFile) Open() (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(f.text)), nil
}
func (f moduleFile) Name() string       { return path.Base(f.name) }
func (f moduleFile) Size() int64        { return int64(len(f.text)) }
func (f moduleFile) Mode() os.FileMode  { return 0o644 }
func (f moduleFile) ModTime() time.Time { return time.Time{} }
func (f moduleFile) IsDir() bool        { return false }
func (f moduleFile) Sys() any           { return nil }

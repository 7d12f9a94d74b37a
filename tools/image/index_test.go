package main

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// folderOf holds both executables of an architecture.
func folderOf(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	raw, err := os.ReadFile(path)
	for _, name := range []string{program, plane} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), raw, 0o700)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// An index has an image for each architecture, is the same each time, and arrives whole at a
// registry.
func TestMakeIndex(t *testing.T) {
	path := standIn(t)
	folders := []string{folderOf(t, path), folderOf(t, altered(t, path, 18, 183))}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	first, second := filepath.Join(t.TempDir(), "a.tar"), filepath.Join(t.TempDir(), "b.tar")
	digest, err := makeIndex(folders, first, "windtunnel:v0.1.0", at)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := makeIndex(folders, second, "windtunnel:v0.1.0", at); err != nil || again != digest {
		t.Errorf("digest %v, then %v, %v", digest, again, err)
	}
	a, errA := os.ReadFile(first)
	b, errB := os.ReadFile(second)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("the archives differ (%d and %d bytes), %v, %v", len(a), len(b), errA, errB)
	}
	server := httptest.NewServer(registry.New())
	defer server.Close()
	to := strings.TrimPrefix(server.URL, "http://") + "/windtunnel:v0.1.0"
	if pushed, err := pushIndex(first, to, authn.Anonymous); err != nil || pushed != digest {
		t.Errorf("pushed %v, %v, not %v", pushed, err, digest)
	}
	ref, err := name.ParseReference(to)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 || manifest.Manifests[0].Platform.Architecture != "amd64" || manifest.Manifests[1].Platform.Architecture != "arm64" {
		t.Errorf("index %+v, %v", manifest, err)
	}
}

func TestMakeIndexRefuses(t *testing.T) {
	path := standIn(t)
	one := folderOf(t, path)
	for name, tt := range map[string]struct {
		folders []string
		tag     string
		want    string
	}{
		"twice":   {[]string{one, one}, "w:1", "both for amd64"},
		"missing": {[]string{t.TempDir()}, "w:1", "no such file"},
		"tag":     {[]string{one}, "W W", "-tag"},
	} {
		out := filepath.Join(t.TempDir(), "index.tar")
		if _, err := makeIndex(tt.folders, out, tt.tag, time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := filepath.Glob(out + "*"); len(left) > 0 {
			t.Errorf("%s left %v", name, left)
		}
	}
	damaged := filepath.Join(t.TempDir(), "index.tar")
	if err := os.WriteFile(damaged, []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pushIndex(damaged, "localhost:1/w:1", authn.Anonymous); err == nil {
		t.Error("a damaged archive was pushed")
	}
}

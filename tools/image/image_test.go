package main

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// standIn builds a small program that needs nothing but the kernel.
func standIn(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source, path := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() { println(\"here\") }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "go", "build", "-o", path, source)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// altered is a copy of a program with two bytes of its own.
func altered(t *testing.T, path string, at int, value uint16) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint16(raw[at:], value)
	out := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(out, raw, 0o700); err != nil {
		t.Fatal(err)
	}
	return out
}

// The same program gives the same image, of its own architecture; it takes the place of
// the one before and leaves nothing beside it.
func TestMakeImage(t *testing.T) {
	path, out := standIn(t), filepath.Join(t.TempDir(), "image")
	first, err := makeImage(executables{path, path}, out, "windtunnel:test")
	if err != nil {
		t.Fatal(err)
	}
	again, err := makeImage(executables{path, path}, out, "windtunnel:test")
	if err != nil || again != first {
		t.Errorf("digest %v, then %v, %v", first, again, err)
	}
	const machine, arm64 = 18, 183
	other := altered(t, path, machine, arm64)
	third, err := makeImage(executables{other, other}, out, "registry.example/windtunnel:v1")
	if err != nil || third == first {
		t.Errorf("another program: digest %v, %v", third, err)
	}
	l, err := layout.FromPath(out)
	if err != nil {
		t.Fatal(err)
	}
	img, err := l.Image(third)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil || file.Architecture != "arm64" || file.Config.User != "65532:65532" || !slices.Equal(file.Config.Entrypoint, []string{"/windtunnel"}) {
		t.Errorf("config %+v, %v", file, err)
	}
	entries, err := os.ReadDir(filepath.Dir(out))
	if err != nil || len(entries) != 2 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// What cannot be an image is said, and what is there is left alone.
func TestMakeImageRefuses(t *testing.T) {
	path := standIn(t)
	const firstSegment, interpreter = 64, 3
	script := filepath.Join(t.TempDir(), "script")
	mine := t.TempDir()
	for _, name := range []string{script, filepath.Join(mine, "diary")} {
		if err := os.WriteFile(name, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct{ binary, out, tag, want string }{
		"dynamic":     {altered(t, path, firstSegment, interpreter), "", "w:1", "CGO_ENABLED=0"},
		"script":      {script, "", "w:1", "not a program of Linux"},
		"missing":     {filepath.Join(mine, "none"), "", "w:1", "no such file"},
		"machine":     {altered(t, path, 18, 2), "", "w:1", "no image for"},
		"two kinds":   {altered(t, path, 18, 183), "", "w:1", "for one architecture"},
		"tag":         {path, "", "W W", "-tag"},
		"no layout":   {path, mine, "w:1", "left alone"},
		"not to make": {path, filepath.Join(script, "image"), "w:1", "not a directory"},
	} {
		if tt.out == "" {
			tt.out = filepath.Join(t.TempDir(), "image")
		}
		if _, err := makeImage(executables{path, tt.binary}, tt.out, tt.tag); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(mine, "diary")); err != nil {
		t.Error(err)
	}
}

// Whatever is wrong with an image on disk is found.
func TestCheck(t *testing.T) {
	path := standIn(t)
	write := func(alter func(v1.Image) (v1.Image, error)) (folder, archive string) {
		img, err := imageOf(executables{path, path})
		if err == nil && alter != nil {
			img, err = alter(img)
		}
		dir := t.TempDir()
		folder, archive = filepath.Join(dir, "layout"), filepath.Join(dir, "tar")
		if err == nil {
			err = writeLayout(folder, img, "t")
		}
		if err == nil {
			err = tarball.WriteToFile(archive, name.MustParseReference("w:t"), img)
		}
		if err != nil {
			t.Fatal(err)
		}
		return folder, archive
	}
	whole, archive := write(nil)
	if _, err := check(whole, archive, executables{path, path}); err != nil {
		t.Errorf("nothing is wrong: %v", err)
	}
	if _, err := check(whole, archive, executables{path, altered(t, path, 8, 0xffff)}); err == nil {
		t.Error("another program passed")
	}
	config := func(change func(*v1.ConfigFile)) func(v1.Image) (v1.Image, error) {
		return func(img v1.Image) (v1.Image, error) {
			file, err := img.ConfigFile()
			if err != nil {
				return nil, err
			}
			change(file)
			return mutate.ConfigFile(img, file)
		}
	}
	for name, change := range map[string]func(*v1.ConfigFile){
		"root":         func(f *v1.ConfigFile) { f.Config.User = "" },
		"entrypoint":   func(f *v1.ConfigFile) { f.Config.Entrypoint = []string{"/bin/sh"} },
		"command":      func(f *v1.ConfigFile) { f.Config.Cmd = []string{"up"} },
		"architecture": func(f *v1.ConfigFile) { f.Architecture = "s390x" },
	} {
		folder, beside := write(config(change))
		if _, err := check(folder, beside, executables{path, path}); err == nil {
			t.Errorf("%s: it passed", name)
		}
		if _, err := check(whole, beside, executables{path, path}); err == nil {
			t.Errorf("%s: a tarball of another image passed", name)
		}
	}
	damage(t, whole)
	if _, err := check(whole, archive, executables{path, path}); err == nil {
		t.Error("a damaged layer passed")
	}
}

// damage alters a byte of the largest blob of a layout.
func damage(t *testing.T, folder string) {
	t.Helper()
	blobs, err := filepath.Glob(filepath.Join(folder, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var largest []byte
	var at string
	for _, blob := range blobs {
		raw, err := os.ReadFile(blob)
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) > len(largest) {
			largest, at = raw, blob
		}
	}
	largest[len(largest)/2] ^= 1
	if err := os.Chmod(at, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, largest, 0o600); err != nil {
		t.Fatal(err)
	}
}

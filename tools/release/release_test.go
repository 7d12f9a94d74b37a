package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// The same files make the same archives and packages, whenever and wherever.
func TestSameBytes(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var first map[string][]byte
	for range 2 {
		root := t.TempDir()
		b := build{root: root, dist: filepath.Join(root, "dist"), work: filepath.Join(root, "dist/build"), tag: "v0.1.0", time: at, plane: true, targets: []target{{"linux", "amd64"}, {"windows", "amd64"}}}
		for _, path := range []string{
			"LICENSE", "README.md", "CHANGELOG.md", "dist/build/completions/windtunnel.bash", "dist/build/completions/windtunnel.powershell", "dist/build/man/windtunnel.1",
			"dist/build/linux_amd64/windtunnel", "dist/build/linux_amd64/kube-plane", "dist/build/linux_amd64/THIRD_PARTY_LICENSES",
			"dist/build/windows_amd64/windtunnel.exe", "dist/build/windows_amd64/THIRD_PARTY_LICENSES",
		} {
			full := filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, []byte(path), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, write := range []func() error{
			func() error { return b.writeArchives(t.Context()) }, func() error { return b.writePackages(t.Context()) }, func() error { return b.writeSums(t.Context()) },
		} {
			if err := write(); err != nil {
				t.Fatal(err)
			}
		}
		got := map[string][]byte{}
		for _, name := range []string{"windtunnel_0.1.0_linux_amd64.tar.gz", "windtunnel_0.1.0_windows_amd64.zip", "windtunnel_0.1.0_linux_amd64.deb", "windtunnel_0.1.0_linux_amd64.rpm", "SHA256SUMS"} {
			raw, err := os.ReadFile(b.path(name))
			if err != nil {
				t.Fatal(err)
			}
			got[name] = raw
			if first != nil && !bytes.Equal(first[name], raw) {
				t.Errorf("%s differs between two folders", name)
			}
		}
		first = got
	}
}

// A signature of the sums is made with an SSH key and verifies with its public half.
func TestSignature(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if said, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "release", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	b := build{dist: filepath.Join(dir, "dist"), tag: "v0.1.0"}
	if err := os.Mkdir(b.dist, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SIGNING_KEY_FILE", key)
	if err := b.writeSums(t.Context()); err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	allowed := filepath.Join(dir, "allowed")
	if err := os.WriteFile(allowed, append([]byte("release@windtunnel "), public...), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"": true, "another text\n": false} {
		sums, err := os.ReadFile(b.path("SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), "ssh-keygen", "-Y", "verify", "-f", allowed, "-I", "release@windtunnel", "-n", signatureNamespace, "-s", b.path("SHA256SUMS.sig"))
		c.Stdin = bytes.NewReader(append(sums, text...))
		if said, err := c.CombinedOutput(); (err == nil) != want {
			t.Errorf("%q: %v\n%s", text, err, said)
		}
	}
	t.Setenv("SIGNING_KEY_FILE", filepath.Join(dir, "none"))
	if err := b.writeSums(t.Context()); err == nil {
		t.Error("no error without the key")
	}
	if _, err := os.Stat(b.path("SHA256SUMS")); err == nil {
		t.Error("sums without the signature that was asked for")
	}
}

// Formula and plugin manifest name each archive with its sum.
func TestManifests(t *testing.T) {
	dir := t.TempDir()
	b := build{root: "../..", dist: dir, work: filepath.Join(dir, "build"), tag: "v0.1.0", plane: true, targets: allTargets()}
	for _, target := range b.targets {
		if err := os.WriteFile(b.path(b.archiveName(target)), []byte(target.os+target.arch), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.writeManifests(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, archives := range map[string]int{"windtunnel.rb": 4, "krew.yaml": 5} {
		raw, err := os.ReadFile(b.path(name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		if n := strings.Count(text, "https://github.com/windtunnel/windtunnel/releases/download/v0.1.0/windtunnel_0.1.0_"); n != archives {
			t.Errorf("%s names %d archives, not %d:\n%s", name, n, archives, text)
		}
		sum, err := sumOf(b.path("windtunnel_0.1.0_darwin_arm64.tar.gz"))
		if err != nil || strings.Count(text, sum) != 1 || strings.Contains(text, "{{") || strings.Contains(text, "<no value>") {
			t.Errorf("%s, %v:\n%s", name, err, text)
		}
	}
}

// The manifest of the kubectl plugin has the fields that krew reads, and no other: on each
// platform the executable is one of the files that are installed.
func TestPluginManifest(t *testing.T) {
	dir := t.TempDir()
	b := build{root: "../..", dist: dir, work: filepath.Join(dir, "build"), tag: "v0.1.0", plane: true, targets: allTargets()}
	for _, target := range b.targets {
		if err := os.WriteFile(b.path(b.archiveName(target)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.writeManifests(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(b.path("krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var plugin struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name string }
		Spec       struct {
			Version, Homepage, Description, Caveats string
			ShortDescription                        string `yaml:"shortDescription"`
			Platforms                               []struct {
				URI, SHA256, Bin string
				Selector         struct {
					MatchLabels map[string]string `yaml:"matchLabels"`
				}
				Files []struct{ From, To string }
			}
		}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&plugin); err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	spec := plugin.Spec
	if plugin.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || plugin.Kind != "Plugin" || plugin.Metadata.Name != "windtunnel" || spec.Version != "v0.1.0" ||
		spec.ShortDescription == "" || len(spec.Platforms) != len(b.targets) {
		t.Errorf("%+v", plugin)
	}
	for i, p := range spec.Platforms {
		target, installed := b.targets[i], false
		for _, f := range p.Files {
			installed = installed || f.To == "." && f.From == "*/"+p.Bin
		}
		if labels := p.Selector.MatchLabels; labels["os"] != target.os || labels["arch"] != target.arch || len(p.SHA256) != 64 || !strings.HasSuffix(p.URI, "/"+b.archiveName(target)) || !installed {
			t.Errorf("%s/%s: %+v", target.os, target.arch, p)
		}
	}
}

// A module whose license nobody knows ends a release.
func TestReadLicense(t *testing.T) {
	apache, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		file, text string
		known      bool
	}{
		"apache":   {"LICENSE", string(apache), true},
		"spelling": {"Licence.txt", string(apache), true},
		"own":      {"LICENSE", "Nobody may do anything with this.\n", false},
		"none":     {"README", string(apache), false},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, tt.file), []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if text, err := readLicense(dir); (err == nil) != tt.known || (tt.known && !strings.Contains(text, "Apache License")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewBuildRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ tag, targets, want string }{
		"no version": {"", "", "use the form v0.1.0"},
		"no v":       {"0.1.0", "", "use the form v0.1.0"},
		"branch":     {"main", "", "use the form v0.1.0"},
		"a command":  {"v0.1.0;true", "", "use the form v0.1.0"},
		"system":     {"v0.1.0", "plan9/amd64", "plan9/amd64 is not a system of a release"},
	} {
		if _, err := newBuild(t.Context(), "../..", tt.tag, tt.targets, true, true); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

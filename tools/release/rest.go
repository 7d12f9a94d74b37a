package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// writeComponents writes the list of components (SBOM, CycloneDX) of each executable. It is
// read from the executable itself.
func (b build) writeComponents(ctx context.Context) error {
	for _, t := range b.targets {
		for _, path := range b.executables(t) {
			name := strings.TrimSuffix(filepath.Base(path), ".exe")
			out := b.path(fmt.Sprintf("%s_%s_%s_%s.cdx.json", name, b.version(), t.os, t.arch))
			if err := b.start(ctx, "tools/release", nil, "go", "tool", "cyclonedx-gomod", "bin",
				"-json", "-std", "-noserial", "-notimestamp", "-version", b.tag, "-output", out, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeImage writes the OCI index of the Linux targets as an archive. An image needs the plane.
func (b build) writeImage(ctx context.Context) error {
	args := []string{"run", ".", "-out", b.path(fmt.Sprintf("windtunnel_%s_oci.tar", b.version())), "-tag", "windtunnel:" + b.tag, "-created", b.time.Format("2006-01-02T15:04:05Z")}
	images := 0
	for _, t := range b.targets {
		if b.hasPlane(t) {
			images++
			args = append(args, "-index", filepath.Dir(b.tool(t)))
		}
	}
	if images == 0 {
		fmt.Println("release: no image without kube-plane")
		return nil
	}
	return b.start(ctx, "tools/image", nil, "go", args...)
}

func (b build) copyInstaller(context.Context) error {
	raw, err := os.ReadFile(filepath.Join(b.root, "install.sh"))
	if err != nil {
		return err
	}
	return os.WriteFile(b.path("install.sh"), raw, 0o755)
}

// manifest is what the templates of package managers see.
type manifest struct {
	b         build
	Tag       string
	Version   string
	Platforms []platform
}

// platform is one archive of a release.
type platform struct {
	OS, Arch, URL, Sum, Binary string
	Plane                      bool
}

func (m manifest) find(os, arch string) (platform, error) {
	for _, p := range m.Platforms {
		if p.OS == os && p.Arch == arch {
			return p, nil
		}
	}
	return platform{}, fmt.Errorf("the release has no archive for %s/%s", os, arch)
}

// URL and Sum are for templates that name a platform.
func (m manifest) URL(os, arch string) (string, error) { p, err := m.find(os, arch); return p.URL, err }
func (m manifest) Sum(os, arch string) (string, error) { p, err := m.find(os, arch); return p.Sum, err }

func (b build) newManifest() (manifest, error) {
	m := manifest{b: b, Tag: b.tag, Version: b.version()}
	for _, t := range b.targets {
		name := b.archiveName(t)
		sum, err := sumOf(b.path(name))
		if err != nil {
			return m, err
		}
		m.Platforms = append(m.Platforms, platform{
			OS: t.os, Arch: t.arch, Sum: sum, Binary: filepath.Base(b.tool(t)), Plane: b.hasPlane(t),
			URL: "https://github.com/windtunnel/windtunnel/releases/download/" + b.tag + "/" + name,
		})
	}
	return m, nil
}

// writeManifests fills in the formula of Homebrew and the manifest of krew. They name all
// targets, so that a release of some has none.
func (b build) writeManifests(context.Context) error {
	if len(b.targets) < len(allTargets()) {
		fmt.Println("release: no manifests of package managers for a part of the targets")
		return nil
	}
	m, err := b.newManifest()
	if err != nil {
		return err
	}
	for _, name := range []string{"windtunnel.rb", "krew.yaml"} {
		raw, err := renderManifest(filepath.Join(b.root, "tools/release/templates", name), m)
		if err == nil {
			err = os.WriteFile(b.path(name), raw, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func renderManifest(path string, m manifest) ([]byte, error) {
	t, err := template.ParseFiles(path)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Option("missingkey=error").Execute(&out, m)
	return out.Bytes(), err
}

// writeAction writes the content of the repository windtunnel/action: the action with the
// sums of this release. The sums cannot be in the commit that the release is built from.
func (b build) writeAction(context.Context) error {
	folder := filepath.Join(b.work, "action")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var sums strings.Builder
	for _, t := range b.targets {
		if t.os != "linux" {
			continue
		}
		sum, err := sumOf(b.path(b.archiveName(t)))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, b.archiveName(t))
	}
	source := filepath.Join(b.root, "tools/release/action")
	readme, err := os.ReadFile(filepath.Join(source, "README.md"))
	if err != nil {
		return err
	}
	files := []file{{"LICENSE", filepath.Join(b.root, "LICENSE"), 0o644}}
	for name, text := range map[string]string{
		"SHA256SUMS": sums.String(), "VERSION": b.version() + "\n", "README.md": strings.ReplaceAll(string(readme), "@TAG@", b.tag),
	} {
		files = append(files, file{name, filepath.Join(folder, name), 0o644})
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	files = append(files, file{"action.yml", filepath.Join(source, "action.yml"), 0o644}, file{"run.sh", filepath.Join(source, "run.sh"), 0o755})
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	name := fmt.Sprintf("windtunnel-action_%s.tar.gz", b.version())
	return writeArchive(b.path(name), "windtunnel-action", files, b.time)
}

// signatureNamespace is what a signature is for: ssh-keygen -Y verify -n asks for it.
const signatureNamespace = "windtunnel-release"

// writeSums writes the sums of all files of the release, and signs them with the SSH key of
// SIGNING_KEY_FILE, if that is set.
func (b build) writeSums(ctx context.Context) error {
	entries, err := os.ReadDir(b.dist)
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, e := range entries { // sorted by name
		if e.IsDir() {
			continue
		}
		sum, err := sumOf(b.path(e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, e.Name())
	}
	path := b.path("SHA256SUMS")
	if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
		return err
	}
	key := os.Getenv("SIGNING_KEY_FILE")
	if key == "" {
		fmt.Println("release: SIGNING_KEY_FILE is not set: SHA256SUMS has no signature")
		return nil
	}
	c := exec.CommandContext(ctx, "ssh-keygen", "-q", "-Y", "sign", "-n", signatureNamespace, "-f", key, path)
	if said, err := c.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("sign: %s: %w", bytes.TrimSpace(said), err), os.Remove(path))
	}
	return nil
}

func sumOf(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Where the executables are in the image.
const (
	program = "windtunnel"
	plane   = "kube-plane"
)

// user is a number, since a kubelet that is to run no root cannot tell by a name.
const user = "65532:65532"

// executables are the paths of what an image holds.
type executables struct{ tool, plane string }

// names returns the paths by their names in the image.
func (e executables) names() map[string]string {
	return map[string]string{program: e.tool, plane: e.plane}
}

// architecture returns what all executables run on.
func (e executables) architecture() (string, error) {
	tool, err := architectureOf(e.tool)
	if err != nil {
		return "", fmt.Errorf("%s: %w", e.tool, err)
	}
	plane, err := architectureOf(e.plane)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", e.plane, err)
	case tool != plane:
		return "", fmt.Errorf("%s was built for %s, %s for %s: build both for one architecture", e.tool, tool, e.plane, plane)
	}
	return tool, nil
}

// makeImage writes the image of executables as a layout and as a tarball, holds both
// against the executables, and returns the digest. What was there before stays until then.
func makeImage(e executables, out, tag string) (digest v1.Hash, err error) {
	ref, err := name.NewTag(tag)
	if err != nil {
		return digest, fmt.Errorf("-tag: %w", err)
	}
	if err := replaceable(out); err != nil {
		return digest, err
	}
	img, err := imageOf(e)
	if err != nil {
		return digest, err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return digest, err
	}
	made, err := os.MkdirTemp(filepath.Dir(out), filepath.Base(out)+".new-")
	if err != nil {
		return digest, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	folder, archive := filepath.Join(made, "layout"), filepath.Join(made, "tar")
	if err := writeLayout(folder, img, ref.TagStr()); err != nil {
		return digest, fmt.Errorf("write the layout: %w", err)
	}
	if err := tarball.WriteToFile(archive, ref, img); err != nil {
		return digest, fmt.Errorf("write the tarball: %w", err)
	}
	if digest, err = check(folder, archive, e); err != nil {
		return digest, fmt.Errorf("what was written is not the image: %w", err)
	}
	return digest, errors.Join(os.RemoveAll(out), os.Rename(folder, out), os.Rename(archive, out+".tar"))
}

// replaceable keeps from removing a folder that is no layout.
func replaceable(out string) error {
	_, err := os.Stat(out)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		if _, err = layout.FromPath(out); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s is there and is not an image's layout: it is left alone; name another folder: %w", out, err)
}

// imageOf makes the image of executables: one layer with them and a folder for
// temporary files.
func imageOf(e executables) (v1.Image, error) {
	architecture, err := e.architecture()
	if err != nil {
		return nil, err
	}
	files, err := layerOf(e)
	if err != nil {
		return nil, fmt.Errorf("make the layer: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("make the layer: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "make image"}})
	if err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file.OS, file.Architecture = "linux", architecture
	file.Config = v1.Config{
		Entrypoint: []string{"/" + program}, User: user, WorkingDir: "/tmp",
		Labels: map[string]string{"org.opencontainers.image.title": "windtunnel", "org.opencontainers.image.licenses": "Apache-2.0"},
	}
	return mutate.ConfigFile(img, file)
}

// layerOf is the layer's tarball. Its times are 1970, so that the digest is one of the
// executables alone.
func layerOf(e executables) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	epoch, names := time.Unix(0, 0), e.names()
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777, ModTime: epoch}); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		raw, err := os.ReadFile(names[name])
		if err == nil {
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o555, Size: int64(len(raw)), ModTime: epoch})
		}
		if err == nil {
			_, err = w.Write(raw)
		}
		if err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// architectureOf says what a program runs on. The image has nothing but the program, so
// that it must need nothing else.
func architectureOf(binary string) (string, error) {
	file, err := elf.Open(binary)
	if err != nil {
		return "", fmt.Errorf("not a program of Linux: %w", err)
	}
	defer file.Close()
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return "", errors.New("it needs the C library, which the image does not have: build it with CGO_ENABLED=0, as `make image` does")
	}
	switch file.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	case elf.EM_S390:
		return "s390x", nil
	}
	return "", fmt.Errorf("no image for %v: only amd64, arm64 and s390x", file.Machine)
}

// writeLayout writes a layout with one image. The tag is where skopeo and others look
// for it.
func writeLayout(folder string, img v1.Image, tag string) error {
	l, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return err
	}
	return l.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag}),
		layout.WithPlatform(v1.Platform{OS: file.OS, Architecture: file.Architecture}))
}

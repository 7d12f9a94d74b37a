package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// check reads what was written and holds it against the executables: every digest and size,
// what is run, as whom and where, and each byte. It returns the image's digest.
func check(folder, archive string, e executables) (v1.Hash, error) {
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := validate.Index(index); err != nil {
		return v1.Hash{}, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return v1.Hash{}, err
	}
	if len(manifest.Manifests) != 1 {
		return v1.Hash{}, fmt.Errorf("the layout has %d images", len(manifest.Manifests))
	}
	digest := manifest.Manifests[0].Digest
	img, err := index.Image(digest)
	if err != nil {
		return v1.Hash{}, err
	}
	loaded, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := validate.Image(loaded); err != nil {
		return v1.Hash{}, fmt.Errorf("tarball: %w", err)
	}
	a, errA := img.ConfigName()
	b, errB := loaded.ConfigName()
	if err := errors.Join(errA, errB); err != nil || a != b {
		return v1.Hash{}, errors.Join(fmt.Errorf("the tarball has image %v, the layout %v", b, a), err)
	}
	return digest, errors.Join(checkConfig(img, e), checkExecutables(img, e))
}

// checkConfig looks at what a kubelet goes by.
func checkConfig(img v1.Image, e executables) error {
	file, err := img.ConfigFile()
	if err != nil {
		return err
	}
	architecture, err := e.architecture()
	switch c := file.Config; {
	case err != nil:
		return err
	case file.OS != "linux" || file.Architecture != architecture:
		return fmt.Errorf("it is for %s/%s, the program for linux/%s", file.OS, file.Architecture, architecture)
	case !slices.Equal(c.Entrypoint, []string{"/" + program}) || len(c.Cmd) > 0:
		return fmt.Errorf("it runs %q %q", c.Entrypoint, c.Cmd)
	case c.User != user:
		return fmt.Errorf("it runs as %q, not as %s", c.User, user)
	}
	return nil
}

// checkExecutables compares the executables in the image's one layer with the files.
func checkExecutables(img v1.Image, e executables) error {
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		return errors.Join(fmt.Errorf("it has %d layers", len(layers)), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		return err
	}
	defer content.Close()
	missing := e.names()
	for files := tar.NewReader(content); len(missing) > 0; {
		header, err := files.Next()
		if err != nil {
			return fmt.Errorf("%v is not in it: %w", slices.Sorted(maps.Keys(missing)), err)
		}
		path, ok := missing[header.Name]
		if !ok {
			continue
		}
		delete(missing, header.Name)
		if header.Mode&0o111 != 0o111 {
			return fmt.Errorf("%s has mode %o", header.Name, header.Mode)
		}
		if err := sameBytes(files, path); err != nil {
			return err
		}
	}
	return nil
}

func sameBytes(r io.Reader, path string) error {
	got, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	want, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("an executable in it is not %s", path)
	}
	return err
}

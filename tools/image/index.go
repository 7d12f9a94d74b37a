package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// makeIndex writes an OCI index with an image for the executables in each folder, as a tar
// archive of a layout, and returns its digest. All files have the time created.
func makeIndex(folders []string, out, tag string, created time.Time) (digest v1.Hash, err error) {
	ref, err := name.NewTag(tag)
	if err != nil {
		return digest, fmt.Errorf("-tag: %w", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	seen := map[string]string{}
	for _, folder := range folders {
		e := executables{filepath.Join(folder, program), filepath.Join(folder, plane)}
		architecture, err := e.architecture()
		if err != nil {
			return digest, err
		}
		if other := seen[architecture]; other != "" {
			return digest, fmt.Errorf("%s and %s are both for %s", other, folder, architecture)
		}
		seen[architecture] = folder
		img, err := imageOf(e)
		if err == nil {
			img, err = mutate.CreatedAt(img, v1.Time{Time: created})
		}
		if err == nil {
			err = errors.Join(checkConfig(img, e), checkExecutables(img, e))
		}
		if err != nil {
			return digest, fmt.Errorf("%s: %w", folder, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}}})
	}
	work, err := os.MkdirTemp(filepath.Dir(out), filepath.Base(out)+".new-")
	if err != nil {
		return digest, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	l, err := layout.Write(work, empty.Index)
	if err == nil {
		err = l.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": ref.TagStr()}))
	}
	if err != nil {
		return digest, fmt.Errorf("write the index: %w", err)
	}
	written, err := indexOf(work)
	if err == nil {
		err = validate.Index(written)
	}
	if err != nil {
		return digest, fmt.Errorf("what was written is not the index: %w", err)
	}
	if err := packLayout(work, out, created); err != nil {
		return digest, fmt.Errorf("pack the index: %w", err)
	}
	return written.Digest()
}

// indexOf returns the one index that a layout holds.
func indexOf(folder string) (v1.ImageIndex, error) {
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s has %d entries: one index is wanted", folder, len(manifest.Manifests))
	}
	return top.ImageIndex(manifest.Manifests[0].Digest)
}

// packLayout writes the files of a folder as a tar archive, in the order of their names.
func packLayout(folder, out string, at time.Time) (err error) {
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := tar.NewWriter(file)
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(folder, path)
		if err == nil {
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(below), Mode: 0o644, Size: int64(len(raw)), ModTime: at})
		}
		if err == nil {
			_, err = w.Write(raw)
		}
		return err
	})
	return errors.Join(err, w.Close())
}

// pushIndex uploads the index of an archive that makeIndex wrote.
func pushIndex(archive, to string, auth authn.Authenticator) (v1.Hash, error) {
	ref, err := name.NewTag(to)
	if err != nil {
		return v1.Hash{}, err
	}
	work, err := os.MkdirTemp("", "windtunnel-image-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer os.RemoveAll(work)
	if err := unpackLayout(archive, work); err != nil {
		return v1.Hash{}, fmt.Errorf("%s: %w", archive, err)
	}
	index, err := indexOf(work)
	if err == nil {
		err = validate.Index(index)
	}
	if err == nil {
		err = remote.WriteIndex(ref, index, remote.WithAuth(auth))
	}
	if err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

func unpackLayout(archive, folder string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	root, err := os.OpenRoot(folder) // no name in the archive leads out of the folder
	if err != nil {
		return err
	}
	defer root.Close()
	for files := tar.NewReader(file); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = root.MkdirAll(filepath.Dir(filepath.FromSlash(h.Name)), 0o755)
		}
		if err != nil {
			return err
		}
		raw, err := io.ReadAll(files)
		if err == nil {
			err = root.WriteFile(filepath.FromSlash(h.Name), raw, 0o644)
		}
		if err != nil {
			return err
		}
	}
}

package release

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"debug/elf"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/build"
)

// ErrSum says that an executable is not the one of the file of sums.
var ErrSum = errors.New("the sum does not match")

// Import takes the executables of a folder into the cache: those of an official release,
// or of one's own build. sums is the text of a file of SHA-256 or SHA-512 sums, each
// "HEX  NAME", which must have all of them; empty: none is compared.
func Import(ctx context.Context, cache Cache, folder, sums string) (Plane, error) {
	from := Plane{Product: build.Product{Folder: folder, System: build.System}}
	var files []string
	for _, name := range component.Names() {
		path, _ := from.Command(name)
		if _, err := os.Stat(path); err != nil {
			return from, fmt.Errorf("%s: %s is missing: a plane needs %s", folder, name, strings.Join(component.Names(), ", "))
		}
		if err := checkMachine(path); err != nil {
			return from, err
		}
		files = append(files, path)
	}
	files = slices.Compact(files)
	if sums != "" {
		if err := checkSums(files, sums); err != nil {
			return from, err
		}
	}
	if err := askAll(ctx, &from); err != nil {
		return from, err
	}
	return cache.keep(folderOf(from.Kubernetes, from.Etcd, build.System), func(to string) (Plane, error) {
		p := from
		p.Folder = to
		for _, path := range files {
			if err := copyFile(path, filepath.Join(to, filepath.Base(path))); err != nil {
				return p, err
			}
			if err := p.AddFile(filepath.Join(to, filepath.Base(path))); err != nil {
				return p, err
			}
		}
		return p, p.Sum()
	})
}

// askAll asks the components for their versions.
func askAll(ctx context.Context, p *Plane) error {
	for _, name := range component.Names() {
		said, err := AskVersion(ctx, *p, name)
		if err != nil {
			return err
		}
		switch {
		case name == component.Etcd:
			p.Etcd = "v" + said
		case p.Kubernetes == "":
			p.Kubernetes = said
		case p.Kubernetes != said:
			return fmt.Errorf("%s: %s is of Kubernetes %s, and kube-apiserver of %s: import one release", p.Folder, name, said, p.Kubernetes)
		}
	}
	return CheckNames(p.Kubernetes, p.Etcd)
}

// checkMachine says whether an executable is one for this machine.
func checkMachine(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w: import the executables of %s: %w", path, build.ErrForeign, build.System, err)
	}
	defer file.Close()
	machines := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64, "linux/s390x": elf.EM_S390}
	if want, known := machines[build.System]; known && file.Machine != want {
		return fmt.Errorf("%s: %w: it was built for %v, this machine is %s: import the files of %s", path, build.ErrForeign, file.Machine, build.System, build.System)
	}
	return nil
}

var sumLine = regexp.MustCompile(`^([0-9a-fA-F]{64}|[0-9a-fA-F]{128})(?:[ \t]+\*?(\S+))?$`)

// checkSums compares executables with a file of sums.
func checkSums(files []string, sums string) error {
	known := map[string]string{}
	for i, line := range strings.Split(sums, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := sumLine.FindStringSubmatch(line)
		if m == nil || m[2] == "" {
			return fmt.Errorf("line %d of the sums is no SHA-256 or SHA-512 with a name behind it", i+1)
		}
		known[filepath.Base(m[2])] = strings.ToLower(m[1])
	}
	for _, path := range files {
		want, ok := known[filepath.Base(path)]
		if !ok {
			return fmt.Errorf("%s: %w: the file of sums does not name it", path, ErrSum)
		}
		var h hash.Hash = sha256.New()
		if len(want) == 2*sha512.Size {
			h = sha512.New()
		}
		if got, err := build.HashOf(path, h); err != nil || got != want {
			return errors.Join(fmt.Errorf("%s: %w: it is %s, and the file of sums says %s: fetch it again", path, ErrSum, got, want), err)
		}
	}
	return nil
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

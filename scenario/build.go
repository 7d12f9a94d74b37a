package scenario

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/mod/module"
)

// Build names a program that windtunnel builds from a Go module, as `windtunnel subject
// build` does, and keeps in a cache together with the YAML files of the module. A pattern
// is one of Go's path.Match, from the module's root, and must fit a file.
type Build struct {
	Module    string   `yaml:"module"`    // such as sigs.k8s.io/kueue
	Version   string   `yaml:"version"`   // a release or a pseudo-version, such as v0.17.0
	Package   string   `yaml:"package"`   // main package, from the module's root, such as ./cmd/kueue; default: the root
	Main      string   `yaml:"main"`      // Go file with a main package of yours that imports the module, in place of package: for a module whose own main packages nobody publishes; relative to the file
	CRDs      []string `yaml:"crds"`      // patterns of files of CustomResourceDefinitions, such as config/crd/bases/*.yaml; applied as the subject's crds are
	Manifests []string `yaml:"manifests"` // patterns of files of other objects, applied as the subject's manifests are
	Webhooks  []string `yaml:"webhooks"`  // patterns of files such as config/webhook/manifests.yaml, applied as the subject's webhooks are

	Folder string `yaml:"-"` // that Main is relative to
}

// PackagePath returns the package from the module's root: . or ./cmd/kueue.
func (b Build) PackagePath() string {
	p := path.Clean(b.Package)
	if rest, ok := strings.CutPrefix(p, b.Module); ok && b.Module != "" && (rest == "" || rest[0] == '/') {
		p = path.Clean("." + rest)
	}
	if p == "." || strings.HasPrefix(p, "../") || strings.HasPrefix(p, "/") {
		return p
	}
	return "./" + p
}

// ImportPath returns the path by which the go command knows the package.
func (b Build) ImportPath() string { return path.Join(b.Module, b.PackagePath()) }

// ReadMain returns the text of Main, which is nil without one.
func (b Build) ReadMain() ([]byte, error) {
	if b.Main == "" {
		return nil, nil
	}
	raw, err := readInside(b.Folder, b.Main, maxBody)
	if err != nil {
		return nil, fmt.Errorf("build.main: %w", err)
	}
	return raw, nil
}

// Check says what is wrong with module, version and package.
func (b Build) Check() error {
	if err := module.Check(b.Module, b.Version); err != nil {
		if one := new(module.ModuleError); errors.As(err, &one) {
			err = one.Err
		}
		return fmt.Errorf("%s@%s is not a Go module at a version, such as sigs.k8s.io/kueue@v0.17.0: %w", b.Module, b.Version, err)
	}
	if p := b.PackagePath(); !path.IsAbs(p) && module.CheckImportPath(b.ImportPath()) == nil && !strings.HasPrefix(p, "../") && p != ".." {
		return nil
	}
	return fmt.Errorf("%q is not a package of %s, such as ./cmd/kueue", clipText(b.Package), b.Module)
}

func (c subjectChecker) checkBuild(at string, b *Build) {
	if err := b.Check(); err != nil {
		c.reportAt(at, "subject.build: %v", err)
	}
	if err := checkInside(b.Main); b.Main != "" && err != nil {
		c.reportAt(at+".main", "build.main: %v", err)
	}
	if b.Main != "" && b.PackagePath() != "." {
		c.reportAt(at+".main", "build.main: is compiled in place of package: give one of them")
	}
	for _, list := range []struct {
		name     string
		patterns []string
	}{{"crds", b.CRDs}, {"manifests", b.Manifests}, {"webhooks", b.Webhooks}} {
		for i, pattern := range list.patterns {
			if _, err := path.Match(pattern, ""); err != nil || path.IsAbs(pattern) || strings.Contains(pattern, "..") {
				c.reportAt(fmt.Sprintf("%s.%s[%d]", at, list.name, i), "build.%s: %q is not a pattern of paths from the module's root, such as config/crd/bases/*.yaml", list.name, clipText(pattern))
			}
		}
	}
}

package program

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"github.com/windtunnel/windtunnel/scenario"
)

// ErrLocal says that a module is only built in a clone of its repository.
var ErrLocal = errors.New("it can only be built in a clone of its repository")

// moduleFile returns the go.mod of a module that links a program as the program's own
// go.mod, raw, does: the go command takes replace, exclude and godebug lines from the main
// module only. A module that is replaced by a folder of the repository is taken at the
// version that is required, under which its repository has published it; where that version
// stands for the folder only, at the version of the program, by which all modules of a
// repository are usually tagged: these are returned, by the folder.
func moduleFile(wanted scenario.Build, raw []byte) (text string, beside map[string]module.Version, err error) {
	theirs, err := modfile.Parse("go.mod", raw, nil)
	if err != nil {
		return "", nil, fmt.Errorf("%s %s: %w", wanted.Module, wanted.Version, err)
	}
	var b strings.Builder
	b.WriteString("module github.com/windtunnel/windtunnel/subject\n\n")
	if theirs.Go != nil {
		fmt.Fprintf(&b, "go %s\n\n", theirs.Go.Version)
	}
	for _, g := range theirs.Godebug {
		fmt.Fprintf(&b, "godebug %s=%s\n\n", g.Key, g.Value)
	}
	fmt.Fprintf(&b, "require %s %s\n", wanted.Module, wanted.Version)
	beside, required := map[string]module.Version{}, map[string]string{}
	for _, r := range theirs.Require {
		required[r.Mod.Path] = r.Mod.Version
	}
	for _, r := range theirs.Replace {
		to := r.New
		if to.Version == "" {
			version, needed := required[r.Old.Path]
			if !needed {
				continue
			}
			if isSentinel(version) {
				version = wanted.Version
				beside[r.New.Path] = module.Version{Path: r.Old.Path, Version: version}
			}
			to = module.Version{Path: r.Old.Path, Version: version}
		}
		fmt.Fprintf(&b, "\nreplace %s => %s %s\n", strings.TrimSpace(r.Old.Path+" "+r.Old.Version), to.Path, to.Version)
	}
	for _, x := range theirs.Exclude {
		fmt.Fprintf(&b, "\nexclude %s %s\n", x.Mod.Path, x.Mod.Version)
	}
	return b.String(), beside, nil
}

// isSentinel tells a version that stands for "the folder beside".
func isSentinel(version string) bool {
	return version == "v0.0.0" || strings.HasSuffix(version, "-00010101000000-000000000000")
}

// content is what a YAML file holds.
type content string

const (
	definitions content = "definitions"
	objects     content = "objects"
	other       content = "other" // no objects, or a template of some
)

var (
	definitionLine = regexp.MustCompile(`(?m)^kind: *"?CustomResourceDefinition"? *\r?$`)
	kindLine       = regexp.MustCompile(`(?m)^kind: *\S`)
	versionLine    = regexp.MustCompile(`(?m)^apiVersion: *\S`)
)

// holds tells what a YAML file holds.
func holds(raw []byte) content {
	switch {
	case !kindLine.Match(raw) || !versionLine.Match(raw) || bytes.Contains(raw, []byte("\n{{")):
		return other
	case definitionLine.Match(raw):
		return definitions
	}
	return objects
}

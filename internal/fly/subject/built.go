package subject

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/windtunnel/windtunnel/internal/fly/subject/program"
	"github.com/windtunnel/windtunnel/scenario"
)

// FindBuilt returns the program of a build, from the cache of the user.
func FindBuilt(b scenario.Build) (program.Program, error) {
	cache, err := program.UserCache()
	if err != nil {
		return program.Program{}, err
	}
	return cache.Find(b)
}

// builtProgram returns the executable of a build and its SHA-256, if it is as it was made.
func builtProgram(b scenario.Build) (path, sum string, err error) {
	p, err := FindBuilt(b)
	if err == nil {
		err = p.Sum()
	}
	if err != nil {
		return "", "", err
	}
	return p.Path(), p.Executables[0].SHA256, nil
}

// DecodeBuilt reads the objects of the module's files that a pattern fits.
func DecodeBuilt(p program.Program, pattern string) (out []Object, err error) {
	files, err := p.Match(pattern)
	for _, file := range files {
		raw, failed := os.ReadFile(file)
		if failed != nil {
			return nil, failed
		}
		objects, failed := Decode(file, raw)
		err = errors.Join(err, failed)
		out = append(out, objects...)
	}
	return out, err
}

// writeFiles writes the subject's files into its own folder.
func (p *Prepared) writeFiles() error {
	for _, name := range slices.Sorted(maps.Keys(p.subject.Files)) {
		text, err := p.expandVariables(p.subject.Files[name])
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(p.vars[scenario.VarFiles], name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("subject %s: %w", p.subject.Name, err)
		}
	}
	return nil
}

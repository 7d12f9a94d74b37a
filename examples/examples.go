// Package examples has the scenarios of this folder as files of the program windtunnel.
//
// It runs none of them. The folder operator is a module of its own, and not among them.
package examples

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/scenario"
)

//go:embed *.yaml app/*.yaml app/parts clusters/*.yaml compare/*.yaml edge/*.yaml edge/parts limited/*.yaml museum/*.yaml network/*.yaml operators/*.yaml operators/*/*.yaml operators/*/*.go planes/*.yaml recipes/*.yaml settings/*.yaml vm/*.yaml vm/parts
var files embed.FS

// extension ends the files of scenarios, and is no part of their names.
const extension = ".yaml"

// ErrUnknown says that there is no example of a name.
var ErrUnknown = errors.New("no such example")

// Names returns the names of all scenarios, sorted: their paths below this folder without
// the extension, such as edge/density.
func Names() ([]string, error) {
	var out []string
	err := fs.WalkDir(files, ".", func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := files.ReadFile(at)
		if isScenario(raw) {
			out = append(out, strings.TrimSuffix(at, extension))
		}
		return err
	})
	slices.Sort(out)
	return out, err
}

var scenarioLine = regexp.MustCompile(`(?m)^scenario: `)

// isScenario tells a scenario from a file that scenarios refer to.
func isScenario(raw []byte) bool { return scenarioLine.Match(raw) }

// Read returns the scenario of a name, with or without the extension. ErrUnknown: there
// is none.
func Read(name string) ([]byte, error) {
	raw, err := files.ReadFile(strings.TrimSuffix(name, extension) + extension)
	if err != nil || !isScenario(raw) {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	return raw, nil
}

// reference is the path of a file in a line that is no comment, and no pattern such as *-crd.yaml.
var reference = regexp.MustCompile(`(?m)^[^#\n]*?(?:^|[^\w./*-])([\w./-]+\` + extension + `)\b`)

// Beside returns the files that the scenario of a name includes or refers to, by their
// paths below this folder.
func Beside(name string) (map[string][]byte, error) {
	raw, err := Read(name)
	if err != nil {
		return nil, err
	}
	name = strings.TrimSuffix(name, extension)
	named, err := scenario.Files(files, name+extension)
	if err != nil {
		return nil, err
	}
	named = named[1:]                                      // without the scenario
	for _, m := range reference.FindAllSubmatch(raw, -1) { // what components of the plane read
		named = append(named, path.Join(path.Dir(name), string(m[1])))
	}
	out := map[string][]byte{}
	for _, at := range named {
		if out[at], err = files.ReadFile(at); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}

var descriptionLine = regexp.MustCompile(`(?m)^description: *(.+)$`)

// Describe returns the line by which a scenario describes itself.
func Describe(raw []byte) string {
	m := descriptionLine.FindSubmatch(raw)
	if m == nil {
		return ""
	}
	return string(m[1])
}

// Package clusterloader2 reads test configs and suites of ClusterLoader2, with
// their modules, object templates, override files and CL2_ variables, and
// gives the scenario that does the same.
//
// It runs nothing and asks no cluster: phases, which ClusterLoader2 reconciles
// with what it made before, are gone through here, and come out as steps that
// create, scale and update. What a plane without images, clouds and ssh cannot
// do is in the notes.
package clusterloader2

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/text/environ"
	"github.com/windtunnel/windtunnel/internal/text/linemap"

	"github.com/windtunnel/windtunnel/scenario"
)

// Options stand for ClusterLoader2's flags and environment.
type Options struct {
	Nodes     int               // how many to simulate: .Nodes of the templates. Nodes in Set wins; one of them is needed
	Set       map[string]string // variables of the templates, read as CL2_ variables are; they win over all others
	Overrides []string          // files of variables, later ones win
	Env       *environ.Environ  // those that begin with CL2_ are variables; nil is an empty one
	Scenario  string            // of a suite with several: the identifier of the one that is meant; or Scenario in Set
	Attached  bool              // the nodes are those of a cluster that is there; none is simulated
	Seed      uint64            // of the scenario and of random values; 0 is scenario.DefaultSeed
}

// maxFile bounds a config, a module and an object template.
const maxFile = 4 << 20

// Is tells by its content whether a file is a config or a suite of
// ClusterLoader2.
func Is(raw []byte) bool { return isSuite(raw) || isConfig(raw) }

var (
	nativeKey = regexp.MustCompile(`(?m)^(scenario|objectives|jobs)[ \t]*:`)
	stepsKey  = regexp.MustCompile(`(?im)^["']?steps["']?[ \t]*:`)
	stepKey   = regexp.MustCompile(`(?im)(?:^|[{,])[ \t]*(?:-[ \t]+)?["']?(?:phases|measurements|module)["']?[ \t]*:`)
	suiteKey  = regexp.MustCompile(`(?im)^(?:-[ \t]+|[ \t]+|-[ \t]*\{.*)configPath[ \t]*:`)
)

// isConfig looks at the raw text, which is a template and need not be YAML.
func isConfig(raw []byte) bool {
	return stepsKey.Match(raw) && stepKey.Match(raw) && !nativeKey.Match(raw)
}

func isSuite(raw []byte) bool {
	return suiteKey.Match(raw) && !stepsKey.Match(raw) && !nativeKey.Match(raw)
}

// Import reads a config, or one scenario of a suite. The scenario is complete
// and valid. Errors join every fault found, one line each: "FILE:LINE: TEXT".
func Import(file string, o Options) (*scenario.Scenario, []kit.Note, error) {
	raw, err := readAny(file)
	if err != nil {
		return nil, nil, err
	}
	im := &importer{options: o, faults: &faults{}, name: filepath.Base(filepath.Dir(absolutePath(file))) + "/" + filepath.Base(file)}
	if isSuite(raw) {
		chosen, ok := im.chooseScenario(file, raw)
		if !ok {
			return nil, nil, im.faults.joinErrors()
		}
		if file, raw, err = im.followSuite(file, chosen); err != nil {
			return nil, nil, err
		}
	}
	folder, err := openFolder(filepath.Dir(file))
	if err != nil {
		return nil, nil, err
	}
	defer folder.closeRoot()
	im.read, im.dir = folder.readFile, filepath.Dir(file)
	s := im.makeScenario(file, raw)
	if err := im.faults.joinErrors(); err != nil {
		return nil, im.notes.All(), err
	}
	for _, note := range o.Env.Notes() {
		im.notes.Add(kit.Note{File: file, Line: 1, Field: "environment", Text: note})
	}
	return s, im.notes.All(), nil
}

// importer is one import under way.
type importer struct {
	options   Options
	name      string                            // of the file that the user named
	suffix    string                            // identifier of a suite's scenario
	own       []string                          // override files of a suite's scenario
	dir       string                            // the config's folder
	read      func(path string) ([]byte, error) // of a file that the config names
	variables map[string]any
	reads     kit.Reads   // variables that the config, its modules and its objects read
	overrides []overrides // variables that files of them give
	modules   int         // read so far
	faults    *faults
	notes     kit.Notes
	byName    map[string]method // the measurements; made when the first one is asked for
}

// makeScenario makes the scenario of a config; the faults are in im.
func (im *importer) makeScenario(file string, raw []byte) *scenario.Scenario {
	im.variables = im.makeVariables(file)
	if len(im.faults.list) > 0 {
		return nil
	}
	c := im.readConfig(file, raw)
	if len(im.faults.list) > 0 {
		return nil
	}
	checker{im}.checkConfig(c)
	if len(im.faults.list) > 0 {
		return nil
	}
	s := im.lowerConfig(c)
	im.checkRead(file)
	if len(im.faults.list) > 0 {
		return nil
	}
	s.File = file
	s.Complete()
	if err := s.Validate(); err != nil {
		im.faults.addFault(file, 1, "the scenario that it makes is not valid: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return nil
	}
	return s
}

// shownPath is a file that the config names, as messages name it.
func (im *importer) shownPath(path string) string {
	return filepath.Join(im.dir, filepath.FromSlash(path))
}

// addNote says once what is different; what tells notes apart. The load and the
// verdict are what they would be without the difference.
func (im *importer) addNote(at config.Position, what, format string, args ...any) {
	im.notes.Add(kit.Note{File: at.File, Line: at.Line, Field: what, Text: fmt.Sprintf(format, args...)})
}

// noteDifference is a note of a difference that changes the load or the verdict.
func (im *importer) noteDifference(at config.Position, what, format string, args ...any) {
	im.notes.Add(kit.Note{File: at.File, Line: at.Line, Field: what, Text: fmt.Sprintf(format, args...), Changes: true})
}

// decodeFile decodes the first YAML document of a text; false where there is none. What is
// wrong with values is in im.
func (im *importer) decodeFile(file string, text *linemap.Text, to any) (bool, *linemap.Error) {
	return config.Reader{
		File: file, Fates: allFates(),
		Fault: func(line int, text string) { im.faults.addFault(file, line, "%s", text) },
		Unknown: func(at config.Position, field string) {
			im.addNote(at, field, "ClusterLoader2 has no such field and ignores it")
		},
		Known: im.noteFate,
	}.Fill(text, to)
}

// faults collects what is wrong with files.
type faults struct{ list []*scenario.ValidationError }

// maxFaults bounds what one message shows.
const maxFaults = 50

func (f *faults) addFault(file string, line int, format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	f.list = append(f.list, &scenario.ValidationError{File: file, Line: max(1, line), Text: text})
}

func (f *faults) addAt(s config.Position, format string, args ...any) {
	f.addFault(s.File, s.Line, format, args...)
}

// joinErrors returns the faults as one error, nil when there are none.
func (f *faults) joinErrors() error {
	var errs []error
	seen := map[string]bool{}
	for _, one := range f.list {
		if len(errs) == maxFaults {
			errs = append(errs, fmt.Errorf("and %d more", len(f.list)-maxFaults))
			break
		}
		if text := one.Error(); !seen[text] {
			seen[text] = true
			errs = append(errs, one)
		}
	}
	return errors.Join(errs...)
}

// absolutePath is a path that does not depend on where the process is.
func absolutePath(file string) string {
	if abs, err := filepath.Abs(file); err == nil {
		return abs
	}
	return file
}

// displayName is a file's name without what is common to a template and to the
// scenario made of it.
func displayName(file string) string {
	base := filepath.Base(file)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// readAny reads a file that the user named.
func readAny(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("read config: %s has more than %d bytes", path, maxFile)
	}
	return raw, nil
}

// foldersAbove returns a folder and those that hold it, nearest first.
func foldersAbove(folder string) []string {
	var out []string
	for range 12 {
		out = append(out, folder)
		next := filepath.Join(folder, "..")
		if abs, err := filepath.Abs(folder); err != nil || abs == filepath.Dir(abs) || slices.Contains(out, next) {
			break
		}
		folder = next
	}
	return out
}

package scenario

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/windtunnel/windtunnel/internal/folder"
)

// maxAgain is how many bytes are parsed again to find out which of the parameters that
// were set is at fault: the whole file for each of them.
const maxAgain = 4 << 20

// maxBody and maxReplay bound one file that a scenario names, in bytes.
const (
	maxBody   = 1 << 20
	maxReplay = 64 << 20
)

// Load reads a scenario file. set are parameters to change, name to value
// (--set). The error joins every problem found, one line each: "FILE:LINE: TEXT".
func Load(path string, set map[string]string) (*Scenario, error) {
	raw, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, raw, set)
}

// Read reads a scenario file for Parse, with the files that it includes, but not much more
// than one may have.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	return Resolve(path, raw)
}

// Parse decodes and validates the bytes of a scenario file; file is its name
// in messages. It reads no other file. Errors are those of Load. What is wrong
// with a value of set alone is said of that value, not of the lines that use it.
func Parse(file string, raw []byte, set map[string]string) (*Scenario, error) {
	s, f := parseScenario(file, raw, set)
	if len(f.list) == 0 {
		return s, nil
	}
	if len(set) > 0 && len(set)*len(raw) <= maxAgain {
		if _, without := parseScenario(file, raw, nil); len(without.list) == 0 {
			f = f.ofSet(set, func(one map[string]string) *problems { _, f := parseScenario(file, raw, one); return f })
		}
	}
	return nil, f.join()
}

func parseScenario(file string, raw []byte, set map[string]string) (*Scenario, *problems) {
	f := &problems{file: file}
	root := parseTree(raw, f)
	if root == nil || len(f.list) > 0 {
		return nil, f
	}
	if f.mergeFragments(root); len(f.list) > 0 {
		return nil, f
	}
	set, fields := SplitSet(set)
	moveReleases(root, set, fields)
	f.setFields(root, fields)
	d := newDecoder(f)
	d.decodeParameters(root, set)
	s := Default()
	unused := unusedParameters(root, d.vars.order)
	leftOut := d.dropUnasked(root)
	d.Value(root, reflect.ValueOf(&s).Elem(), place{Name: "scenario"})
	s.File, s.Values, s.lines = file, d.vars.values, d.Lines
	etcd := s.Plane.readMembers()
	if n := s.Plane.EtcdMembers; n > 0 && n%2 == 0 {
		d.addWarning(s.lineOf(etcd), etcd+": %d survive the loss of %d, as %d do: an odd number is cheaper", n, (n-1)/2, n-1)
	}
	d.warnUnexpanded(s.Bodies)
	s.Warnings = d.warnings
	s.fragments, s.unused, s.leftOut = f.fragments, unused, leftOut
	if len(fields) > 0 { // values in force, too, though no expression knows them
		s.Values = maps.Clone(s.Values)
		for name, value := range fields {
			s.Values[name] = value
		}
	}
	s.fillDerived()
	s.readUnits(d.texts, f)
	if len(f.list) == 0 { // otherwise what was not understood would be missed as well
		s.checkAll(f)
	}
	return &s, f
}

// ReadBody returns the text of a body that stands in a file of its own. file is
// the path of the scenario file; the body must be inside its folder: neither ..
// nor a symbolic link leads out of it.
func (s *Scenario) ReadBody(file string, b Body) ([]byte, error) {
	raw, err := readInside(filepath.Dir(file), b.File, maxBody)
	if err != nil {
		at, line := s.Place(file, b.Line)
		return nil, fmt.Errorf("%s:%d: body.file: %w", at, line, err)
	}
	return raw, nil
}

// ReadReplay returns the text of a file of due times, under the same rules. The error does not
// say which step names it.
func (s *Scenario) ReadReplay(file, name string) ([]byte, error) {
	raw, err := readInside(filepath.Dir(file), name, maxReplay)
	if err != nil {
		return nil, fmt.Errorf("pace.replay: %w", err)
	}
	return raw, nil
}

func readInside(dir, name string, maxBytes int64) ([]byte, error) {
	if err := checkInside(name); err != nil {
		return nil, err
	}
	return folder.Read(dir, name, maxBytes)
}

// lineOf returns where a value stands, or the nearest value around it that
// stands in the file; 0 when the scenario was not read from one.
func (s *Scenario) lineOf(path string) int {
	for path != "" {
		if line, ok := s.lines[path]; ok {
			return line
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	if s.lines == nil {
		return 0
	}
	return max(1, s.lines[""])
}

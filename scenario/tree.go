package scenario

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
)

// Limits of a scenario file. They are far beyond what a person writes and keep
// a hostile file from taking the machine along.
const (
	maxFile   = 4 << 20 // bytes
	maxDepth  = 64      // mappings and lists inside each other
	maxValues = 500_000 // values visited, each use of an alias and each round of a repeat counted
)

// parseTree reads the one YAML document of a file.
func parseTree(raw []byte, f *problems) *yaml.Node {
	if len(raw) > maxFile {
		f.add(1, "the file has more than %d bytes", maxFile)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	doc, err := strictyaml.Next(dec)
	switch {
	case errors.Is(err, io.EOF):
		f.add(1, "the file is empty")
		return nil
	case err != nil:
		f.addSyntaxError(err, raw)
		return nil
	}
	second, err := strictyaml.Next(dec)
	switch {
	case err == nil:
		f.add(second.Line, "a second document: a scenario is one YAML document")
	case !errors.Is(err, io.EOF):
		f.addSyntaxError(err, raw)
	}
	return doc
}

// addSyntaxError reports an error of the YAML parser at its line.
func (f *problems) addSyntaxError(err error, raw []byte) {
	line, text := strictyaml.Syntax(raw, err)
	lines := bytes.Split(bytes.TrimRight(raw, "\n"), []byte("\n"))
	line = min(line, len(lines))
	if near := lines[line-1]; bytes.Contains(near, []byte("${")) && !bytes.Contains(near, []byte(`"${`)) {
		text += ` (a ${...} with braces, colons or commas around or in it needs quotes: "${...}")`
	}
	f.add(line, "not YAML: %s", text)
}

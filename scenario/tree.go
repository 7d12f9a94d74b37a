package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of a scenario file. They are far beyond what a person writes and keep
// a hostile file from taking the machine along.
const (
	maxFile   = 4 << 20 // bytes
	maxDepth  = 64      // mappings and lists inside each other
	maxValues = 500_000 // values visited, each use of an alias and each round of a repeat counted
)

// parseTree reads the one YAML document of a file.
func parseTree(raw []byte, f *faults) *yaml.Node {
	if len(raw) > maxFile {
		f.add(1, "the file has more than %d bytes", maxFile)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	doc, err := nextDocument(dec)
	switch {
	case errors.Is(err, io.EOF):
		f.add(1, "the file is empty")
		return nil
	case err != nil:
		f.syntax(err, raw)
		return nil
	}
	second, err := nextDocument(dec)
	switch {
	case err == nil:
		f.add(second.Line, "a second document: a scenario is one YAML document")
	case !errors.Is(err, io.EOF):
		f.syntax(err, raw)
	}
	return doc
}

// nextDocument returns the root of the next document. The YAML parser is not
// ours: should it panic on odd bytes, that is a fault of the file.
func nextDocument(dec *yaml.Decoder) (root *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, io.EOF
	}
	return doc.Content[0], nil
}

// syntax reports an error of the YAML parser at its line.
func (f *faults) syntax(err error, raw []byte) {
	line, text := 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if m := regexp.MustCompile(`(?s)^line (\d+): (.*)$`).FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = m[2]
	}
	if strings.HasPrefix(text, "did not find expected") {
		line++ // the parser (not its scanner) counts from 0
	}
	lines := bytes.Split(bytes.TrimRight(raw, "\n"), []byte("\n"))
	line = min(max(line, 1), len(lines))
	if near := lines[line-1]; bytes.Contains(near, []byte("${")) && !bytes.Contains(near, []byte(`"${`)) {
		text += ` (a ${...} with braces, colons or commas around or in it needs quotes: "${...}")`
	}
	f.add(line, "not YAML: %s", text)
}

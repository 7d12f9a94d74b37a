package strictyaml

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// First returns the root of the first document of a text; io.EOF where there is none.
func First(raw []byte) (*yaml.Node, error) { return Next(yaml.NewDecoder(bytes.NewReader(raw))) }

// Next returns the root of the next document; io.EOF where there is none. The
// YAML parser is not ours: should it panic on odd bytes, that is an error of the file.
func Next(dec *yaml.Decoder) (root *yaml.Node, err error) {
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

var (
	yamlLine   = regexp.MustCompile(`(?s)^line (\d+): (.*)$`)
	yamlAnchor = regexp.MustCompile(`^unknown anchor '(.+)' referenced$`)
)

// Syntax returns line and text of an error of the YAML parser in a file; line 1 where it
// says none. At the end of a file it is the line behind the last one.
func Syntax(raw []byte, err error) (line int, text string) {
	line, text = 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = m[2]
	} else if m := yamlAnchor.FindStringSubmatch(text); m != nil {
		line = lineOfAlias(raw, m[1])
	}
	if strings.HasPrefix(text, "did not find expected") {
		line++ // the parser, not its scanner, counts from 0
	}
	return max(1, line), text
}

// lineOfAlias returns the line of the first *name, which the parser does not say; 1 where there
// is none.
func lineOfAlias(raw []byte, name string) int {
	alias := regexp.MustCompile(`(?m)^(?:[^#\n]*[\s,\[{:-])?\*` + regexp.QuoteMeta(name) + `(?:[\s,\]}]|$)`)
	if at := alias.FindIndex(raw); at != nil {
		return 1 + bytes.Count(raw[:at[0]], []byte("\n"))
	}
	return 1
}

// Twice looks for the first key that stands twice in one mapping of a file: YAML's decoders take
// the last one without a word. What is no YAML has none.
func Twice(raw []byte) (key string, line, first int) {
	for d := yaml.NewDecoder(bytes.NewReader(raw)); ; {
		root, err := Next(d)
		if err != nil {
			return "", 0, 0
		}
		if key, line, first = twiceIn(root); line > 0 {
			return key, line, first
		}
	}
}

func twiceIn(n *yaml.Node) (key string, line, first int) {
	seen := map[string]int{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.Kind == yaml.ScalarNode && child.ShortTag() != "!!merge" {
			if at := seen[child.Value]; at > 0 {
				return child.Value, child.Line, at
			}
			seen[child.Value] = child.Line
		}
		if key, line, first = twiceIn(child); line > 0 {
			return key, line, first
		}
	}
	return "", 0, 0
}

// Child returns the value of a mapping's key, nil when there is none.
func Child(n *yaml.Node, key string) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i+1]
			}
		}
	}
	return nil
}

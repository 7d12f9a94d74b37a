package scenario

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/folder"
)

// Limits of included files.
const (
	maxFragment      = 1 << 20 // bytes of one
	maxFragments     = 100
	maxFragmentDepth = 8 // files that include each other
)

// fragmentSections are the sections that an included file may have beside include.
func fragmentSections() map[string]yaml.Kind {
	return map[string]yaml.Kind{
		"bodies": yaml.MappingNode, "lifecycles": yaml.SequenceNode, "objectives": yaml.SequenceNode, "measures": yaml.SequenceNode,
		"charts": yaml.SequenceNode, "map": yaml.SequenceNode, "published": yaml.SequenceNode,
	}
}

// fragment says which lines of a scenario's text are those of an included file.
type fragment struct {
	file        string // for messages
	first, last int
}

// inclusion goes through the files that a scenario includes.
type inclusion struct {
	folder string                       // of the scenario, for messages
	read   func(string) (string, error) // the text of a file, by its path from the folder
	visit  func(name string, root *yaml.Node, f *problems)
	seen   map[string]bool
	depth  []string // the files around this one, the scenario first
}

func newInclusion(file string) *inclusion {
	return &inclusion{folder: filepath.Dir(file), seen: map[string]bool{}, depth: []string{filepath.Base(file)}}
}

// follow goes through what a file includes: each file once, and behind those that it
// includes itself. in is the folder of the file, as a path from that of the scenario.
func (x *inclusion) follow(root *yaml.Node, in string, f *problems) {
	list := valueAt(root, "include")
	switch {
	case list == nil || list.ShortTag() == "!!null":
		return
	case list.Kind != yaml.SequenceNode:
		f.add(list.Line, "include: %s is not a list of files", nodeShape(list))
		return
	}
	for _, n := range list.Content {
		if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" || n.Value == "" {
			f.add(n.Line, "include: %s is not the name of a file", nodeShape(n))
			continue
		}
		if err := x.enter(n.Value, in, f); err != nil {
			f.add(n.Line, "include: %v", err)
		}
	}
}

// enter goes through one file. An error is one of the line that names it.
func (x *inclusion) enter(written, in string, f *problems) error {
	name := path.Join(in, filepath.ToSlash(written))
	if err := checkInside(name); err != nil || path.IsAbs(written) {
		return fmt.Errorf("%q leads out of the scenario's folder", clipText(written))
	}
	if i := slices.Index(x.depth, name); i >= 0 {
		return fmt.Errorf("%s includes itself: %s", name, strings.Join(append(x.depth[i:len(x.depth):len(x.depth)], name), " -> "))
	}
	switch {
	case strings.ContainsFunc(written, unicode.IsControl):
		return fmt.Errorf("%q is not the name of a file", clipText(written))
	case strings.Contains(written, "${"):
		return fmt.Errorf("%q: a file's name is no expression: what is included does not depend on parameters", clipText(written))
	case len(x.depth) > maxFragmentDepth:
		return fmt.Errorf("more than %d files include each other", maxFragmentDepth)
	case x.seen[name]:
		return nil
	case len(x.seen) == maxFragments:
		return fmt.Errorf("more than %d files", maxFragments)
	}
	x.seen[name] = true
	text, err := x.read(name)
	if err != nil {
		return err
	}
	inside := &problems{file: path.Join(filepath.ToSlash(x.folder), name)}
	if root := parseTree([]byte(text), inside); root != nil && len(inside.list) == 0 {
		x.depth = append(x.depth, name)
		x.follow(root, path.Dir(name), inside)
		x.depth = x.depth[:len(x.depth)-1]
		x.visit(name, root, inside)
	}
	f.list = append(f.list, inside.list...)
	return nil
}

// mergeFragments puts what a scenario includes into its tree, where the decoder finds it
// as if it stood there. The texts are among the scenario's fragments: Resolve has put
// them there.
func (f *problems) mergeFragments(root *yaml.Node) {
	texts := valueAt(root, "fragments")
	lines := map[string]fragment{}
	x := newInclusion(f.file)
	x.depth[0] = "" // a run directory's copy has a name of its own
	x.read = func(name string) (string, error) {
		n := (*yaml.Node)(nil)
		if texts != nil {
			n = valueAt(texts, name)
		}
		switch {
		case n == nil:
			return "", fmt.Errorf("%s was not read: only a scenario that is read from a file includes others", name)
		case n.Kind != yaml.ScalarNode || n.Style&yaml.LiteralStyle == 0:
			return "", fmt.Errorf("fragments: %s is no text of its own lines (|)", name)
		}
		lines[name] = fragment{first: n.Line + 1, last: n.Line + strings.Count(n.Value, "\n") + 1}
		return n.Value, nil
	}
	x.visit = func(name string, from *yaml.Node, inside *problems) {
		at := lines[name]
		at.file = inside.file
		f.fragments = append(f.fragments, at)
		inside.mergeSections(root, from, at.first-1)
	}
	x.follow(root, ".", f)
}

// mergeSections adds the sections of an included file to those of the scenario, by
// lines of the scenario's text, in which the file begins behind a number of others.
func (f *problems) mergeSections(to, from *yaml.Node, before int) {
	if from.Kind != yaml.MappingNode {
		f.add(from.Line, "an included file is a mapping of names to values, not %s", nodeShape(from))
		return
	}
	sections, moved := fragmentSections(), map[*yaml.Node]bool{}
	for i := 0; i+1 < len(from.Content); i += 2 {
		k, v := from.Content[i], from.Content[i+1]
		if v.Kind == yaml.AliasNode && v.Alias != nil {
			v = v.Alias
		}
		kind, known := sections[k.Value]
		switch {
		case k.Value == "include" || v.ShortTag() == "!!null":
		case !known:
			f.add(k.Line, "field %q not found in an included file, which has %s", clipText(k.Value), joinWords(fragmentWords()))
		case v.Kind != kind:
			f.add(v.Line, "%s: %s where %s was expected", k.Value, nodeShape(v), map[yaml.Kind]string{yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list"}[kind])
		default:
			moveLines(v, before, moved)
			if into := fieldOf(to, k.Value, kind); into.Kind == kind {
				into.Line = max(into.Line, 1)
				into.Content = append(into.Content, v.Content...)
			} // else the decoder says what is wrong with it
		}
	}
}

// fragmentWords names what an included file may have.
func fragmentWords() []string {
	out := []string{"include"}
	for name := range fragmentSections() {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// moveLines moves a tree down, each value once.
func moveLines(n *yaml.Node, by int, moved map[*yaml.Node]bool) {
	if n == nil || moved[n] {
		return
	}
	moved[n] = true
	n.Line += by
	moveLines(n.Alias, by, moved)
	for _, child := range n.Content {
		moveLines(child, by, moved)
	}
}

// placeOf returns the file and the line in it where a line of a scenario's text stands.
func placeOf(file string, line int, all []fragment) (string, int) {
	for _, one := range all {
		if line >= one.first && line <= one.last {
			return one.file, line - one.first + 1
		}
	}
	return file, line
}

// Place returns where a line of the scenario's text stands, such as that of a body: in
// file, which is the scenario's, or in one that it includes.
func (s *Scenario) Place(file string, line int) (string, int) {
	return placeOf(file, line, s.fragments)
}

// Resolve returns the text of a scenario with the files that it includes in it: what a
// run directory keeps, and Parse reads without any other file. The text of a scenario
// that includes nothing is returned as it is. file is its path. The errors are of
// included files that cannot be read, or that cannot be included.
func Resolve(file string, raw []byte) ([]byte, error) {
	if !bytes.Contains(raw, []byte("include")) {
		return raw, nil
	}
	root, err := os.OpenRoot(filepath.Dir(file)) // no symbolic link leads out of it
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	defer root.Close() // nothing was written through it
	out, _, err := resolveIn(folder.Of(root), file, raw)
	return out, err
}

// Files returns the files that a scenario consists of, by their paths in tree: its own
// first, then those that it includes, bodies, definitions, manifests, stages and due times.
// Whoever copies a scenario copies these. What programs of the scenario read is not
// known. The errors are those of Load.
func Files(tree fs.FS, name string) ([]string, error) {
	folder, err := fs.Sub(tree, path.Dir(name))
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	raw, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	raw, included, err := resolveIn(folder, name, raw)
	if err != nil {
		return nil, err
	}
	s, err := Parse(name, raw, nil)
	if err != nil {
		return nil, err
	}
	out := []string{name}
	for _, one := range slices.Concat(included, s.namedFiles(folder)) {
		if one = path.Join(path.Dir(name), one); !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out, nil
}

// namedFiles are the files that a scenario names, by paths from its folder.
func (s *Scenario) namedFiles(folder fs.FS) []string {
	out := slices.Concat(s.CRDs, s.Manifests)
	for _, x := range s.Subjects {
		out = slices.Concat(out, x.CRDs, x.Manifests, x.Webhooks)
		if x.Build != nil && x.Build.Main != "" {
			out = append(out, x.Build.Main)
		}
	}
	for _, name := range s.bodyNames() {
		if file := s.Bodies[name].File; file != "" {
			out = append(out, file)
		}
	}
	for step := range s.AllSteps() {
		if p := step.Pace(); p != nil && p.Replay != "" {
			out = append(out, p.Replay)
		}
	}
	stages := slices.Clone(s.Fleet.Stages)
	for _, m := range s.Members {
		if stages = slices.Concat(stages, m.Stages); m.Fleet != nil {
			stages = slices.Concat(stages, m.Fleet.Stages)
		}
	}
	for _, name := range stages {
		if info, err := fs.Stat(folder, name); err == nil && !info.IsDir() { // else it is a built-in set
			out = append(out, name)
		}
	}
	return out
}

// resolveIn is Resolve with the folder that the scenario is in. It names the files that
// were included.
func resolveIn(folder fs.FS, file string, raw []byte) (out []byte, names []string, err error) {
	f := &problems{file: file}
	root := parseTree(raw, &problems{file: file}) // Parse says what is wrong with it
	if root == nil || valueAt(root, "include") == nil || valueAt(root, "fragments") != nil {
		return raw, nil, nil
	}
	texts := map[string]string{}
	x := newInclusion(file)
	x.read = func(name string) (string, error) {
		text, err := readFragment(folder, name)
		texts[name] = text
		return text, err
	}
	x.visit = func(name string, _ *yaml.Node, _ *problems) { names = append(names, name) }
	x.follow(root, ".", f)
	if err := f.join(); err != nil {
		return nil, nil, err
	}
	out = appendFragments(raw, names, texts)
	if kept := fragmentsOf(out); !maps.Equal(kept, texts) {
		f.add(valueAt(root, "include").Line, "include: the files cannot be kept with the scenario, which has to be a mapping whose names begin their lines, and the files plain text")
	}
	return out, names, f.join()
}

// fragmentsOf reads the texts of included files in that of a scenario again.
func fragmentsOf(raw []byte) map[string]string {
	out := map[string]string{}
	root := parseTree(raw, &problems{})
	if root == nil {
		return out
	}
	texts := valueAt(root, "fragments")
	for i := 0; texts != nil && i+1 < len(texts.Content); i += 2 {
		out[texts.Content[i].Value] = texts.Content[i+1].Value
	}
	return out
}

// readFragment reads an included file, with lines as YAML has them.
func readFragment(in fs.FS, name string) (string, error) {
	raw, err := folder.ReadFrom(in, name, maxFragment)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n") + "\n", nil
}

// appendFragments writes the texts of included files behind a scenario, whose own lines
// stay as they are.
func appendFragments(raw []byte, names []string, texts map[string]string) []byte {
	var b bytes.Buffer
	b.Write(raw)
	if !bytes.HasSuffix(raw, []byte("\n")) {
		b.WriteByte('\n')
	}
	b.WriteString("# The files that include names, so that this file stands by itself.\nfragments:\n")
	for _, name := range names {
		b.WriteString("  " + strconv.Quote(name) + ": |2\n")
		for line := range strings.Lines(texts[name]) {
			if line != "\n" {
				b.WriteString("    ")
			}
			b.WriteString(line)
		}
	}
	return b.Bytes()
}

package kwok

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
)

// Read reads files, in order. The error joins what is wrong with any of them.
func Read(paths ...string) (*File, error) {
	out := &File{}
	var faults []error
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			faults = append(faults, fmt.Errorf("read stages: %w", err))
			continue
		}
		f, err := Load(path, content)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		out.Stages, out.Others = append(out.Stages, f.Stages...), append(out.Others, f.Others...)
	}
	return out, errors.Join(faults...)
}

// Load reads the documents of one file; path is only named in errors, which are
// joined.
func Load(path string, content []byte) (*File, error) {
	out := &File{}
	var faults []error
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		root, err := strictyaml.Next(decoder)
		if errors.Is(err, io.EOF) {
			return out, errors.Join(faults...)
		}
		if err != nil {
			line, text := strictyaml.Syntax(content, err)
			line = min(line, max(1, bytes.Count(content, []byte("\n"))))
			return nil, errors.Join(append(faults, &Error{Path: path, Line: line, Err: errors.New(text)})...)
		}
		if root.Tag == "!!null" {
			continue
		}
		if err := out.addDocument(path, root); err != nil {
			faults = append(faults, err)
		}
	}
}

func (f *File) addDocument(path string, root *yaml.Node) error {
	if root.Kind != yaml.MappingNode {
		return &Error{Path: path, Line: root.Line, Err: errors.New("a document must be a mapping with apiVersion and kind")}
	}
	var head struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Metadata   struct {
			Name      string `yaml:"name"`
			Namespace string `yaml:"namespace"`
		} `yaml:"metadata"`
	}
	if err := root.Decode(&head); err != nil {
		return &Error{Path: path, Line: root.Line, Err: err}
	}
	switch {
	case head.Kind == "":
		return &Error{Path: path, Line: root.Line, Err: errors.New("kind is missing")}
	case head.Kind != Kind:
		return f.addOther(root, Document{Path: path, Line: root.Line, APIVersion: head.APIVersion, Kind: head.Kind,
			Name: head.Metadata.Name, Namespace: head.Metadata.Namespace})
	case head.APIVersion != APIVersion:
		return &Error{Path: path, Line: root.Line, Stage: head.Metadata.Name, Field: "apiVersion",
			Err: fmt.Errorf("want %s, got %q", APIVersion, head.APIVersion)}
	}
	s := &Stage{Path: path, Name: head.Metadata.Name, lines: map[string]int{"": root.Line}}
	if err := s.decodeStage(root); err != nil {
		return err
	}
	f.Stages = append(f.Stages, s)
	return nil
}

func (f *File) addOther(root *yaml.Node, d Document) error {
	var v any
	err := root.Decode(&v)
	if err == nil {
		d.JSON, err = json.Marshal(v)
	}
	if err != nil {
		return &Error{Path: d.Path, Line: d.Line, Err: fmt.Errorf("%s %s: %w", d.Kind, d.Name, err)}
	}
	d.root, d.lines = root, map[string]int{"": root.Line}
	f.Others = append(f.Others, d)
	return nil
}

// decodeStage reads the stage's document and checks it.
func (s *Stage) decodeStage(root *yaml.Node) error {
	about := Error{Path: s.Path, Stage: s.Name}
	var faults []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		switch key.Value {
		case "apiVersion", "kind", "status":
		case "metadata":
			s.lines["metadata"] = key.Line
		case "spec":
			faults = append(faults, decodeTree(about, s.lines, "spec", value, &s.Spec)...)
			s.lines["spec"] = key.Line
		default:
			faults = append(faults, about.atField(key.Line, key.Value, Unknown("field", key.Value, []string{"apiVersion", "kind", "metadata", "spec", "status"})))
		}
	}
	if len(faults) == 0 {
		faults = s.checkStage()
	}
	return errors.Join(faults...)
}

package subject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
)

// ErrNoObject says that a document is none that an API server could take.
var ErrNoObject = errors.New("it is no object of Kubernetes")

// Object is one document of a file.
type Object struct {
	Place      string // "FILE: document 2"
	APIVersion string
	Kind       string
	Namespace  string // as it stands in the file
	Name       string
	Body       []byte // JSON
	manager    string // who applies it; empty: fieldManager
}

// maxDocument bounds one document, in bytes.
const maxDocument = 16 << 20

// Decode reads the objects of a file: several documents of YAML or JSON; a List
// stands for what is in it. Errors name the file and the document.
func Decode(file string, raw []byte) ([]Object, error) {
	if key, line, first := strictyaml.Twice(raw); line > 0 {
		return nil, fmt.Errorf("%s:%d: field %q stands twice in one mapping (first on line %d): only the last one would count", file, line, key, first)
	}
	var out []Object
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for n := 1; ; n++ {
		var one json.RawMessage
		err := documents.Decode(&one)
		place := fmt.Sprintf("%s: document %d", file, n)
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("%s: not YAML: %s", place, text.YAMLFault(err))
		case len(one) == 0 || string(one) == "null":
			continue
		}
		objects, err := decodeObjects(place, one)
		if err != nil {
			return nil, err
		}
		out = append(out, objects...)
	}
}

// head is what is known of any object.
type head struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   object.Metadata   `json:"metadata"`
	Items      []json.RawMessage `json:"items"`
}

func decodeObjects(place string, raw []byte) ([]Object, error) {
	if len(raw) > maxDocument {
		return nil, fmt.Errorf("%s: more than %d bytes", place, maxDocument)
	}
	var h head
	if err := text.DecodeJSON(place, raw, &h); err != nil {
		return nil, fmt.Errorf("%w (%w)", err, ErrNoObject)
	}
	if h.APIVersion == "v1" && h.Kind == "List" {
		var out []Object
		for i, item := range h.Items {
			objects, err := decodeObjects(fmt.Sprintf("%s: item %d", place, i+1), item)
			if err != nil {
				return nil, err
			}
			out = append(out, objects...)
		}
		return out, nil
	}
	for _, f := range []struct{ name, value string }{{"apiVersion", h.APIVersion}, {"kind", h.Kind}, {"metadata.name", h.Metadata.Name}} {
		if f.value == "" {
			return nil, fmt.Errorf("%s: %w: no %s", place, ErrNoObject, f.name)
		}
	}
	return []Object{{Place: place, APIVersion: h.APIVersion, Kind: h.Kind, Namespace: h.Metadata.Namespace, Name: h.Metadata.Name, Body: raw}}, nil
}

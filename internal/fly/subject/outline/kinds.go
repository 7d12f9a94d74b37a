package outline

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/fly/subject/program"
)

// Kind is a kind of objects that a module defines.
type Kind struct {
	Group, Version, Kind, Plural string
	Namespaced                   bool
	Conditions                   bool           // its status has conditions
	Sample                       map[string]any // an object of it that the module has; nil: none
	SampleFile                   string         // where
}

// definition is what is read of a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Kind   string `json:"kind"`
			Plural string `json:"plural"`
		} `json:"names"`
		Versions []struct {
			Name    string `json:"name"`
			Served  bool   `json:"served"`
			Storage bool   `json:"storage"`
			Schema  struct {
				OpenAPI struct {
					Properties struct {
						Status struct {
							Properties map[string]json.RawMessage `json:"properties"`
						} `json:"status"`
					} `json:"properties"`
				} `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// ReadKinds returns the kinds that a module defines, those with a sample first. What cannot
// be read, such as the template of a chart, is left out.
func ReadKinds(p program.Program) (out []Kind) {
	for _, o := range readAll(p, p.Definitions) {
		var d definition
		if json.Unmarshal(o.Body, &d) != nil || o.Kind != "CustomResourceDefinition" {
			continue
		}
		for _, v := range d.Spec.Versions {
			k := Kind{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind, Plural: d.Spec.Names.Plural, Namespaced: d.Spec.Scope == "Namespaced"}
			_, k.Conditions = v.Schema.OpenAPI.Properties.Status.Properties["conditions"]
			if v.Storage && v.Served && !slices.ContainsFunc(out, func(x Kind) bool { return x.Group == k.Group && x.Kind == k.Kind }) {
				out = append(out, k)
			}
		}
	}
	for _, o := range readAll(p, p.Manifests) {
		i := slices.IndexFunc(out, func(k Kind) bool { return o.APIVersion == k.Group+"/"+k.Version && o.Kind == k.Kind })
		var body map[string]any
		if i < 0 || out[i].Sample != nil || json.Unmarshal(o.Body, &body) != nil || hasMarks(o.Body) {
			continue
		}
		out[i].Sample, out[i].SampleFile = body, strings.TrimPrefix(o.Place, p.Files()+"/")
	}
	slices.SortStableFunc(out, func(a, b Kind) int { return b.rank() - a.rank() })
	return out
}

// hasMarks says that an object has what a scenario would take for a parameter or a template.
func hasMarks(body []byte) bool {
	return bytes.Contains(body, []byte("${")) || bytes.Contains(body, []byte("{{"))
}

// rank says how well a kind serves as a first load.
func (k Kind) rank() (n int) {
	for _, good := range []bool{k.Namespaced, k.Conditions, k.Sample != nil, k.Sample != nil} {
		if good {
			n++
		}
	}
	return n
}

// readAll reads the objects of some files of a module.
func readAll(p program.Program, files []string) (out []subject.Object) {
	for _, file := range files {
		objects, err := subject.DecodeBuilt(p, file)
		if err == nil {
			out = append(out, objects...)
		}
	}
	return out
}

// body returns the object that a step creates, as the template of a scenario.
func (k Kind) body() (string, error) {
	o := map[string]any{"spec": map[string]any{}}
	for name, value := range k.Sample {
		if name != "status" && name != "metadata" {
			o[name] = value
		}
	}
	metadata := map[string]any{"name": "{{ .Name }}", "labels": map[string]any{"windtunnel.dev/group": "{{ .Group }}"}}
	if k.Namespaced {
		metadata["namespace"] = "{{ .Namespace }}"
	}
	o["apiVersion"], o["kind"], o["metadata"] = k.Group+"/"+k.Version, k.Kind, metadata
	raw, err := yaml.Marshal(o)
	return string(raw), err
}

// Resource is how steps name the objects of a kind.
func (k Kind) Resource() string { return k.Plural + "." + k.Group }

// Place returns the file of a kind's sample without the number of the document.
func (k Kind) Place() string {
	file, _, _ := strings.Cut(k.SampleFile, ": document")
	return path.Clean(file)
}

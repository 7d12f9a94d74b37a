package outline

import (
	"bytes"
	"encoding/json"
	"path"
	"regexp"
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
	Ready                        string         // the one that says that an object is ready; empty: the definition names none
	Sample                       map[string]any // an object of it that the module has; nil: none
	SampleFile                   string         // where
	sampleSize                   int            // bytes: of several samples, the smallest names the fewest other objects
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
			Name    string   `json:"name"`
			Served  bool     `json:"served"`
			Storage bool     `json:"storage"`
			Columns []column `json:"additionalPrinterColumns"`
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

// column is what kubectl shows of an object.
type column struct {
	Path string `json:"jsonPath"`
}

// conditionPath is how a column names a condition.
var conditionPath = regexp.MustCompile(`\.status\.conditions\[\?\(@\.type ?== ?['"](\w+)['"]\)\]\.status`)

// readyCondition returns the condition that says that an object is ready, of those that
// kubectl shows: by its name, or the first one that tells of no trouble.
func readyCondition(columns []column) string {
	var all []string
	for _, c := range columns {
		if m := conditionPath.FindStringSubmatch(c.Path); m != nil {
			all = append(all, m[1])
		}
	}
	for _, good := range []string{"Ready", "Available"} {
		if slices.Contains(all, good) {
			return good
		}
	}
	i := slices.IndexFunc(all, func(name string) bool {
		return !slices.Contains([]string{"Paused", "Suspended", "Drifted", "Degraded", "Failed", "Progressing", "Stalled", "Deleting"}, name)
	})
	if i < 0 {
		return ""
	}
	return all[i]
}

// ReadKinds returns the kinds that a module defines, those with a sample first. What cannot
// be read, such as the template of a chart, is left out.
func ReadKinds(p program.Program) (out []Kind) {
	for _, o := range readAll(p, p.Definitions) {
		d, _ := readDefinition(o)
		for _, v := range d.Spec.Versions {
			k := Kind{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind, Plural: d.Spec.Names.Plural, Namespaced: d.Spec.Scope == "Namespaced"}
			k.Ready = readyCondition(v.Columns)
			_, k.Conditions = v.Schema.OpenAPI.Properties.Status.Properties["conditions"]
			if v.Storage && v.Served && !slices.ContainsFunc(out, func(x Kind) bool { return x.Group == k.Group && x.Kind == k.Kind }) {
				out = append(out, k)
			}
		}
	}
	for _, o := range readAll(p, p.Manifests) {
		i := slices.IndexFunc(out, func(k Kind) bool { return o.APIVersion == k.Group+"/"+k.Version && o.Kind == k.Kind })
		var body map[string]any
		if i < 0 || out[i].Sample != nil && len(o.Body) >= out[i].sampleSize || json.Unmarshal(o.Body, &body) != nil || hasMarks(o.Body) {
			continue
		}
		out[i].Sample, out[i].SampleFile, out[i].sampleSize = body, strings.TrimPrefix(o.Place, p.Files()+"/"), len(o.Body)
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

// references returns the names of other objects in a sample, each as "serviceAccountName:
// prometheus", sorted: whoever creates the sample alone may wait in vain for it.
func (k Kind) references() []string {
	var out []string
	var walk func(key string, value any)
	walk = func(key string, value any) {
		lower := strings.ToLower(key)
		kind := referredKind.FindString(lower)
		switch v := value.(type) {
		case string:
			if kind != "" && strings.HasSuffix(lower, "name") {
				out = append(out, key+": "+v)
			}
		case map[string]any:
			if name, ok := v["name"].(string); ok && (kind != "" || strings.HasSuffix(lower, "ref")) {
				out = append(out, key+": "+name)
			}
			for inner, value := range v {
				walk(inner, value)
			}
		case []any:
			for _, value := range v {
				walk(key, value)
			}
		}
	}
	walk("", k.Sample["spec"])
	slices.Sort(out)
	return slices.Compact(out)
}

// referredKind is a kind of objects in the name of a field, in small letters.
var referredKind = regexp.MustCompile(`serviceaccount|secret|configmap|storageclass`)

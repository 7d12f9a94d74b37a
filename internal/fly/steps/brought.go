package steps

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
)

// lookedAt is how many objects of a step are rendered to see what labels they have.
const lookedAt = 1000

// mayHaveBrought tells whether one of the step's objects, which may be gone by now, is of a
// resource and has labels that fit, or has a template of objects with such labels.
func (o *Objects) mayHaveBrought(r discovery.Resource, fits labels.Selector) bool {
	to := max(1, o.UpToEver()) // where none were to be made, none need have been there
	for i := range min(o.layout.Count(0, to), lookedAt) {
		n := o.layout.Ordinal(i, 0, to)
		it := &o.items[n.Item]
		if it.resource == r && fits.Empty() {
			return true
		}
		raw, err := it.body.Render(nil, o.varsOf(n))
		var all map[string]any
		if err != nil || json.Unmarshal(raw, &all) != nil {
			continue // left out, or of another form
		}
		if it.resource == r && fits.Matches(labelsOf(all)) || it.resource != r && hasTemplate(all, fits) {
			return true
		}
	}
	return false
}

// hasTemplate tells whether an object has, below itself, the template of another whose
// labels fit.
func hasTemplate(v any, fits labels.Selector) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(one any) bool { return isTemplate(one, fits) })
	case map[string]any:
		for key, one := range v {
			if key != "metadata" && isTemplate(one, fits) {
				return true
			}
		}
	}
	return false
}

// isTemplate tells whether a value is such a template, or has one below itself.
func isTemplate(v any, fits labels.Selector) bool {
	object, ok := v.(map[string]any)
	return ok && object["metadata"] != nil && fits.Matches(labelsOf(object)) || hasTemplate(v, fits)
}

// labelsOf returns the labels of an object.
func labelsOf(object map[string]any) labels.Set {
	metadata, _ := object["metadata"].(map[string]any)
	all, _ := metadata["labels"].(map[string]any)
	out := labels.Set{}
	for key, value := range all {
		out[key], _ = value.(string)
	}
	return out
}

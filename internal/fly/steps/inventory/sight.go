package inventory

import (
	"encoding/json"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
)

// Sight is whether there is a reason to think that objects were ever there: what is gone
// before anybody looks, and what a mistyped selector does not fit, look alike. Those who look
// in several clusters share one.
type Sight struct {
	once sync.Once
	had  chan struct{}
}

// NewSight returns one of objects that nobody knows of.
func NewSight() *Sight { return &Sight{had: make(chan struct{})} }

// Note remembers that there is a reason.
func (s *Sight) Note() { s.once.Do(func() { close(s.had) }) }

// Had is closed when there is a reason.
func (s *Sight) Had() <-chan struct{} { return s.had }

// IsHad tells whether there is one.
func (s *Sight) IsHad() bool {
	select {
	case <-s.had:
		return true
	default:
		return false
	}
}

// Brings tells whether the JSON of an object is of one whose labels fit, where the object is
// of the resource that is asked for, or has the template of objects with such labels.
func Brings(raw []byte, ofResource bool, fits labels.Selector) bool {
	var all map[string]any
	if json.Unmarshal(raw, &all) != nil {
		return false // of another form
	}
	if ofResource {
		return fits.Matches(labelsOf(all))
	}
	return hasTemplate(all, fits)
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

package workload

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/scenario"
)

// Made is where an object is made. Those of a step without cluster are the plane's.
type Made struct{ Cluster, APIVersion, Kind, Namespace, Name string }

// MadeNames are the objects that steps make, and which step makes each. Two with one name
// cannot be made: the server refuses the second.
type MadeNames map[Made]string

// DeletesObjects tells a step after which objects may be gone.
func DeletesObjects(s *scenario.Step) bool {
	return s.Delete != nil || s.Exec != nil || s.Scale != nil || s.Wait != nil && (s.Wait.Deleted || s.Wait.Are == "deleted") ||
		s.Requests != nil && slices.ContainsFunc(s.Requests.Mix, func(c scenario.Call) bool { return c.Verb == "delete" || c.Verb == "deletecollection" })
}

// Add adds an object of a body.
func (m MadeNames) Add(at Made, step, body string) error {
	before, twice := m[at]
	m[at] = step
	if !twice || isAnswered(at.Kind) {
		return nil
	}
	where := fmt.Sprintf("%s %q", at.Kind, at.Name)
	if at.Namespace != "" {
		where += " in namespace " + at.Namespace
	}
	if before != step {
		return fmt.Errorf("it makes %s, and so does step %q before it: the second request would be refused (409); give create.name, or expects: [409]", where, before)
	}
	return fmt.Errorf("body %q makes %s more than once: the second request would be refused (409); put {{ .Name }} into metadata.name, or expects: [409]", body, where)
}

// CheckFixedCreates joins an error for each create of a mix whose calls all have one name.
func CheckFixedCreates(w *Workload) error {
	var errs []error
	for step := range w.Scenario.AllSteps() {
		r := step.Requests
		if r == nil || r.Count > 0 && r.Count <= len(r.Mix) || DeletesObjects(step) || w.Expects(step.Name, http.StatusConflict) {
			continue
		}
		for i := range r.Mix {
			if c := &r.Mix[i]; c.Verb == "create" && c.Subresource == "" && w.IsStrict(c.Body) && w.Bodies[c.Body] != nil {
				if name := fixedName(w, step.Name, c); name != "" && !isAnswered(w.Bodies[c.Body].Kind()) { // known when it was rendered
					errs = append(errs, fmt.Errorf("%s: body %q makes %s %q with each call: the second would be refused (409); put {{ .Name }} into metadata.name, or expects: [409]",
						w.PlaceOfStep(step), c.Body, w.Bodies[c.Body].Kind(), name))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// isAnswered tells a kind whose objects are answered and not kept, such as SubjectAccessReview.
func isAnswered(kind string) bool { return strings.HasSuffix(kind, "Review") }

// fixedName returns the name that the objects of a call have in common; empty where they differ.
func fixedName(w *Workload, step string, c *scenario.Call) string {
	spaces, names := w.NamespacesOf(&scenario.Create{Namespace: c.Namespace}), [2]string{}
	for i := range names {
		n := i * len(spaces) // of the first namespace
		raw, err := w.Bodies[c.Body].Render(nil, template.Vars{Name: fmt.Sprintf("%s-%d", c.Name, n), Namespace: spaces[0], Index: n, Seed: w.SeedOf(step), With: c.With})
		about, wrong := object.ReadMetadata(raw)
		if err != nil || wrong != nil {
			return ""
		}
		names[i] = about.Name
	}
	if names[0] != names[1] {
		return ""
	}
	return names[0]
}

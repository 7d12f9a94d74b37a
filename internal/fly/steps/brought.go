package steps

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
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
		raw, err := it.body.Render(nil, o.varsOf(n)) // an error: left out
		if err == nil && inventory.Brings(raw, it.resource == r, fits) {
			return true
		}
	}
	return false
}

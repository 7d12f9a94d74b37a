package discovery

import (
	"fmt"
	"slices"
	"strings"
)

// Unlisted collects the resources that could not be listed.
type Unlisted struct {
	names []string
	why   map[string]error
}

// namedResources is how many of them its error names.
const namedResources = 3

// Add notes why a resource could not be listed; nothing where err is nil.
func (u *Unlisted) Add(resource string, err error) {
	if err == nil {
		return
	}
	if u.why == nil {
		u.why = map[string]error{}
	}
	u.names = append(u.names, resource)
	u.why[resource] = err
}

// Err says in one sentence how many of all resources could not be listed, and
// why the first of them could not; nil where there are none.
func (u *Unlisted) Err(all int) error {
	if len(u.names) == 0 {
		return nil
	}
	slices.Sort(u.names)
	names := strings.Join(u.names[:min(len(u.names), namedResources)], ", ")
	if len(u.names) > namedResources {
		names += ", ..."
	}
	return fmt.Errorf("%d of %d resources could not be listed (%s): %w", len(u.names), all, names, u.why[u.names[0]])
}

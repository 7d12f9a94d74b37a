package cleanup

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/door"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Whoever may label an object could have it deleted by those who clean up, and so could
// whoever copies a manifest out of a run. The second proof is who has put the label there:
// the API server writes that down as the field's manager.

// labeledBy returns the managers that have put the run's label on an object.
func labeledBy(o discovery.Metadata) (by []string) {
	for _, m := range o.ManagedFields {
		var fields struct {
			Metadata struct {
				Labels map[string]json.RawMessage `json:"f:labels"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(m.Fields, &fields) == nil && fields.Metadata.Labels["f:"+object.RunLabel] != nil {
			by = append(by, m.Manager)
		}
	}
	return by
}

// isMarked says whether a process of windtunnel has put the label there.
func (f Found) isMarked() bool {
	return slices.ContainsFunc(f.by, func(manager string) bool { return strings.HasPrefix(manager, door.Manager) })
}

// Prove tells what runs have made from what only carries the label of one. A run has made
// what its processes have labeled, what that owns, what lies in namespaces of its own, and
// what the cluster's controllers make of its StatefulSets and Services without an owner.
// before is what was proved at an earlier look and may be gone. Of an object
// for which the server keeps no managers of fields, as in-memory clusters do, the label is
// all there is.
func Prove(found, before []Found) (made, others []Found) {
	proved := map[string]bool{}
	all := slices.Clone(before)
	for _, f := range before {
		proved[f.UID] = true
	}
	rest := found
	for {
		var next []Found
		for _, f := range rest {
			if f.isMarked() || !f.managed || f.belongsToProved(proved, all) {
				proved[f.UID] = true
				made, all = append(made, f), append(all, f)
			} else {
				next = append(next, f)
			}
		}
		if len(next) == len(rest) || len(next) == 0 {
			return made, next
		}
		rest = next
	}
}

// belongsToProved says whether an object belongs to one of those that are proved.
func (f Found) belongsToProved(proved map[string]bool, all []Found) bool {
	if slices.ContainsFunc(f.owners, func(uid string) bool { return proved[uid] }) {
		return true
	}
	return slices.ContainsFunc(all, func(p Found) bool {
		switch {
		case p.Resource == "namespaces":
			return p.Name == f.Namespace
		case p.Namespace != f.Namespace || len(f.owners) > 0:
			return false
		case f.Resource == "persistentvolumeclaims":
			return p.Resource == "statefulsets.apps" && strings.Contains(f.Name, "-"+p.Name+"-")
		case f.Resource == "endpoints":
			return p.Resource == "services" && p.Name == f.Name
		}
		return false
	})
}

// Foreign says what is left because nobody of ours has labeled it; nil: there is nothing.
func Foreign(others []Found) error {
	if len(others) == 0 {
		return nil
	}
	var names []string
	for _, f := range others[:min(len(others), maxNamed)] {
		by := strings.Join(f.by, ", ")
		if by == "" {
			by = "an unknown manager"
		}
		names = append(names, fmt.Sprintf("%s (labeled by %s)", f, by))
	}
	if more := len(others) - maxNamed; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%s %s the label %s, but windtunnel did not set it: %s: delete with kubectl, or remove the label", unit.Count(len(others), "objects"), unit.Verb(len(others), "carries", "carry"), object.RunLabel, strings.Join(names, ", "))
}

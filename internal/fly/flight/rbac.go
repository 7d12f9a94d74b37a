package flight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
)

// neededRights are the rights without which a run ends before it begins.
func neededRights(all workload.Rights) (out []plane.Right) {
	for _, r := range all.All {
		resource, part, _ := strings.Cut(r.Resource, "/")
		for _, verb := range r.Verbs {
			if !r.Optional {
				out = append(out, plane.Right{Verb: verb, Group: r.Group, Resource: resource, Part: part, Namespace: r.Namespace})
			}
		}
	}
	return out
}

// RBAC returns the roles that a scenario needs in a cluster that is not the run's own, as YAML:
// a ClusterRole, and a Role for each namespace that the scenario names.
func RBAC(o Options) (string, error) {
	r, _, err := lookAhead(o)
	if err != nil {
		return "", err
	}
	rights := r.workload.Rights()
	var b strings.Builder
	fmt.Fprintf(&b, "# The rights that scenario %s needs with --kubeconfig. Bind them to the user of the kubeconfig.\n", r.scenario.Name)
	for _, note := range rights.Notes {
		fmt.Fprintf(&b, "# Not included: %s.\n", note)
	}
	name := "windtunnel-" + r.scenario.Name
	var spaces []string
	for _, r := range rights.All {
		if !slices.Contains(spaces, r.Namespace) {
			spaces = append(spaces, r.Namespace)
		}
	}
	writeRole(&b, name, "", rights.All)
	for _, namespace := range spaces {
		if namespace != "" {
			writeRole(&b, name, namespace, rights.All)
		}
	}
	return b.String(), nil
}

// writeRole writes the role of a namespace, or the ClusterRole. What the run does without is
// said in a comment.
func writeRole(b *strings.Builder, name, namespace string, all []workload.Right) {
	kind, where := "ClusterRole", ""
	if namespace != "" {
		kind, where = "Role", "\n  namespace: "+namespace
	}
	fmt.Fprintf(b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata:\n  name: %s%s\nrules:\n", kind, name, where)
	for _, r := range all {
		if r.Namespace != namespace {
			continue
		}
		if r.Optional {
			fmt.Fprintln(b, "# optional: without it the run warns")
		}
		fmt.Fprintf(b, "- apiGroups: [%q]\n  resources: [%s]\n  verbs: [%s]\n", r.Group, r.Resource, strings.Join(r.Verbs, ", "))
	}
	if namespace == "" {
		fmt.Fprint(b, "# optional: without it the API server's metrics are not in the report\n- nonResourceURLs: [/metrics]\n  verbs: [get]\n")
	}
}

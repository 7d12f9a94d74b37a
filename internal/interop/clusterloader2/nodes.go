package clusterloader2

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
	"github.com/windtunnel/windtunnel/internal/interop/placement"
	"github.com/windtunnel/windtunnel/internal/text"
)

// nodeLabels is the variable of --set that says which labels the cluster's nodes have.
const nodeLabels = "NodeLabels"

// nodes are the simulated nodes' labels, as the pods of the config want them.
type nodes struct {
	placement.Labels
	first config.Position // of the object that is the first to want some
}

// givenLabels reads --set NodeLabels=a=b,c=d; nil where it is not given.
func (im *importer) givenLabels() map[string]string {
	text, ok := im.options.Set[nodeLabels]
	if !ok {
		return nil
	}
	out := map[string]string{}
	for _, pair := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' }) {
		key, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
			im.faults.list = append(im.faults.list, flagFault("--set %s=%s: %q is not a label such as pool=batch", nodeLabels, text, pair))
			continue
		}
		out[key] = value
	}
	return out
}

// placePods makes the nodes fit the pods of an object.
func (l *lowering) placePods(o *config.Object, s sample) {
	if s.pods == 0 && !s.everyNode || l.options.Attached {
		return
	}
	had, missed := len(l.nodes.Values()), len(l.nodes.Unmet())
	l.nodes.Want(s.node)
	at := o.At("objectTemplatePath")
	if had == 0 && len(l.nodes.Values()) > 0 {
		l.nodes.first = at
	}
	for _, what := range l.nodes.Unmet()[missed:] {
		l.noteDifference(at, "nodeSelector", "the pods of %s select nodes with %s, which no simulated node has: they stay pending", o.ObjectTemplatePath, what)
	}
}

// labelNodes gives the nodes their labels: those of --set, or those that pods select.
func (l *lowering) labelNodes() {
	if l.nodes.Fixed != nil && !l.options.Attached {
		l.out.Fleet.Labels = l.nodes.Fixed
		return
	}
	values := l.nodes.Values()
	if len(values) == 0 {
		return
	}
	l.out.Fleet.Labels = values
	labels := strings.Join(text.Pairs(values), ",")
	l.noteDifference(l.nodes.first, "nodeSelector", "pods select nodes by labels, so all simulated nodes get %s; if the nodes of your cluster have them, say so with --set %s=%s", labels, nodeLabels, labels)
}

package kind

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// selectable are the fields that selectors of built-in resources may name besides
// name and namespace, with what they are where they are not set.
const selectable = `
certificatesigningrequests.certificates.k8s.io spec.signerName
events involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reason reportingComponent source type
events.events.k8s.io regarding.kind regarding.namespace regarding.name regarding.uid regarding.apiVersion regarding.resourceVersion regarding.fieldPath reason reportingController type
jobs.batch status.successful=0
namespaces status.phase
nodes spec.unschedulable=false
pods spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork=false status.phase status.podIP status.nominatedNodeName
replicasets.apps status.replicas=0
replicationcontrollers status.replicas=0
resourceslices.resource.k8s.io spec.driver spec.nodeName
secrets type
services spec.clusterIP spec.type
`

// selector is a field of a kind that selectors may name.
type selector struct {
	name   string
	path   []string
	absent string
}

// fieldAlias are the fields that lie elsewhere than their names say.
func fieldAlias(name string) string {
	switch name {
	case "source":
		return "source.component"
	case "status.successful":
		return "status.succeeded"
	}
	return name
}

func fieldsOf(k *Kind) (out []selector) {
	for line := range strings.Lines(selectable) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != k.Table() {
			continue
		}
		for _, w := range words[1:] {
			name, absent, _ := strings.Cut(w, "=")
			out = append(out, selector{name, strings.Split(fieldAlias(name), "."), absent})
		}
	}
	return out
}

// Selects says whether a field selector may name a field.
func (k *Kind) Selects(name string) bool {
	return name == "metadata.name" || name == "metadata.namespace" && k.Namespaced ||
		slices.ContainsFunc(k.fields, func(f selector) bool { return f.name == name })
}

// Unselected is the error for a field that no selector may name.
func (k *Kind) Unselected(name string) error {
	switch {
	case k.Table() == "jobs.batch":
		return fmt.Errorf("field label %q not supported for Job", name)
	case len(k.fields) > 0 && k.Custom == nil:
		return fmt.Errorf("field label not supported: %s", name)
	case k.Custom != nil:
		return fmt.Errorf("field label not supported: %s", name)
	}
	return fmt.Errorf("%q is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", name)
}

// Fields returns the values of the fields that a selector may name.
func (k *Kind) Fields(key string, raw []byte) fields.Set {
	namespace, name := SplitKey(key)
	out := fields.Set{"metadata.name": name}
	if k.Namespaced {
		out["metadata.namespace"] = namespace
	}
	if len(k.fields) == 0 {
		return out
	}
	get := k.fieldReader(raw)
	for _, f := range k.fields {
		if out[f.name] = get(f.path); out[f.name] == "" {
			out[f.name] = f.absent
		}
	}
	return out
}

// fieldReader returns a function that reads a field of an object as a text.
func (k *Kind) fieldReader(raw []byte) func(path []string) string {
	if k.goType == nil {
		var tree map[string]any
		_ = json.Unmarshal(raw, &tree) // what is kept was encoded here
		return func(path []string) string {
			v, ok, err := unstructured.NestedFieldNoCopy(tree, path...)
			if !ok || err != nil || v == nil {
				return ""
			}
			return fmt.Sprint(v)
		}
	}
	var d object.Document
	root := d.Reset(k.schema(), raw)
	return func(path []string) string {
		v := root
		for _, name := range path {
			v = v.Get(name)
		}
		return v.String()
	}
}

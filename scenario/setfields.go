package scenario

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// planePrefix begins what --set changes in the file itself, in place of a
// parameter: plane.durability, plane.components.etcd.flags.snapshot-count.
const planePrefix = "plane."

// SplitSet cuts what --set gives into parameters and fields of plane.
func SplitSet(set map[string]string) (parameters, fields map[string]string) {
	parameters, fields = map[string]string{}, map[string]string{}
	for name, value := range set {
		if strings.HasPrefix(name, planePrefix) {
			fields[name] = value
		} else {
			parameters[name] = value
		}
	}
	return parameters, fields
}

// moveReleases lets --set release=v1.36.3 and --set etcd=v3.6.12 mean the fields of plane
// in a file that has no parameter of that name, so that any file compares releases.
func moveReleases(root *yaml.Node, set, fields map[string]string) {
	for _, name := range []string{"release", "etcd"} {
		value, given := set[name]
		if given && !declares(root, name) {
			delete(set, name)
			fields[planePrefix+name] = value
		}
	}
}

// declares says whether a file has a parameter.
func declares(root *yaml.Node, name string) bool {
	parameters := valueAt(root, "parameters")
	return parameters != nil && valueAt(parameters, name) != nil
}

// valueAt returns the value of a field; nil: it is not there.
func valueAt(at *yaml.Node, key string) *yaml.Node {
	if at.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(at.Content); i += 2 {
		if at.Content[i].Value == key {
			return at.Content[i+1]
		}
	}
	return nil
}

// setFields puts values into the tree of a file, where the decoder finds them as
// if they stood there: what is no field is its fault. They have line 0.
func (f *problems) setFields(root *yaml.Node, fields map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at, path := root, strings.Split(name, ".")
		for i, key := range path {
			if key == "" || at.Kind != yaml.MappingNode {
				f.add(0, "--set %s=%s: there is no such field", name, clipText(fields[name]))
				break
			}
			kind := yaml.MappingNode
			if i == len(path)-1 {
				kind = yaml.ScalarNode
			}
			at = fieldOf(at, key, kind)
			if kind == yaml.ScalarNode {
				*at = yaml.Node{Kind: kind, Value: fields[name]}
			}
		}
	}
}

// fieldOf returns the value of a field, which it adds where there is none. What
// stands there by an alias is copied, so that its other uses stay as they are.
func fieldOf(at *yaml.Node, key string, kind yaml.Kind) *yaml.Node {
	for i := 0; i+1 < len(at.Content); i += 2 {
		if at.Content[i].Value != key {
			continue
		}
		v := at.Content[i+1]
		if v.Kind == yaml.AliasNode && v.Alias != nil {
			v = deepCopy(v.Alias, maxDepth)
		}
		if v.ShortTag() == "!!null" {
			v = &yaml.Node{Kind: kind}
		}
		at.Content[i+1] = v
		return v
	}
	v := &yaml.Node{Kind: kind}
	at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key, Tag: "!!str"}, v)
	return v
}

// deepCopy copies a tree without its anchor; below depth it stays shared.
func deepCopy(n *yaml.Node, depth int) *yaml.Node {
	out := *n
	out.Anchor, out.Content = "", slices.Clone(n.Content)
	for i, child := range out.Content {
		if depth > 0 {
			out.Content[i] = deepCopy(child, depth-1)
		}
	}
	return &out
}

package control

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/backend"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
	"github.com/windtunnel/windtunnel/internal/text"
)

// Save writes all objects of a registry: as kubectl's List in JSON, or with documents
// set as one document of YAML each, as kwok's snapshots are.
func Save(w io.Writer, r *registry.Registry, documents bool) error {
	if !documents {
		if _, err := io.WriteString(w, `{"apiVersion":"v1","kind":"List","metadata":{},"items":[`); err != nil {
			return err
		}
	}
	n := 0
	err := eachObject(r, func(raw []byte) error {
		n++
		if documents {
			return writeDocument(w, raw)
		}
		if n > 1 {
			raw = append([]byte(","), raw...)
		}
		_, err := w.Write(raw)
		return err
	})
	if err == nil && !documents {
		_, err = io.WriteString(w, "]}\n")
	}
	return err
}

func writeDocument(w io.Writer, raw []byte) error {
	out, err := yaml.JSONToYAML(raw)
	if err != nil {
		return err
	}
	_, err = w.Write(append([]byte("---\n"), out...))
	return err
}

// eachObject calls f with the JSON of every object: definitions before what they define,
// namespaces before what is in them.
func eachObject(r *registry.Registry, f func(raw []byte) error) error {
	seen := map[string]bool{}
	kinds := slices.Clone(r.Kinds().All())
	slices.SortStableFunc(kinds, func(a, b *kind.Kind) int { return rank(a.GVK()) - rank(b.GVK()) })
	for _, k := range kinds {
		if seen[k.Table()] {
			continue
		}
		seen[k.Table()] = true
		found, err := r.Table(k).List(store.Query{})
		if err != nil {
			return err
		}
		for _, o := range found.Objects {
			raw, err := k.JSON(o.Raw)
			if err == nil {
				err = f(raw)
			}
			if err != nil {
				return fmt.Errorf("save %s %s: %w", k.Plural, o.Key, err)
			}
		}
	}
	return nil
}

// rank orders kinds as they must be loaded.
func rank(gvk schema.GroupVersionKind) int {
	switch gvk.Kind {
	case "CustomResourceDefinition":
		return 0
	case "Namespace":
		return 1
	}
	return 2
}

// Load stores objects as they stand in a List, or in documents of JSON or YAML: with
// their status, and with their uids and times where they have them. An object that
// is there is replaced. Nothing is stored of what cannot be read; the error joins
// all faults. It returns how many objects were loaded.
func Load(r io.Reader, b *backend.Backend) (int, error) {
	all, err := readObjects(r)
	if err != nil {
		return 0, err
	}
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int {
		return rank(a.GroupVersionKind()) - rank(b.GroupVersionKind())
	})
	var faults []error
	n := 0
	for _, o := range all {
		if err := b.Load(o); err != nil {
			faults = append(faults, fmt.Errorf("load %s: %w", strings.TrimSpace(o.GetKind()+" "+cmp.Or(kind.Key(o.GetNamespace(), o.GetName()), "without a name")), err))
			continue
		}
		n++
	}
	return n, errors.Join(faults...)
}

// decodeObject reads a document as an object or a list of them.
func decodeObject(place string, raw []byte, o *unstructured.Unstructured) error {
	if o.UnmarshalJSON(raw) == nil {
		return nil
	}
	var fields map[string]any // read again, to say what is wrong
	if err := text.DecodeJSON(place, raw, &fields); err != nil {
		return err
	}
	if name, isText := fields["kind"].(string); !isText || name == "" {
		return fmt.Errorf("%s: it is no object of Kubernetes: no kind", place)
	}
	return fmt.Errorf("%s: it is a %s whose items are no objects of Kubernetes", place, fields["kind"])
}

// readObjects reads all objects of documents.
func readObjects(r io.Reader) (out []*unstructured.Unstructured, err error) {
	d := utilyaml.NewYAMLOrJSONDecoder(r, 4096)
	for n := 1; ; n++ {
		var raw runtime.RawExtension
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("document %d: not YAML or JSON: %s", n, text.YAMLFault(err))
		}
		if raw.Raw = bytes.TrimSpace(raw.Raw); len(raw.Raw) == 0 || string(raw.Raw) == "null" {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := decodeObject(fmt.Sprintf("document %d", n), raw.Raw, o); err != nil {
			return nil, err
		}
		if !o.IsList() {
			out = append(out, o)
			continue
		}
		err := o.EachListItem(func(item runtime.Object) error {
			out = append(out, item.(*unstructured.Unstructured))
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("document %d: it is a %s whose items are no objects of Kubernetes", n, o.GetKind())
		}
	}
}

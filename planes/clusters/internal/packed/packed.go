// Package packed holds labels and quantities in less memory than maps: caches of a hundred
// thousand nodes and their pods are made of little else.
package packed

import (
	"encoding/binary"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Labels are labels or annotations as one text, each name and value after its length. A
// map takes 312 bytes for the first of them.
type Labels string

// LabelsOf packs a map.
func LabelsOf(m map[string]string) Labels {
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(m)) {
		for _, text := range []string{name, m[name]} {
			out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
		}
	}
	return Labels(out)
}

// Each returns the names and values.
func (p Labels) Each() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		rest := string(p)
		next := func() string {
			length, n := binary.Uvarint([]byte(rest[:min(len(rest), binary.MaxVarintLen64)]))
			text := rest[n : n+int(length)]
			rest = rest[n+len(text):]
			return text
		}
		for rest != "" {
			if name := next(); !yield(name, next()) {
				return
			}
		}
	}
}

// Map unpacks them.
func (p Labels) Map() map[string]string { return maps.Collect(p.Each()) }

// Lookup, Has and Get make them labels.Labels.
func (p Labels) Lookup(label string) (value string, ok bool) {
	for name, value := range p.Each() {
		if name == label {
			return value, true
		}
	}
	return "", false
}

// Has tells whether there is a label.
func (p Labels) Has(label string) bool { _, ok := p.Lookup(label); return ok }

// Get returns the value of a label, empty without one.
func (p Labels) Get(label string) string { value, _ := p.Lookup(label); return value }

// Amounts are quantities by name, without the 600 bytes of a map.
type Amounts []amount

type amount struct {
	name corev1.ResourceName
	resource.Quantity
}

// AmountsOf packs a list.
func AmountsOf(list corev1.ResourceList) Amounts {
	out := make(Amounts, 0, len(list))
	for _, name := range slices.Sorted(maps.Keys(list)) {
		out = append(out, amount{name, list[name]})
	}
	return out
}

// RequestsOf is what a pod takes of its node: nothing when it has ended.
func RequestsOf(p *corev1.Pod) (out Amounts) {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	for i := range p.Spec.Containers {
		out = append(out, AmountsOf(p.Spec.Containers[i].Resources.Requests)...)
	}
	return slices.Clip(out)
}

// Equal tells whether two packed lists say the same.
func (a Amounts) Equal(b Amounts) bool {
	return slices.EqualFunc(a, b, func(x, y amount) bool { return x.name == y.name && x.Cmp(y.Quantity) == 0 })
}

// AddTo adds quantities so many times.
func (a Amounts) AddTo(to corev1.ResourceList, times int) {
	for _, one := range a {
		sum := to[one.name].DeepCopy()
		if times < 0 {
			sum.Sub(one.Quantity)
		} else {
			sum.Add(one.Quantity)
		}
		to[one.name] = sum
	}
}

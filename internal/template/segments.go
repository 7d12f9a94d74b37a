package template

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// plan is how to make the objects that share group, seed and With.
type plan struct {
	group    string
	seed     uint64
	with     map[string]any
	segments []segment // nil: by executing the template
	slow     string    // why there are no segments
}

// maxPlans is how many are kept for one template.
const maxPlans = 16

// segment is fixed text and what follows it.
type segment struct {
	text   []byte
	then   part
	random random
}

// part is what stands between the fixed texts of segments.
type part uint8

const (
	nothing part = iota
	theName
	theNamespace
	theIndex
	theReplica
	theCall
	drawn // a random value
)

// appendObject appends an object.
func (p *plan) appendObject(dst []byte, v Vars) []byte {
	for i := range p.segments {
		s := &p.segments[i]
		dst = s.appendVariable(append(dst, s.text...), v)
	}
	return dst
}

// appendVariable appends what follows the segment's text.
func (s *segment) appendVariable(dst []byte, v Vars) []byte {
	switch s.then {
	case theName:
		return append(dst, v.Name...)
	case theNamespace:
		return append(dst, v.Namespace...)
	case theIndex:
		return strconv.AppendInt(dst, int64(v.Index), 10)
	case theReplica:
		return strconv.AppendInt(dst, int64(v.ReplicaNumber()), 10)
	case theCall:
		return strconv.AppendInt(dst, int64(v.Call), 10)
	case drawn:
		return s.random.appendValue(dst, v.Seed, v.objectNumber())
	}
	return dst
}

// planFor returns the one for an object, and makes it if it is the first.
func (t *Template) planFor(v Vars) *plan {
	plans := t.plans.Load()
	if plans != nil {
		for _, p := range *plans {
			if p.group == v.Group && p.seed == v.Seed && sameMap(p.with, v.With) {
				return p
			}
		}
	}
	p := t.newPlan(v)
	for !t.plans.CompareAndSwap(plans, withPlan(plans, p)) {
		plans = t.plans.Load()
	}
	return p
}

// withPlan returns a copy of plans with one more; the oldest ones go.
func withPlan(plans *[]*plan, p *plan) *[]*plan {
	var out []*plan
	if plans != nil {
		out = slices.Clone(*plans)
	}
	out = append(out, p)
	out = out[max(0, len(out)-maxPlans):]
	return &out
}

// newPlan renders an object of markers, cuts it at them, and compares what the
// segments give with executions of the template for several other objects.
func (t *Template) newPlan(v Vars) *plan {
	p := &plan{group: v.Group, seed: v.Seed, with: v.With, slow: t.slow}
	if p.slow != "" {
		return p
	}
	x := t.pool.Get().(*executor)
	defer t.pool.Put(x)
	segments, why := x.cutSegments(v)
	if why != "" {
		p.slow = why
		return p
	}
	p.segments = segments
	for _, o := range probeObjects() {
		o.Group, o.Seed, o.With = v.Group, v.Seed, v.With
		text, err := x.executeTemplate(o, nil)
		if err != nil {
			p.segments, p.slow = nil, "a probe failed"
			return p
		}
		object, h, err := t.dialect.decodeObject(text, o)
		if err != nil || !bytes.Equal(object, p.appendObject(nil, o)) {
			p.segments, p.slow = nil, "a probe differed"
			return p
		}
		if !t.head.CompareAndSwap(nil, &h) && *t.head.Load() != h {
			p.segments, p.slow = nil, "its kind is not the first object's"
			return p
		}
	}
	return p
}

// probeObjects are objects unlike the markers and each other.
func probeObjects() []Vars {
	return []Vars{
		{Name: "probe-0", Namespace: "default"},
		{Name: "k-17", Namespace: "a-rather-long-name-for-a-namespace-1", Index: 17, Replica: 3, Call: 5},
		{Name: "another.name.with-" + strings.Repeat("long-", 30) + "parts-1000008", Namespace: "g2", Index: 1_000_008, Replica: 10_000, Call: 1_000_000},
		{Name: "z7", Namespace: "kube-system", Index: 1<<53 - 1},
	}
}

// The markers: values that no template has in its text. Were one there, the
// probes would differ and the objects be rendered one by one.
const (
	nameMarker      = "gzqname7wkz-1"
	namespaceMarker = "gzqspace7wkz-1"
	indexMarker     = 918273645
	replicaMarker   = 645372819
	callMarker      = 827364519
	numberMarker    = 736152000 // + number of the call
)

// randomMarker stands for a random value.
func randomMarker(r random) string {
	if r.letters == 0 {
		return strconv.Itoa(numberMarker + r.call)
	}
	return "gzqdraw" + strconv.Itoa(r.call) + "wkz"
}

// mark is a marker and what it stands for.
type mark struct {
	text   string
	then   part
	random random
}

// cutSegments makes segments from an object of markers, or tells why it cannot.
func (x *executor) cutSegments(v Vars) ([]segment, string) {
	var calls []random
	v.Name, v.Namespace, v.Index, v.Replica, v.Call = nameMarker, namespaceMarker, indexMarker, replicaMarker, callMarker
	text, err := x.executeTemplate(v, &calls)
	if err != nil {
		return nil, "it cannot be executed"
	}
	if len(calls) > 1000 {
		return nil, "it has very many random values"
	}
	marks := []mark{
		{text: nameMarker, then: theName}, {text: namespaceMarker, then: theNamespace},
		{text: strconv.Itoa(indexMarker), then: theIndex}, {text: strconv.Itoa(replicaMarker), then: theReplica},
		{text: strconv.Itoa(callMarker), then: theCall},
	}
	for _, r := range calls {
		marks = append(marks, mark{randomMarker(r), drawn, r})
	}
	object, _, err := toJSON(text, x.dialect.LastWins)
	if err != nil {
		return nil, "it is not an object"
	}
	if why := explainUnsafe(text, marks); why != "" {
		return nil, why
	}
	if inKey(object, marks) {
		return nil, "a key depends on the object"
	}
	for _, m := range marks {
		if bytes.Count(text, []byte(m.text)) != bytes.Count(object, []byte(m.text)) {
			return nil, "a value is not only printed"
		}
	}
	if object, _, err = x.dialect.decodeObject(text, v); err != nil {
		return nil, "it cannot be completed"
	}
	return splitAtMarkers(object, marks), ""
}

// splitAtMarkers cuts an object at its markers.
func splitAtMarkers(object []byte, marks []mark) []segment {
	var out []segment
	for {
		first, at := mark{}, len(object)
		for _, m := range marks {
			if i := bytes.Index(object[:min(len(object), at+len(m.text))], []byte(m.text)); i >= 0 && i < at {
				first, at = m, i
			}
		}
		out = append(out, segment{bytes.Clone(object[:at]), first.then, first.random})
		if first.then == nothing {
			return out
		}
		object = object[at+len(first.text):]
	}
}

// inKey tells whether a key of an object holds a marker: keys are sorted and
// must be unique, so that another value may give another order or an error.
func inKey(object []byte, marks []mark) bool {
	var v any
	if json.Unmarshal(object, &v) != nil {
		return true
	}
	return hasKey(v, func(key string) bool {
		return slices.ContainsFunc(marks, func(m mark) bool { return strings.Contains(key, m.text) })
	})
}

// hasKey tells whether a key anywhere in v is such.
func hasKey(v any, such func(string) bool) bool {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if such(key) || hasKey(value, such) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return hasKey(item, such) })
	}
	return false
}

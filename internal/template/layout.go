package template

// Layout is what the objects of a template have in common that are copies of
// segments: fixed JSON with holes in it. Package template/protobuf makes
// another form of it.
type Layout struct{ plan *plan }

// Layout returns that of an object, or nil where the template is executed for
// it. Two objects have the same one if the results are equal.
func (t *Template) Layout(v Vars) Layout {
	p := t.planFor(v)
	if p.segments == nil || !isSubstitutable(v.Name) || !isSubstitutable(v.Namespace) {
		return Layout{}
	}
	return Layout{p}
}

// Holes returns how many holes there are; -1 for the zero Layout.
func (l Layout) Holes() int {
	if l.plan == nil {
		return -1
	}
	return len(l.plan.segments) - 1
}

// Text returns the JSON before hole i, or behind the last hole where i is their
// number. It must not be changed.
func (l Layout) Text(i int) []byte { return l.plan.segments[i].text }

// Append appends what an object has in hole i: letters, digits, dots and
// dashes, or a whole number.
func (l Layout) Append(dst []byte, i int, v Vars) []byte {
	return l.plan.segments[i].appendVariable(dst, v)
}

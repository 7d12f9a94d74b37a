package clusterloader2

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
)

// What ClusterLoader2 reconciles is one number for each namespace, base name
// and kind. A native step makes the objects of whole ranges of namespaces and
// of whole bundles, and later steps scale or update what it made as a whole.
// So a phase is cut, before anything is lowered, into parts that all phases
// treat alike: bundles whose objects always come together (classes), and
// ranges that no phase has only a part of. Mostly there is one of each.

// scope is where the objects of a phase are.
type scope struct {
	kind     scopeKind
	name     string // the namespace of a list; the prefix of a range, empty for the scenario's own
	from, to int    // of a range, both included
}

type scopeKind int

const (
	outside scopeKind = iota // of namespaces
	listedNamespace
	namespaceOfRange
)

// spaceKey tells scopes apart whose objects have nothing to do with each other.
func (s scope) spaceKey() string { return fmt.Sprint(s.kind, " ", s.name) }

// countNamespaces is how many there are; 1 outside of them.
func (s scope) countNamespaces() int {
	if s.kind == namespaceOfRange {
		return s.to - s.from + 1
	}
	return 1
}

// mayHold tells whether a namespace may be one of these; empty stands for any.
func (s scope) mayHold(namespace, own string) bool {
	switch s.kind {
	case outside:
		return true
	case listedNamespace:
		return namespace == "" || namespace == s.name
	}
	prefix := s.name
	if prefix == "" {
		prefix = own
	}
	if namespace == "" {
		return true
	}
	number, ok := strings.CutPrefix(namespace, prefix+"-")
	i, err := strconv.Atoi(number)
	return ok && err == nil && s.from <= i && i <= s.to
}

// scopesOf returns where a phase puts its objects.
func (l *lowering) scopesOf(p *config.Phase) []scope {
	if r := p.NamespaceRange; r != nil {
		s := scope{kind: namespaceOfRange, from: r.Min, to: r.Max}
		if r.Basename != nil && *r.Basename != l.out.Namespaces.Prefix {
			s.name = *r.Basename
		}
		return []scope{s}
	}
	var out []scope
	for _, name := range p.NamespaceList {
		out = append(out, scope{kind: listedNamespace, name: name})
	}
	if out == nil {
		out = []scope{{kind: outside}}
	}
	return out
}

// objectKey is what ClusterLoader2 counts, but for the number of the namespace.
type objectKey struct{ space, basename, kind, group string }

// plan is what the survey found.
type plan struct {
	phases map[objectKey][]int // that have the object, by number
	cuts   map[objectKey][]int // first numbers of namespaces of a part
}

// surveyor finds out, before anything is lowered, how phases are cut.
type surveyor struct{ *lowering }

// surveyConfig goes through all phases, and through the measurements that name groups of pods.
func (l surveyor) surveyConfig() {
	l.plan = plan{map[objectKey][]int{}, map[objectKey][]int{}}
	number := 0
	for i := range l.c.Steps {
		l.number = i + 1
		for j := range l.c.Steps[i].Phases {
			l.surveyPhase(&l.c.Steps[i].Phases[j], number)
			number++
		}
		for _, c := range l.callsOf(&l.c.Steps[i]) {
			l.nameGroup(c)
		}
	}
}

func (l surveyor) surveyPhase(p *config.Phase, number int) {
	for _, s := range l.scopesOf(p) {
		if s.kind == namespaceOfRange && s.name == "" && (s.from < 1 || s.to > l.out.Namespaces.Count) {
			l.faults.addAt(p.NamespaceRange.Position(), "namespaceRange: %d to %d is not within 1 to %d (namespace.number)", s.from, s.to, l.out.Namespaces.Count)
			return
		}
		for i := range p.ObjectBundle {
			o := &p.ObjectBundle[i]
			t := l.readTemplate(o)
			if t == nil {
				continue
			}
			k := objectKey{s.spaceKey(), o.Basename, t.kind, t.apiGroup()}
			if slices.Contains(l.plan.phases[k], number) {
				l.faults.addAt(o.At("basename"), "objectBundle[%d]: basename %q of kind %s stands twice in the bundle", i, o.Basename, t.kind)
				continue
			}
			l.plan.phases[k] = append(l.plan.phases[k], number)
			l.plan.cuts[k] = append(l.plan.cuts[k], s.from, s.to+1)
		}
	}
}

// classesOf groups the objects of a bundle by the phases that they are in.
func (l reconciler) classesOf(p *config.Phase, space string) [][]*config.Object {
	var out [][]*config.Object
	at := map[string]int{}
	for i := range p.ObjectBundle {
		o := &p.ObjectBundle[i]
		t := l.readTemplate(o)
		if t == nil {
			continue
		}
		sign := fmt.Sprint(l.plan.phases[objectKey{space, o.Basename, t.kind, t.apiGroup()}])
		if _, ok := at[sign]; !ok {
			at[sign] = len(out)
			out = append(out, nil)
		}
		out[at[sign]] = append(out[at[sign]], o)
	}
	return out
}

// cutScope cuts a scope where other phases of the object cut it.
func (l reconciler) cutScope(s scope, k objectKey) []scope {
	if s.kind != namespaceOfRange {
		return []scope{s}
	}
	cuts := slices.Clone(l.plan.cuts[k])
	slices.Sort(cuts)
	var out []scope
	from := s.from
	for _, cut := range slices.Compact(cuts) {
		if cut > from && cut <= s.to+1 {
			part := s
			part.from, part.to = from, cut-1
			out = append(out, part)
			from = cut
		}
	}
	return out
}

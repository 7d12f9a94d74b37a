package kubeburner

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/windtunnel/windtunnel/internal/interop/kubeburner/dialect"
	"github.com/windtunnel/windtunnel/internal/template"
)

// maxKinds bounds the items that a template of several kinds becomes, and maxDefined the
// definitions that are looked at.
const (
	maxKinds   = 500
	maxDefined = 10_000
)

// writtenKind finds a kind, or its version, that an action of the template writes.
var writtenKind = regexp.MustCompile(`(?m)^\s*"?(kind|apiVersion)"?\s*:[^\n]*\{\{`)

// kinds makes items of a template whose objects are of several kinds: a body makes objects
// of one kind only.
type kinds struct {
	*bodies
	j        *job
	it       item
	document int
	part     document
}

// oneKind is the objects of one kind that a replica has.
type oneKind struct {
	replica int
	kind    string // with its version
}

// splitByKind returns an item for each replica and kind.
func (k kinds) splitByKind(used map[string]bool) []item {
	at, ok := k.findIterations()
	if !ok {
		return nil
	}
	heads := map[string]bool{}
	for one := range at {
		heads[one.kind] = true
	}
	if len(heads) == 1 {
		return []item{k.it}
	}
	delete(k.out.Bodies, k.it.body) // it makes nothing
	delete(used, k.it.body)
	delete(k.madeOf, k.it.body)
	var out []item
	all := k.it.countObjects(k.j.JobIterations) / k.it.object.Replicas
	names := map[string]string{} // of bodies, by kind
	for _, one := range slices.SortedFunc(maps.Keys(at), func(a, b oneKind) int {
		if a.replica != b.replica {
			return a.replica - b.replica
		}
		return at[a][0] - at[b][0]
	}) {
		object := *k.it.object
		object.Replicas = 1
		it := k.it
		it.object, it.with = &object, maps.Clone(k.it.with)
		it.with["Replica"] = int64(one.replica)
		if it.at = at[one]; len(it.at) == all {
			it.at = nil
		}
		if names[one.kind] == "" {
			names[one.kind] = k.keepBody(bodyKey{k.it.object.ObjectTemplate, k.document, one.kind}, k.part.text, used)
		}
		it.body = names[one.kind]
		it.name = fmt.Sprintf("%s-%d", it.body, one.replica)
		if ok, _ := k.renderSamples(k.j, &it, k.part); !ok {
			return nil
		}
		out = append(out, it)
	}
	k.addNote(k.lineAt(k.it.object.At+".objectTemplate"), "object.objectTemplate", "%s makes objects of %d kinds: a body for each of them", k.it.object.ObjectTemplate, len(names))
	return out
}

// findIterations finds out at which iterations each replica is of which kind.
func (k kinds) findIterations() (map[oneKind][]int, bool) {
	n := k.it.countObjects(k.j.JobIterations)
	t, err := template.Compile(k.pathOf(k.it.object.ObjectTemplate), k.out.Bodies[k.it.body].Text, k.part.line, dialect.New())
	if err != nil || n > maxTrials {
		k.addUnsupported(k.bodies.lineAt(k.it.object.At), "object.objectTemplate", k.it.object.ObjectTemplate,
			fmt.Sprintf("its objects are of several kinds, and there are more than %d of them to look at: none is made", maxTrials))
		return nil, false
	}
	out := map[oneKind][]int{}
	with := k.jobVariables(k.j, k.opts.RunID)
	maps.Copy(with, k.it.with)
	for i := 0; i < k.j.JobIterations; i += k.it.everyNth(k.j.JobIterations) {
		for r := 1; r <= k.it.object.Replicas; r++ {
			version, kind, err := t.KindOf(template.Vars{Name: k.it.body, Namespace: k.j.Namespace, Index: i, Replica: r, Seed: k.opts.Seed, With: with})
			if err != nil {
				k.addFault("", 0, err.Error())
				return nil, false
			}
			one := oneKind{r, version + " " + kind}
			out[one] = append(out[one], i)
		}
	}
	if len(out) > maxKinds {
		k.addUnsupported(k.bodies.lineAt(k.it.object.At), "object.objectTemplate", k.it.object.ObjectTemplate,
			fmt.Sprintf("its objects are of several kinds, and their replicas and kinds are more than %d: none is made", maxKinds))
		return nil, false
	}
	return out, true
}

// rememberKinds remembers the kinds that the config's own definitions bring: a template may make
// a definition of another name at each iteration.
func (b *bodies) rememberKinds(j *job, it *item, t *template.Template) {
	with := b.jobVariables(j, b.opts.RunID)
	maps.Copy(with, it.with)
	looked := 0
	for i := 0; i < j.JobIterations; i += it.everyNth(j.JobIterations) {
		for r := 1; r <= it.object.Replicas && looked < maxDefined; r++ {
			looked++
			raw, err := b.makeObject(t, template.Vars{Name: it.body, Namespace: j.Namespace, Index: i, Replica: r, Seed: b.opts.Seed, With: with})
			var one sample
			if err == nil && json.Unmarshal(raw, &one) == nil && one.Spec.Names.Kind != "" {
				b.kinds[groupKind{one.Spec.Group, one.Spec.Names.Kind}] = crd{one.Spec.Names.Plural, one.Spec.Scope == "Cluster"}
			}
		}
	}
}

// kindVaries tells whether an item's kind is another at other iterations.
func kindVaries(items []item) bool {
	return slices.ContainsFunc(items, func(it item) bool { return it.at != nil })
}

// hasObjectAt tells whether there is an object of the item at an iteration.
func (it item) hasObjectAt(i, iterations int) bool {
	if it.at != nil {
		return slices.Contains(it.at, i)
	}
	return i%it.everyNth(iterations) == 0
}

package scenario

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
)

// maxUnrolled bounds the steps that a file's repeats may become, each round
// counted as one more.
const maxUnrolled = 10_000

// round is one round of a repeat whose steps are being read.
type round struct {
	outer *round
	index int               // from 0
	names map[string]string // of steps, as they read inside the repeat -> as they are
	group map[string]string // the same for groups that are named after their step
}

func newRound(outer *round, index int) *round {
	return &round{outer: outer, index: index, names: map[string]string{}, group: map[string]string{}}
}

// roundSuffix is what this round adds to names; those of outer ones stand before it.
func (r *round) roundSuffix() string { return "-" + strconv.Itoa(r.index+1) }

// allSuffixes are those of the round and of all around it.
func (r *round) allSuffixes() string {
	if r == nil {
		return ""
	}
	return r.outer.allSuffixes() + r.roundSuffix()
}

// renameStep gives a step its name in this round. Seen from inside the innermost
// repeat it is what the file says; from outside it has the suffixes between.
func (r *round) renameStep(s *Step, text string) {
	from, seen := r, s.Name
	if usesRound(text) {
		from = r.outer
	}
	old := s.Name
	s.Name += from.allSuffixes()
	for ; from != nil; from = from.outer {
		from.names[seen] = s.Name
		if s.Create != nil && s.Create.Group == "" {
			from.group[seen] = s.Name
		}
		seen = old + from.roundSuffix() + seen[len(old):]
	}
}

// renameReferences points a step's references at the names of this round.
func (r *round) renameReferences(s *Step) {
	for _, ref := range s.stepReferences() {
		*ref = r.presentName(*ref, func(r *round) map[string]string { return r.names })
	}
	for _, w := range s.allWaits() {
		w.Pods = r.presentName(w.Pods, func(r *round) map[string]string { return r.group })
	}
}

func (r *round) presentName(name string, in func(*round) map[string]string) string {
	for ; r != nil; r = r.outer {
		if now, ok := in(r)[name]; ok {
			return now
		}
	}
	return name
}

// stepReferences are the places in which a step names create steps.
func (s *Step) stepReferences() []*string {
	var out []*string
	switch {
	case s.Scale != nil:
		out = append(out, &s.Scale.Step)
	case s.Update != nil:
		out = append(out, &s.Update.Step)
	case s.Churn != nil:
		out = append(out, &s.Churn.Step, &s.Churn.Namespaces)
	case s.Delete != nil:
		out = append(out, &s.Delete.Step)
	case s.Requests != nil:
		for i := range s.Requests.Mix {
			out = append(out, &s.Requests.Mix[i].Of)
		}
	}
	for _, w := range s.allWaits() {
		out = append(out, &w.Of)
	}
	return out
}

// allWaits are the step's waits, its own and those of a churn.
func (s *Step) allWaits() []*Wait {
	var out []*Wait
	if s.Wait != nil {
		out = append(out, s.Wait)
	}
	if s.Churn != nil {
		for i := range s.Churn.Wait {
			out = append(out, &s.Churn.Wait[i])
		}
	}
	return out
}

var roundWord = regexp.MustCompile(`\b` + roundVariable + `\b\s*($|[^\s(])`) // not the function round()

// usesRound tells whether a text has an expression with ${round}.
func usesRound(text string) bool {
	parts, err := splitExpressions(text)
	return err == nil && slices.ContainsFunc(parts, func(p part) bool { return p.expression && roundWord.MatchString(p.text) })
}

// stepList decodes a list of steps. The steps of a repeat stand in its place;
// as a branch of parallel they become a sequence.
func (d *decoder) stepList(n *yaml.Node, to *[]Step, at place) {
	if n.Kind != yaml.SequenceNode {
		d.add(n.Line, "%s: %s is not a list", at.Name, nodeShape(n))
		return
	}
	for _, item := range n.Content {
		if d.Budget <= 0 {
			return
		}
		if d.isEmptyItem(item, at) {
			continue
		}
		if strictyaml.Child(item, "repeat") != nil {
			d.decodeRepeat(item, to, at)
			continue
		}
		var s Step
		d.Value(item, reflect.ValueOf(&s).Elem(), at.Item(len(*to)))
		if d.rounds != nil {
			d.steps++
			d.rounds.renameReferences(&s)
			if name := strictyaml.Child(item, "name"); name != nil && s.Name != "" {
				d.rounds.renameStep(&s, name.Value)
			}
		}
		*to = append(*to, s)
	}
}

// decodeRepeat decodes a step with the field repeat into the steps of all its rounds.
func (d *decoder) decodeRepeat(item *yaml.Node, to *[]Step, at place) {
	here := at.Item(len(*to))
	item, ok := d.Enter(item, here)
	if !ok {
		return
	}
	here.Name = "step"
	d.Lines[here.Path] = item.Line
	fields := here
	fields.Path += "*" // its own path is that of the first step in its place
	loop := d.repeatFields(item, fields)
	if loop.steps == nil {
		return
	}
	if at.Name != "step.parallel" {
		d.unrollRounds(loop, to, at)
		return
	}
	branch := Step{Name: loop.name, OnFailure: "stop", Line: item.Line}
	d.unrollRounds(loop, &branch.Sequence, here.Field("sequence"))
	if d.rounds != nil && branch.Name != "" {
		d.rounds.renameStep(&branch, strictyaml.Child(item, "name").Value)
	}
	*to = append(*to, branch)
}

// repeat is what a repeat says.
type repeat struct {
	name, onFailure string
	times           int
	steps           *yaml.Node // nil when something is wrong with it
}

// repeatFields decodes the fields of a step with the field repeat.
func (d *decoder) repeatFields(item *yaml.Node, at place) repeat {
	var out repeat
	fields := strictyaml.Fields(reflect.TypeFor[Step]())
	d.Pairs(item, at, func(key string, k, val *yaml.Node) {
		switch {
		case key == "name":
			d.Value(val, reflect.ValueOf(&out.name).Elem(), at.Field(key))
		case key == "onFailure":
			d.Value(val, reflect.ValueOf(&out.onFailure).Elem(), at.Field(key))
		case key == "when": // dropUnasked has read it
		case key == "repeat":
			d.decodeLoop(val, &out, at.Field(key))
		case slices.Contains(strictyaml.Names(fields), key):
			d.add(k.Line, "step: a repeat stands alone, not beside %s", key)
		default:
			d.UnknownField(k, place{Name: "step"}, fields)
		}
	})
	return out
}

func (d *decoder) decodeLoop(n *yaml.Node, out *repeat, at place) {
	n, ok := d.Enter(n, at)
	if !ok {
		return
	}
	out.times = -1
	at.Name = "repeat"
	problems := len(d.problems.list)
	var steps *yaml.Node
	d.Pairs(n, at, func(key string, k, val *yaml.Node) {
		switch key {
		case "times":
			if d.Value(val, reflect.ValueOf(&out.times).Elem(), at.Field(key)); len(d.problems.list) == problems && out.times < 0 {
				d.add(val.Line, "repeat.times: %d is below 0", out.times)
			}
		case "steps":
			steps = val
		default:
			d.UnknownField(k, at, strictyaml.Fields(reflect.TypeFor[Repeat]()))
		}
	})
	switch {
	case len(d.problems.list) > problems:
	case out.times < 0:
		d.add(n.Line, "repeat.times: how often is needed")
	case steps == nil || steps.ShortTag() == "!!null":
		d.add(n.Line, "repeat.steps: no steps")
	default:
		out.steps = steps
	}
}

// unrollRounds decodes the steps of a repeat once for each round.
func (d *decoder) unrollRounds(loop repeat, to *[]Step, at place) {
	outer, problems := d.rounds, len(d.problems.list)
	at.Name = "repeat.steps"
	for i := range loop.times {
		d.steps++ // a round of nothing counts, too
		d.rounds = newRound(outer, i)
		d.vars.enterRound(i)
		first := len(*to)
		if steps, ok := d.Enter(loop.steps, at); ok {
			d.stepList(steps, to, at)
		}
		for k := first; k < len(*to); k++ {
			path := at.Item(k).Path
			if _, said := d.Lines[path+".onFailure"]; !said && loop.onFailure != "" && (*to)[k].OnFailure == "stop" {
				(*to)[k].OnFailure = loop.onFailure
			}
		}
		if d.steps > maxUnrolled {
			d.add(loop.steps.Line, "repeat: more than %d steps and rounds", maxUnrolled)
			d.Budget = 0
		}
		if len(d.problems.list) > problems || d.Budget <= 0 {
			break // the other rounds would say the same
		}
	}
	if d.rounds = outer; outer == nil {
		d.vars.enterRound(-1)
	} else {
		d.vars.enterRound(outer.index)
	}
}

package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/sim/stage/expression"
	"github.com/windtunnel/windtunnel/internal/sim/stage/render"
)

// compiler compiles stages and collects their faults.
type compiler struct {
	languages map[Resource]*expression.Language
	seen      map[string]*kwok.Stage
	faults    []error
}

func (c *compiler) addFault(s *kwok.Stage, field string, err error) {
	c.faults = append(c.faults, s.Fault(field, err))
}

// requireUnique refuses a second stage of the same name.
func (c *compiler) requireUnique(s *kwok.Stage) {
	if first := c.seen[s.Name]; first != nil {
		c.addFault(s, "metadata.name", fmt.Errorf("is taken by the stage at %s:%d", first.Path, first.Line("")))
		return
	}
	c.seen[s.Name] = s
}

func (c *compiler) compileStage(source *kwok.Stage) *Stage {
	spec := &source.Spec
	s := &Stage{name: source.Name, source: source, uid: object.NewPath("metadata", "uid")}
	c.requireTexts(s, "labels", spec.Selector.MatchLabels)
	c.requireTexts(s, "annotations", spec.Selector.MatchAnnotations)
	for i := range spec.Selector.MatchExpressions {
		c.compileMatch(s, fmt.Sprintf("spec.selector.matchExpressions[%d]", i), &spec.Selector.MatchExpressions[i])
	}
	s.weight = weight{fixed: spec.Weight, from: c.compileOrigin(source, "spec.weightFrom", spec.WeightFrom)}
	if spec.Delay != nil {
		s.delay = c.compileDelay(source, spec.Delay)
	}
	s.immediate = spec.ImmediateNextStage != nil && *spec.ImmediateNextStage
	gone := false
	for _, step := range source.Steps() {
		s.steps = append(s.steps, c.compileStep(source, step, gone))
		gone = gone || step.Delete
	}
	return s
}

// requireTexts requires labels or annotations of given values.
func (c *compiler) requireTexts(s *Stage, field string, want map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		name, _ := json.Marshal(key) // of a string: cannot fail
		q, err := expression.Compile(".metadata." + field + "[" + string(name) + "]")
		if err != nil {
			c.addFault(s.source, "spec.selector", err)
			continue
		}
		s.requires = append(s.requires, &expression.Requirement{Query: q, Operator: expression.In, Values: []string{want[key]}})
	}
}

func (c *compiler) compileMatch(s *Stage, field string, m *kwok.Match) {
	if m.CEL != nil {
		field += ".cel.expression"
		if p := c.compileCEL(s.source, field, m.CEL.Expression, true); p != nil {
			s.programs = append(s.programs, program{p, field})
		}
		return
	}
	where := field + ".jq.key"
	if m.Key != "" {
		where = field + ".key"
	}
	q, err := expression.Compile(m.JQ.Key)
	if err != nil {
		c.addFault(s.source, where, err)
		return
	}
	s.requires = append(s.requires, &expression.Requirement{Query: q, Operator: expression.Operator(m.JQ.Operator), Values: m.JQ.Values})
}

func (c *compiler) compileCEL(s *kwok.Stage, field, src string, boolean bool) *expression.Program {
	r := s.Resource()
	if c.languages[r] == nil {
		l, err := expression.NewLanguage(r.APIVersion, r.Kind)
		if err != nil {
			c.addFault(s, field, err)
			return nil
		}
		c.languages[r] = l
	}
	p, err := c.languages[r].Compile(src, boolean)
	if err != nil {
		c.addFault(s, field, err)
		return nil
	}
	return p
}

func (c *compiler) compileOrigin(s *kwok.Stage, field string, f *kwok.From) (o origin) {
	if f == nil {
		return o
	}
	if f.CEL != nil {
		o.field = field + ".cel.expression"
		o.program = c.compileCEL(s, o.field, f.CEL.Expression, false)
		return o
	}
	o.field = field + ".jq.expression"
	if f.ExpressionFrom != "" {
		o.field = field + ".expressionFrom"
	}
	q, err := expression.Compile(f.JQ.Expression)
	if err != nil {
		c.addFault(s, o.field, err)
	}
	o.query = q
	return o
}

func (c *compiler) compileDelay(s *kwok.Stage, d *kwok.Delay) delay {
	out := delay{set: true, jittered: d.JitterDurationMilliseconds != nil || d.JitterDurationFrom != nil}
	out.min = span{from: c.compileOrigin(s, "spec.delay.durationFrom", d.DurationFrom)}
	out.min.fixed, _ = toDuration(d.DurationMilliseconds)
	out.min.has = true
	out.max = span{from: c.compileOrigin(s, "spec.delay.jitterDurationFrom", d.JitterDurationFrom)}
	out.max.fixed, out.max.has = toDuration(d.JitterDurationMilliseconds)
	return out
}

func toDuration(n *int64) (time.Duration, bool) {
	if n == nil {
		return 0, false
	}
	return time.Duration(*n) * time.Millisecond, true
}

// compileStep compiles one step; after a delete only events are left of it.
func (c *compiler) compileStep(s *kwok.Stage, in kwok.Step, gone bool) step {
	out := step{event: in.Event}
	if gone {
		return out
	}
	out.finalizers = in.Finalizers
	if in.Delete {
		out.remove = true
		return out
	}
	if p := in.Patch; p != nil {
		out.patch = c.compileBody(s, p.Field, p.Template)
		out.patch.root, out.patch.subresource = p.Root, p.Subresource
		out.patch.key = string(textJSON(p.Root)) + ":"
		out.patch.kind, out.patch.user = patchType(s.Resource(), p.Type), impersonatedUser(p.Impersonation)
	}
	if a := in.Apply; a != nil {
		out.apply = c.compileBody(s, in.Field+".apply.template", a.Template)
		out.apply.subresource, out.apply.kind, out.apply.user = a.Subresource, applyType(a.Type), impersonatedUser(a.Impersonation)
	}
	return out
}

func impersonatedUser(i *kwok.Impersonation) string {
	if i == nil {
		return ""
	}
	return i.Username
}

func (c *compiler) compileBody(s *kwok.Stage, field, text string) *body {
	t, err := render.Compile(text)
	if err != nil {
		c.faults = append(c.faults, templateError(s, field, text, err))
	}
	return &body{field: field, text: text, template: t}
}

// templateError names the line of the file where a template is at fault.
func templateError(s *kwok.Stage, field, text string, err error) *Error {
	out := s.Fault(field, err)
	var e *render.Error
	if errors.As(err, &e) && e.Line > 0 && strings.Contains(text, "\n") {
		out.Line += e.Line
		out.Err = errors.New(e.Message)
	}
	return out
}

// PatchType is a patch's media type.
type PatchType string

// The types of patches.
const (
	JSONPatch      PatchType = "application/json-patch+json"
	MergePatch     PatchType = "application/merge-patch+json"
	StrategicPatch PatchType = "application/strategic-merge-patch+json"
	ApplyPatch     PatchType = "application/apply-patch+yaml"
)

// patchType returns the type of a patch: without a name strategic for nodes and
// pods, merge for all else.
func patchType(r Resource, name string) PatchType {
	switch name {
	case "json":
		return JSONPatch
	case "merge":
		return MergePatch
	case "strategic":
		return StrategicPatch
	}
	if r.APIVersion == "v1" && (r.Kind == "Node" || r.Kind == "Pod") {
		return StrategicPatch
	}
	return MergePatch
}

func applyType(name string) PatchType {
	switch name {
	case "merge":
		return MergePatch
	case "strategic":
		return StrategicPatch
	}
	return ApplyPatch
}

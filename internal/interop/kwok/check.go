package kwok

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// checker collects what is wrong with the meaning of a stage's fields.
type checker struct {
	stage  *Stage
	faults []error
}

func (c *checker) addFault(field, format string, args ...any) {
	c.faults = append(c.faults, c.stage.Fault(field, fmt.Errorf(format, args...)))
}

// checkStage says what is wrong with a stage and completes it.
func (s *Stage) checkStage() []error {
	c := &checker{stage: s}
	if s.Name == "" {
		c.addFault("metadata.name", "is missing")
	}
	if s.Spec.ResourceRef.Kind == "" {
		c.addFault("spec.resourceRef.kind", "is missing")
	}
	if s.Spec.Selector != nil {
		for i := range s.Spec.Selector.MatchExpressions {
			c.checkMatch(fmt.Sprintf("spec.selector.matchExpressions[%d]", i), &s.Spec.Selector.MatchExpressions[i])
		}
	}
	if s.Spec.Weight < 0 {
		c.addFault("spec.weight", "is below 0: %d", s.Spec.Weight)
	}
	c.checkFrom("spec.weightFrom", s.Spec.WeightFrom)
	if d := s.Spec.Delay; d != nil {
		c.checkDelay(d)
	}
	c.checkSteps()
	return c.faults
}

// checkMatch brings the inline form into the form jq.
func (c *checker) checkMatch(field string, m *Match) {
	inline := m.Key != "" || m.Operator != "" || len(m.Values) > 0
	forms := 0
	for _, has := range []bool{m.CEL != nil, m.JQ != nil, inline} {
		if has {
			forms++
		}
	}
	if forms != 1 {
		c.addFault(field, "want one of cel, jq, or key with operator; got %d of them", forms)
		return
	}
	if m.CEL != nil {
		c.checkExpression(field+".cel.expression", m.CEL)
		return
	}
	where := field + ".jq"
	if inline {
		m.JQ = &JQ{Key: m.Key, Operator: m.Operator, Values: m.Values}
		where = field
	}
	c.checkJQ(where, m.JQ)
}

func (c *checker) checkJQ(field string, q *JQ) {
	if strings.TrimSpace(q.Key) == "" {
		c.addFault(field+".key", "is missing")
	}
	switch q.Operator {
	case "In", "NotIn":
		if len(q.Values) == 0 {
			c.addFault(field+".values", "%s wants at least one value", q.Operator)
		}
	case "Exists", "DoesNotExist":
		if len(q.Values) != 0 {
			c.addFault(field+".values", "%s takes no values", q.Operator)
		}
	default:
		c.addFault(field+".operator", "want In, NotIn, Exists or DoesNotExist, got %q", q.Operator)
	}
}

func (c *checker) checkExpression(field string, e *Expression) {
	if strings.TrimSpace(e.Expression) == "" {
		c.addFault(field, "is empty")
	}
}

// checkFrom brings the older form into the form jq.
func (c *checker) checkFrom(field string, f *From) {
	if f == nil {
		return
	}
	forms := 0
	for _, has := range []bool{f.CEL != nil, f.JQ != nil, f.ExpressionFrom != ""} {
		if has {
			forms++
		}
	}
	switch {
	case forms != 1:
		c.addFault(field, "want one of cel, jq, expressionFrom; got %d of them", forms)
	case f.CEL != nil:
		c.checkExpression(field+".cel.expression", f.CEL)
	case f.JQ != nil:
		c.checkExpression(field+".jq.expression", f.JQ)
	default:
		f.JQ = &Expression{Expression: f.ExpressionFrom}
	}
}

func (c *checker) checkDelay(d *Delay) {
	const field = "spec.delay."
	if d.DurationMilliseconds != nil && *d.DurationMilliseconds < 0 {
		c.addFault(field+"durationMilliseconds", "is below 0: %d", *d.DurationMilliseconds)
	}
	if d.JitterDurationMilliseconds != nil && *d.JitterDurationMilliseconds < 0 {
		c.addFault(field+"jitterDurationMilliseconds", "is below 0: %d", *d.JitterDurationMilliseconds)
	}
	c.checkFrom(field+"durationFrom", d.DurationFrom)
	c.checkFrom(field+"jitterDurationFrom", d.JitterDurationFrom)
}

// checkSteps checks steps and next, and notes in each where it stands.
func (c *checker) checkSteps() {
	for i := range c.stage.Spec.Steps {
		s := &c.stage.Spec.Steps[i]
		s.Field = fmt.Sprintf("spec.steps[%d]", i)
		if s.Patch != nil {
			s.Patch.Field = s.Field + ".patch.template"
		}
	}
	for _, s := range c.stage.Steps() {
		if p := s.Patch; p != nil {
			c.checkKind(strings.TrimSuffix(p.Field, ".template"), p.Type, "json", "merge", "strategic")
			c.checkUser(s.Field, p.Impersonation)
		}
		if a := s.Apply; a != nil {
			c.checkKind(s.Field+".apply", a.Type, "apply", "merge", "strategic")
			c.checkUser(s.Field, a.Impersonation)
			if strings.TrimSpace(a.Template) == "" {
				c.addFault(s.Field+".apply.template", "is empty")
			}
		}
	}
}

func (c *checker) checkKind(field, got string, want ...string) {
	if got != "" && !slices.Contains(want, got) {
		c.addFault(field+".type", "want %s, got %q", strings.Join(want, ", "), got)
	}
}

func (c *checker) checkUser(field string, i *Impersonation) {
	if i != nil && i.Username == "" {
		c.faults = append(c.faults, c.stage.Fault(field, errors.New("an impersonation wants a username")))
	}
}

package kubelet

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
	"github.com/windtunnel/windtunnel/internal/sim/stage/expression"
)

// rules are objects whose expressions are compiled.
type rules struct {
	objects *configuration.Objects
	metrics []*metric
	usages  map[string]*expression.Formula // by source
	words   []string                       // every word of every expression; nil without metrics
}

// metric is a compiled Metric.
type metric struct {
	name     string
	segments []string // of its path
	series   []*series
}

// series is a compiled series.
type series struct {
	*configuration.Series
	value   *expression.Formula // nil for histograms
	labels  []*expression.Formula
	buckets []*expression.Formula
}

// compiler compiles objects. One source is compiled once.
type compiler struct {
	formulas *expression.Formulas
	known    map[string]*expression.Formula
	faults   []error
}

// compileRules compiles objects; what has faults is left out and told.
func (s *Server) compileRules(o *configuration.Objects) (*rules, error) {
	c := &compiler{formulas: s.formulas, known: map[string]*expression.Formula{}}
	r := &rules{objects: o, usages: map[string]*expression.Formula{}}
	for _, m := range o.Metrics {
		before := len(c.faults)
		if compiled := c.compileMetric(m); len(c.faults) == before {
			r.metrics = append(r.metrics, compiled)
		}
	}
	for _, rule := range slices.Concat(o.Usages.Pods, o.Usages.Cluster) {
		for i := range rule.Entries {
			c.compileUsage(rule, i, r.usages)
		}
	}
	if len(r.metrics) > 0 {
		r.words = expressionWords(c.known)
	}
	return r, errors.Join(c.faults...)
}

// expressionWords returns the words of the expressions, in no order and never nil: a field
// that none of them is about is never asked for.
func expressionWords(known map[string]*expression.Formula) []string {
	seen := map[string]bool{}
	for source := range known {
		for _, w := range word.FindAllString(source, -1) {
			seen[w] = true
		}
	}
	return slices.AppendSeq([]string{}, maps.Keys(seen))
}

var word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

func (c *compiler) compileFormula(source string, s expression.Subject) (*expression.Formula, error) {
	f := c.known[source]
	if f == nil {
		var err error
		if f, err = c.formulas.Compile(source); err != nil {
			return nil, err
		}
		c.known[source] = f
	}
	return f, f.Try(s)
}

// emptySubject returns the empty objects that there are in a dimension.
func emptySubject(dimension string) expression.Subject {
	s := expression.Subject{Node: &corev1.Node{}}
	if dimension != configuration.PerNode {
		s.Pod = &corev1.Pod{}
	}
	if dimension == configuration.PerContainer {
		s.Container = &corev1.Container{}
	}
	return s
}

func (c *compiler) compileUsage(rule *configuration.Rule[configuration.Usage], i int, into map[string]*expression.Formula) {
	for name, value := range rule.Entries[i].Usage {
		if value.Value != nil || value.Expression == nil {
			continue
		}
		f, err := c.compileFormula(*value.Expression, emptySubject(configuration.PerContainer))
		if err != nil {
			c.faults = append(c.faults, rule.Fault(fmt.Sprintf("spec.usages[%d].usage[%q].expression", i, name), err))
			continue
		}
		into[*value.Expression] = f
	}
}

func (c *compiler) compileMetric(m *configuration.Metric) *metric {
	out := &metric{name: m.Name, segments: strings.Split(strings.Trim(m.Path, "/"), "/")}
	kinds := map[string]string{}
	for i := range m.Metrics {
		one := &m.Metrics[i]
		field := fmt.Sprintf("spec.metrics[%d]", i)
		if kind := kinds[one.Name]; kind != "" && kind != one.Kind {
			c.faults = append(c.faults, m.Fault(field+".kind", fmt.Errorf("%s is a %s already", one.Name, kind)))
		}
		kinds[one.Name] = one.Kind
		at := func(where, source string) *expression.Formula {
			f, err := c.compileFormula(source, emptySubject(one.Dimension))
			if err != nil {
				c.faults = append(c.faults, m.Fault(field+where, err))
			}
			return f
		}
		s := &series{Series: one}
		if one.Kind != configuration.Histogram {
			s.value = at(".value", one.Value)
		}
		for j, l := range one.Labels {
			s.labels = append(s.labels, at(fmt.Sprintf(".labels[%d].value", j), l.Value))
		}
		for j, b := range one.Buckets {
			s.buckets = append(s.buckets, at(fmt.Sprintf(".buckets[%d].value", j), b.Value))
		}
		out.series = append(out.series, s)
	}
	return out
}

// matchPath says whether a path is a metric's, and which node it names. The node of
// a path that names none is the one whose name the metric has.
func (m *metric) matchPath(segments []string) (node string, ok bool) {
	if len(segments) != len(m.segments) {
		return "", false
	}
	node = m.name
	for i, s := range m.segments {
		switch {
		case s == configuration.NodeName && segments[i] != "":
			node = segments[i]
		case s != segments[i]:
			return "", false
		}
	}
	return node, true
}

// once tells things once, up to a number of them.
type once struct {
	mu   sync.Mutex
	said map[string]bool
}

const maxSaid = 1000

// isFirst says whether something was not said before.
func (o *once) isFirst(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.said == nil {
		o.said = map[string]bool{}
	}
	if o.said[text] || len(o.said) >= maxSaid {
		return false
	}
	o.said[text] = true
	return true
}

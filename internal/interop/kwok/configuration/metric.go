package configuration

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/interop/kwok"
)

// Metric says what is served under a path.
type Metric struct {
	Name    string
	Path    string // begins with /metrics; a segment {nodeName} stands for any node
	Metrics []Series

	document kwok.Document
}

// NodeName is the segment of a metric's path that stands for a node's name.
const NodeName = "{nodeName}"

// Fault returns an error about a field of the object, such as spec.metrics[0].value.
func (m *Metric) Fault(field string, err error) error { return m.document.Fault(field, err) }

// The kinds and dimensions of series.
const (
	Counter   = "counter"
	Gauge     = "gauge"
	Histogram = "histogram"

	PerNode      = "node"
	PerPod       = "pod"
	PerContainer = "container"
)

// Series is one metric of a Metric: one value, or one histogram, for each
// node, pod or container.
type Series struct {
	Name      string   `yaml:"name"`
	Help      string   `yaml:"help"`
	Kind      string   `yaml:"kind"`
	Labels    []Label  `yaml:"labels"`
	Value     string   `yaml:"value"` // CEL; not for histograms
	Buckets   []Bucket `yaml:"buckets"`
	Dimension string   `yaml:"dimension"` // default node
}

// Label is a label of a series; its value is CEL.
type Label struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

// Bucket is how many observations fall into a bucket, and not into those before
// it; its value is CEL.
type Bucket struct {
	Le     float64 `yaml:"le"`
	Value  string  `yaml:"value"`
	Hidden bool    `yaml:"hidden"` // counted in the next bucket that is not
}

// The names that Prometheus accepts.
var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

func (m *Metric) checkMetric() []error {
	c := checker{fault: m.Fault}
	c.checkPath(m.Path)
	for i := range m.Metrics {
		s := &m.Metrics[i]
		if s.Dimension == "" {
			s.Dimension = PerNode
		}
		c.checkSeries(fmt.Sprintf("spec.metrics[%d]", i), s)
	}
	return c.faults
}

// checker collects what is wrong with an object.
type checker struct {
	fault  func(field string, err error) error
	faults []error
}

func (c *checker) addFault(field, format string, args ...any) {
	c.faults = append(c.faults, c.fault(field, fmt.Errorf(format, args...)))
}

func (c *checker) checkPath(path string) {
	const field = "spec.path"
	if path != "/metrics" && !strings.HasPrefix(path, "/metrics/") {
		c.addFault(field, "want a path below /metrics, got %q", path)
		return
	}
	for segment := range strings.SplitSeq(path, "/") {
		if strings.ContainsAny(segment, "{}") && segment != NodeName {
			c.addFault(field, "%q: only %s can stand for something, as a whole segment", segment, NodeName)
		}
	}
	if strings.Count(path, NodeName) > 1 {
		c.addFault(field, "%s stands there twice", NodeName)
	}
}

func (c *checker) checkSeries(field string, s *Series) {
	if !metricName.MatchString(s.Name) {
		c.addFault(field+".name", "%q is no name of a metric", s.Name)
	}
	c.oneOf(field+".kind", s.Kind, Counter, Gauge, Histogram)
	c.oneOf(field+".dimension", s.Dimension, PerNode, PerPod, PerContainer)
	c.checkLabels(field+".labels", s)
	if s.Kind == Histogram {
		if s.Value != "" {
			c.addFault(field+".value", "a histogram has buckets, no value")
		}
		c.checkBuckets(field+".buckets", s.Buckets)
	} else {
		c.checkExpression(field+".value", s.Value)
		if len(s.Buckets) > 0 {
			c.addFault(field+".buckets", "only a histogram has buckets")
		}
	}
}

func (c *checker) checkLabels(field string, s *Series) {
	seen := map[string]bool{}
	for i, l := range s.Labels {
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case !labelName.MatchString(l.Name) || strings.HasPrefix(l.Name, "__") || (s.Kind == Histogram && l.Name == "le"):
			c.addFault(at+".name", "%q is no name of a label", l.Name)
		case seen[l.Name]:
			c.addFault(at+".name", "the label %s stands there twice", l.Name)
		}
		seen[l.Name] = true
		c.checkExpression(at+".value", l.Value)
	}
}

func (c *checker) checkBuckets(field string, buckets []Bucket) {
	if len(buckets) == 0 {
		c.addFault(field, "a histogram wants buckets")
	}
	seen := map[float64]bool{}
	for i, b := range buckets {
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case !(b.Le >= 0) || math.IsInf(b.Le, 1):
			c.addFault(at+".le", "want a number of 0 or more, got %v", b.Le)
		case seen[b.Le]:
			c.addFault(at+".le", "the bucket %v stands there twice", b.Le)
		}
		seen[b.Le] = true
		c.checkExpression(at+".value", b.Value)
	}
}

func (c *checker) oneOf(field, got string, want ...string) {
	if !slices.Contains(want, got) {
		c.addFault(field, "want %s, got %q", strings.Join(want, ", "), got)
	}
}

func (c *checker) checkExpression(field, source string) {
	if strings.TrimSpace(source) == "" {
		c.faults = append(c.faults, c.fault(field, errors.New("is missing")))
	}
}

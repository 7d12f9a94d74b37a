// Package kwok reads kwok's configuration files: documents of kind Stage, group
// kwok.x-k8s.io/v1alpha1, strictly and with the line of every field, so that
// whatever is wrong later can be said as file, line, stage and field.
//
// It gives the file's shape and no meaning: package machine (internal/sim/stage/machine)
// compiles expressions and templates and plays them. Documents of other kinds are handed
// out; package configuration says what may stand in them.
package kwok

import (
	"fmt"
	"strings"
)

// The group, version and kind of a Stage.
const (
	APIVersion = "kwok.x-k8s.io/v1alpha1"
	Kind       = "Stage"
)

// Error says what is wrong with a stage, and where.
type Error struct {
	Path  string
	Line  int    // 0 or less when unknown
	Stage string // empty outside of stages
	Other string // kind and name of a document that is no stage, such as Metric usage
	Field string // such as spec.steps[0].patch.template; empty for the whole
	Err   error
}

// Error writes file:line: stage NAME: field: message.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Path)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Stage != "" {
		b.WriteString(": stage " + e.Stage)
	}
	if e.Other != "" {
		b.WriteString(": " + e.Other)
	}
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	return b.String() + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// File is what one file, or several, hold.
type File struct {
	Stages []*Stage
	Others []Document // of other kinds, in their order
}

// Resource names the kind of object that a stage is about.
type Resource struct {
	APIVersion string // such as v1 or apps/v1
	Kind       string
}

// String writes the resource as apps/v1 Deployment.
func (r Resource) String() string { return r.APIVersion + " " + r.Kind }

// Stage is one stage of a file.
type Stage struct {
	Path string
	Name string
	Spec Spec

	lines map[string]int
}

// Resource returns what the stage is about.
func (s *Stage) Resource() Resource {
	r := Resource{APIVersion: s.Spec.ResourceRef.APIGroup, Kind: s.Spec.ResourceRef.Kind}
	if r.APIVersion == "" {
		r.APIVersion = "v1"
	}
	return r
}

// Line returns the line of a field, or of the nearest field around it.
func (s *Stage) Line(field string) int { return nearestLine(s.lines, field) }

func nearestLine(lines map[string]int, field string) int {
	for {
		if n, ok := lines[field]; ok {
			return n
		}
		i := strings.LastIndexAny(field, ".[")
		if i < 0 {
			return lines[""]
		}
		field = field[:i]
	}
}

// Fault returns an error about a field of the stage.
func (s *Stage) Fault(field string, err error) *Error {
	return &Error{Path: s.Path, Line: s.Line(field), Stage: s.Name, Field: field, Err: err}
}

// Spec is what a stage does, to what, when.
type Spec struct {
	ResourceRef        ResourceRef `yaml:"resourceRef"`
	Selector           *Selector   `yaml:"selector"` // nil: the stage is ignored
	Weight             int64       `yaml:"weight"`
	WeightFrom         *From       `yaml:"weightFrom"`
	Delay              *Delay      `yaml:"delay"`
	Next               *Next       `yaml:"next"`
	ImmediateNextStage *bool       `yaml:"immediateNextStage"`
	Steps              []Step      `yaml:"steps"`
}

// ResourceRef names the resource; APIGroup is a group with its version.
type ResourceRef struct {
	APIGroup string `yaml:"apiGroup"`
	Kind     string `yaml:"kind"`
}

// Selector says which objects a stage matches; all parts must hold.
type Selector struct {
	MatchLabels      map[string]string `yaml:"matchLabels"`
	MatchAnnotations map[string]string `yaml:"matchAnnotations"`
	MatchExpressions []Match           `yaml:"matchExpressions"`
}

// Match is an expression over the object: CEL, jq, or the older inline form.
type Match struct {
	CEL      *Expression `yaml:"cel"`
	JQ       *JQ         `yaml:"jq"`
	Key      string      `yaml:"key"`
	Operator string      `yaml:"operator"`
	Values   []string    `yaml:"values"`
}

// Expression is an expression in CEL or jq.
type Expression struct {
	Expression string `yaml:"expression"`
}

// JQ compares what a jq expression finds with values.
type JQ struct {
	Key      string   `yaml:"key"`
	Operator string   `yaml:"operator"`
	Values   []string `yaml:"values"`
}

// From is an expression that a number or duration comes from.
type From struct {
	CEL            *Expression `yaml:"cel"`
	JQ             *Expression `yaml:"jq"`
	ExpressionFrom string      `yaml:"expressionFrom"` // jq
}

// Delay says how long a stage waits.
type Delay struct {
	DurationMilliseconds       *int64 `yaml:"durationMilliseconds"`
	DurationFrom               *From  `yaml:"durationFrom"`
	JitterDurationMilliseconds *int64 `yaml:"jitterDurationMilliseconds"`
	JitterDurationFrom         *From  `yaml:"jitterDurationFrom"`
}

// Next is the older form of Steps.
type Next struct {
	Event             *Event         `yaml:"event"`
	Finalizers        *Finalizers    `yaml:"finalizers"`
	Delete            bool           `yaml:"delete"`
	Patches           []Patch        `yaml:"patches"`
	StatusTemplate    string         `yaml:"statusTemplate"`
	StatusSubresource *string        `yaml:"statusSubresource"`
	StatusPatchAs     *Impersonation `yaml:"statusPatchAs"`
}

// Step is one thing, or several, that a stage does.
type Step struct {
	Patch      *Patch      `yaml:"patch"`
	Event      *Event      `yaml:"event"`
	Finalizers *Finalizers `yaml:"finalizers"`
	Delete     bool        `yaml:"delete"`
	Apply      *Apply      `yaml:"apply"`

	Field string `yaml:"-"` // where in the file it stands
}

// Patch changes the object.
type Patch struct {
	Subresource   string         `yaml:"subresource"`
	Root          string         `yaml:"root"` // key that the rendered template stands under
	Template      string         `yaml:"template"`
	Type          string         `yaml:"type"` // json, merge, strategic
	Impersonation *Impersonation `yaml:"impersonation"`

	Field string `yaml:"-"` // of the template
}

// Apply creates or changes any object.
type Apply struct {
	Template      string         `yaml:"template"`
	Subresource   string         `yaml:"subresource"`
	Type          string         `yaml:"type"` // apply, merge, strategic
	Impersonation *Impersonation `yaml:"impersonation"`
}

// Impersonation names the user that a request is sent as.
type Impersonation struct {
	Username string `yaml:"username"`
}

// Finalizers says how an object's finalizers change.
type Finalizers struct {
	Add    []Finalizer `yaml:"add"`
	Remove []Finalizer `yaml:"remove"`
	Empty  bool        `yaml:"empty"`
}

// Finalizer is one finalizer.
type Finalizer struct {
	Value string `yaml:"value"`
}

// Event is an event about the object.
type Event struct {
	Type    string `yaml:"type"`
	Reason  string `yaml:"reason"`
	Message string `yaml:"message"`
}

// Steps returns what the stage does, in order: its steps or, when it has none,
// its next as steps: event, finalizers, patches or else the status template,
// delete.
func (s *Stage) Steps() []Step {
	n := s.Spec.Next
	if len(s.Spec.Steps) > 0 || n == nil {
		return s.Spec.Steps
	}
	var out []Step
	if n.Event != nil {
		out = append(out, Step{Event: n.Event, Field: "spec.next.event"})
	}
	if n.Finalizers != nil {
		out = append(out, Step{Finalizers: n.Finalizers, Field: "spec.next.finalizers"})
	}
	for i := range n.Patches {
		p := n.Patches[i]
		p.Field = fmt.Sprintf("spec.next.patches[%d].template", i)
		out = append(out, Step{Patch: &p, Field: fmt.Sprintf("spec.next.patches[%d]", i)})
	}
	if len(n.Patches) == 0 && n.StatusTemplate != "" {
		out = append(out, n.statusStep())
	}
	if n.Delete {
		out = append(out, Step{Delete: true, Field: "spec.next.delete"})
	}
	return out
}

func (n *Next) statusStep() Step {
	const field = "spec.next.statusTemplate"
	p := &Patch{Subresource: "status", Root: "status", Template: n.StatusTemplate, Impersonation: n.StatusPatchAs, Field: field}
	if n.StatusSubresource != nil {
		p.Subresource = *n.StatusSubresource
	}
	return Step{Patch: p, Field: field}
}

package stage

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fleet/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/fleet/stage/expression"
	"github.com/windtunnel/windtunnel/internal/fleet/stage/machine"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
)

// TypedPods returns the stages of pods in typed form, which does the same at a
// fraction of the cost; not ok when one of them asks for more than the typed
// form can do. It knows the usual selectors, constant delays, deletion, and the
// status templates of the built-in set fast and of kwok's pod-fast.
func TypedPods(stages machine.Stages) (*Set, bool) {
	known, err := knownTemplates()
	if err != nil {
		return nil, false
	}
	out := &Set{name: "typed"}
	for _, s := range stages {
		r, ok := typedRule(s.Source(), known)
		if !ok {
			return nil, false
		}
		if r.pod, ok = typedSelector(s.Source().Spec.Selector.MatchExpressions, podRequirement); !ok {
			return nil, false
		}
		out.pods = append(out.pods, r)
	}
	return out, true
}

// TypedNodes is TypedPods for the stages of nodes. It knows the status templates
// of the built-in set fast, and of kwok's node-initialize and
// node-heartbeat-with-lease.
func TypedNodes(stages machine.Stages) (*Set, bool) {
	known, err := knownTemplates()
	if err != nil {
		return nil, false
	}
	out := &Set{name: "typed"}
	for _, s := range stages {
		r, ok := typedRule(s.Source(), known)
		if !ok || r.kind != Patch {
			return nil, false
		}
		if r.node, ok = typedSelector(s.Source().Spec.Selector.MatchExpressions, nodeRequirement); !ok {
			return nil, false
		}
		out.nodes = append(out.nodes, r)
	}
	return out, true
}

// template is what a status template is known by: where it stands, and the sum of
// its text.
type template struct{ root, sum string }

// renderer writes the body of a patch.
type renderer func(*writer, any)

// knownTemplates returns the typed forms of status templates: those of the set
// fast, and those of kwok 0.8's pod-fast, node-initialize and
// node-heartbeat-with-lease.
func knownTemplates() (map[template]renderer, error) {
	out := map[template]renderer{
		{"status", "d307584f5fdc177a6382f22bfe8f295cf4bebbd6ef0b2cb7a26632f8879405b3"}: podReady,
		{"status", "a5e2d5d0056d553959d1d19a49fafaa991f17e76ab493b1288df26a36fc7cde4"}: podComplete,
		{"status", "acecd43184d3f1cb27ddcf28f321011d55b03837f4b4f52777e06db5dd3f1fd8"}: kwokNodeInitialize,
		{"status", "affa6d678dd8dabf39cae1c09e3b350a04d57aaadc0cc209b5f1bebafb65654a"}: kwokNodeHeartbeat,
	}
	f, err := builtin.Load("fast")
	if err != nil {
		return nil, err
	}
	for _, s := range f.Stages {
		r := map[string]renderer{
			"pod-ready": podReady, "pod-complete": podComplete,
			"node-initialize": nodeInitialize, "node-heartbeat-with-lease": nodeHeartbeat,
		}[s.Name]
		if r != nil {
			p := s.Spec.Steps[0].Patch
			out[template{p.Root, sum(p.Template)}] = r
		}
	}
	return out, nil
}

func sum(text string) string {
	s := sha256.Sum256([]byte(strings.TrimSpace(text)))
	return hex.EncodeToString(s[:])
}

func typedRule(s *kwok.Stage, known map[template]renderer) (*rule, bool) {
	spec := &s.Spec
	if spec.WeightFrom != nil || spec.Weight != 0 || len(spec.Selector.MatchLabels)+len(spec.Selector.MatchAnnotations) > 0 {
		return nil, false
	}
	r := &rule{name: s.Name}
	var ok bool
	if r.delay, ok = typedDelay(spec.Delay); !ok || spec.ImmediateNextStage != nil && *spec.ImmediateNextStage {
		return nil, false
	}
	steps := s.Steps()
	if len(steps) != 1 || steps[0].Event != nil || steps[0].Finalizers != nil || steps[0].Apply != nil {
		return nil, false
	}
	if steps[0].Delete {
		r.kind = Delete
		return r, true
	}
	p := steps[0].Patch
	if p == nil || p.Subresource != "status" || p.Impersonation != nil || (p.Type != "" && p.Type != "strategic") {
		return nil, false
	}
	r.kind, r.render = Patch, known[template{p.Root, sum(p.Template)}]
	return r, r.render != nil
}

func typedDelay(d *kwok.Delay) (delay, bool) {
	if d == nil {
		return delay{}, true
	}
	if d.DurationFrom != nil || d.JitterDurationFrom != nil {
		return delay{}, false
	}
	var out delay
	if d.DurationMilliseconds != nil {
		out.d = time.Duration(*d.DurationMilliseconds) * time.Millisecond
	}
	if d.JitterDurationMilliseconds != nil {
		out.jitter = time.Duration(*d.JitterDurationMilliseconds) * time.Millisecond
		if out.jitter <= out.d {
			out.d, out.jitter = out.jitter, 0
		}
	}
	return out, true
}

// typedSelector translates requirements over what the view of an object holds.
func typedSelector[T any](matches []kwok.Match, requirement func(string, *kwok.JQ) func(T) bool) (func(T) bool, bool) {
	var all []func(T) bool
	for _, m := range matches {
		if m.JQ == nil {
			return nil, false
		}
		q, err := expression.Compile(m.JQ.Key)
		if err != nil {
			return nil, false
		}
		f := requirement(q.Text(), m.JQ)
		if f == nil {
			return nil, false
		}
		all = append(all, f)
	}
	return func(o T) bool {
		for _, f := range all {
			if !f(o) {
				return false
			}
		}
		return true
	}, true
}

// readyStatus is the expression for the status of the condition Ready.
const readyStatus = `.status.conditions[] | select(.type == "Ready") | .status`

// operators returns whether a requirement asks only for presence, whether it
// wants a hit, and what one is.
func operators(q *kwok.JQ) (exists, wanted bool, hit func(b []byte) bool) {
	exists = q.Operator == string(expression.Exists) || q.Operator == string(expression.DoesNotExist)
	wanted = q.Operator == string(expression.Exists) || q.Operator == string(expression.In)
	return exists, wanted, func(b []byte) bool {
		return len(b) > 0 && (exists || slices.ContainsFunc(q.Values, func(v string) bool { return v == string(b) }))
	}
}

// nodeRequirement returns nil for what the view of a node cannot answer.
func nodeRequirement(text string, q *kwok.JQ) func(*object.Node) bool {
	_, wanted, hit := operators(q)
	switch text {
	case ".status.phase":
		return func(n *object.Node) bool { return hit(n.Phase) == wanted }
	case readyStatus:
		return func(n *object.Node) bool { return hit(n.Ready) == wanted }
	}
	return nil
}

// podRequirement returns nil for what the view of a pod cannot answer.
func podRequirement(text string, q *kwok.JQ) func(*object.Pod) bool {
	exists, wanted, hit := operators(q)
	switch text {
	case ".metadata.deletionTimestamp":
		if !exists {
			return nil // the view does not hold the time
		}
		return func(p *object.Pod) bool { return p.Deleting == wanted }
	case ".status.phase":
		return func(p *object.Pod) bool { return hit(p.Phase) == wanted }
	case readyStatus:
		return func(p *object.Pod) bool { return hit(p.Ready) == wanted }
	case ".metadata.ownerReferences[].kind":
		return func(p *object.Pod) bool { return slices.ContainsFunc(p.Owners, hit) == wanted }
	}
	return nil
}

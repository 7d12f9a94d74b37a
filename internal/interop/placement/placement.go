// Package placement finds the labels that simulated nodes need, so that pods
// which select their nodes can be scheduled: by nodeSelector or by required node
// affinity.
//
// It is not a scheduler: resources, taints, topology and affinity between pods
// are not looked at. All nodes have the same labels, so that pods which want two
// values of one label cannot both be placed.
package placement

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Pod is what a pod's spec says of its node. Fields of another form than
// Kubernetes knows are kept as they are: the plane refuses such a pod.
type Pod struct {
	NodeSelector json.RawMessage `json:"nodeSelector"`
	Affinity     json.RawMessage `json:"affinity"`
}

// Labels are those of the nodes, as pods want them. The zero value has none.
type Labels struct {
	// Fixed are the labels that the nodes have. Nil: they get what pods want.
	Fixed map[string]string

	values map[string]string
	avoid  map[string][]string // values that a label must not have; "*": any
	unmet  []string
}

// hostname tells nodes apart, so that no selector of it fits them all.
const hostname = "kubernetes.io/hostname"

// ownLabels returns the labels that every simulated node has in any case.
func ownLabels() map[string]string {
	return map[string]string{
		"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
	}
}

// term is a part of an affinity: all of its expressions have to hold.
type term struct {
	MatchExpressions []expression
	MatchFields      []json.RawMessage
}

type expression struct {
	Key, Operator string
	Values        []string
}

func (e expression) String() string {
	if len(e.Values) == 0 {
		return e.Key + " " + e.Operator
	}
	return fmt.Sprintf("%s %s (%s)", e.Key, e.Operator, strings.Join(e.Values, ", "))
}

// Want makes the nodes fit a pod. Where they cannot, it is told by Unmet.
func (l *Labels) Want(p Pod) {
	var selector map[string]string
	if json.Unmarshal(p.NodeSelector, &selector) == nil {
		for _, key := range slices.Sorted(maps.Keys(selector)) {
			if !l.makeHold(expression{key, "In", []string{selector[key]}}) {
				l.addUnmet(key + "=" + selector[key])
			}
		}
	}
	var affinity struct {
		NodeAffinity struct {
			Required *struct{ NodeSelectorTerms []term } `json:"requiredDuringSchedulingIgnoredDuringExecution"`
		}
	}
	if json.Unmarshal(p.Affinity, &affinity) != nil || affinity.NodeAffinity.Required == nil {
		return
	}
	terms := affinity.NodeAffinity.Required.NodeSelectorTerms
	if slices.ContainsFunc(terms, l.takeTerm) || len(terms) == 0 {
		return
	}
	var wanted []string
	for _, t := range terms {
		for _, e := range t.MatchExpressions {
			wanted = append(wanted, e.String())
		}
		if len(t.MatchFields) > 0 {
			wanted = append(wanted, "fields of one node")
		}
	}
	l.addUnmet(strings.Join(wanted, ", "))
}

// Values are the labels that the nodes need beyond those that they have.
func (l *Labels) Values() map[string]string { return maps.Clone(l.values) }

// Unmet says what pods want that the nodes do not have, each once.
func (l *Labels) Unmet() []string { return l.unmet }

func (l *Labels) addUnmet(what string) {
	if !slices.Contains(l.unmet, what) {
		l.unmet = append(l.unmet, what)
	}
}

// takeTerm makes all expressions of a term hold, or leaves everything as it is.
func (l *Labels) takeTerm(t term) bool {
	trial := Labels{Fixed: l.Fixed, values: maps.Clone(l.values), avoid: maps.Clone(l.avoid)}
	for _, e := range t.MatchExpressions {
		if !trial.makeHold(e) {
			return false
		}
	}
	if len(t.MatchFields) > 0 || len(t.MatchExpressions) == 0 {
		return false
	}
	l.values, l.avoid = trial.values, trial.avoid
	return true
}

// makeHold makes an expression hold, if the nodes can still be made so.
func (l *Labels) makeHold(e expression) bool {
	value, set := l.labelValue(e.Key)
	switch e.Operator {
	case "NotIn":
		return (!set || !slices.Contains(e.Values, value)) && l.avoidValues(e.Key, e.Values...)
	case "DoesNotExist":
		return !set && l.avoidValues(e.Key, "*")
	}
	if set && e.fitsValue(value) {
		return true
	}
	if _, given := l.values[e.Key]; given || l.Fixed != nil || e.Key == hostname {
		return false
	}
	for _, v := range e.candidateValues() {
		if !slices.Contains(l.avoid[e.Key], v) && !slices.Contains(l.avoid[e.Key], "*") {
			if l.values == nil {
				l.values = map[string]string{}
			}
			l.values[e.Key] = v
			return true
		}
	}
	return false
}

// labelValue is a label of the nodes.
func (l *Labels) labelValue(key string) (string, bool) {
	for _, labels := range []map[string]string{l.values, l.Fixed, ownLabels()} {
		if v, ok := labels[key]; ok {
			return v, true
		}
	}
	return "", false
}

// avoidValues keeps values away from a label from now on.
func (l *Labels) avoidValues(key string, values ...string) bool {
	if l.avoid == nil {
		l.avoid = map[string][]string{}
	}
	l.avoid[key] = slices.Concat(l.avoid[key], values)
	return true
}

// fitsValue tells whether a label's value makes the expression hold.
func (e expression) fitsValue(value string) bool {
	switch e.Operator {
	case "In":
		return slices.Contains(e.Values, value)
	case "Exists":
		return true
	case "Gt", "Lt":
		have, err := strconv.ParseInt(value, 10, 64)
		bound, ok := e.parseBound()
		return err == nil && ok && (e.Operator == "Gt" && have > bound || e.Operator == "Lt" && have < bound)
	}
	return false
}

// candidateValues returns values that make the expression hold.
func (e expression) candidateValues() []string {
	switch bound, ok := e.parseBound(); {
	case e.Operator == "In":
		return e.Values
	case e.Operator == "Exists":
		return []string{"", "true"}
	case e.Operator == "Gt" && ok:
		return []string{strconv.FormatInt(bound+1, 10)}
	case e.Operator == "Lt" && ok:
		return []string{strconv.FormatInt(bound-1, 10)}
	}
	return nil
}

func (e expression) parseBound() (int64, bool) {
	if len(e.Values) != 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(e.Values[0], 10, 64)
	return n, err == nil
}

// Package atlas says what each feature gate of a control plane costs: which counters move
// when the gate is turned, what that costs, and what follows for the scalability questions
// of a KEP.
//
// It is pure: it reads help texts and runs that others made. It starts no component.
package atlas

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Gate is a feature gate, as a component's help names it.
type Gate struct {
	Name       string   `json:"gate"`
	Stage      string   `json:"stage"` // alpha or beta
	Default    bool     `json:"default"`
	Components []string `json:"components"` // that know it
}

// ErrTwoDefaults says that two components do not agree about a gate.
var ErrTwoDefaults = errors.New("components differ in its stage or default")

// gateLine is a gate in the help of --feature-gates. Components list alpha and beta gates
// only; locked ones are not among them.
var gateLine = regexp.MustCompile(`(?m)^\s+(?:kube:)?(\w+)=true\|false \((ALPHA|BETA) - default=(true|false)\)`)

// ParseHelp returns the gates in the help text of a component, without AllAlpha and AllBeta,
// which are no gates of their own.
func ParseHelp(component, help string) (out []Gate) {
	for _, m := range gateLine.FindAllStringSubmatch(help, -1) {
		if m[1] != "AllAlpha" && m[1] != "AllBeta" {
			out = append(out, Gate{m[1], strings.ToLower(m[2]), m[3] == "true", []string{component}})
		}
	}
	return out
}

// Merge makes one list, sorted by name, of the gates of several components. The error wraps
// ErrTwoDefaults.
func Merge(lists ...[]Gate) (out []Gate, err error) {
	for _, g := range slices.Concat(lists...) {
		i, found := slices.BinarySearchFunc(out, g.Name, func(o Gate, name string) int { return cmp.Compare(o.Name, name) })
		switch {
		case !found:
			g.Components = slices.Clone(g.Components)
			out = slices.Insert(out, i, g)
		case out[i].Stage != g.Stage || out[i].Default != g.Default:
			return nil, fmt.Errorf("gate %s: %w: name one component", g.Name, ErrTwoDefaults)
		default:
			out[i].Components = append(out[i].Components, g.Components...)
		}
	}
	return out, nil
}

// SaysLocked tells whether a component's last words are that a gate cannot be turned.
func SaysLocked(words string) bool {
	return strings.Contains(words, "feature is locked to") || strings.Contains(words, "cannot set feature gate")
}

// dependency is what a component says of a gate that needs others.
var dependency = regexp.MustCompile(`(\w+) is enabled, but depends on features that are disabled: \[([\w ]+)\]`)

// Together returns the gates that must be turned with this one, as NAME=VALUE, by a component's
// last words: those that the gate needs, where it is turned on, and those that need the gate,
// where it is turned off.
func (g Gate) Together(words string) (out []string) {
	for _, m := range dependency.FindAllStringSubmatch(words, -1) {
		switch {
		case g.Default && m[1] != g.Name:
			out = append(out, m[1]+"=false")
		case !g.Default:
			for _, needed := range strings.Fields(m[2]) {
				out = append(out, needed+"=true")
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// LastWords returns the last line of what is known of a plane that did not start, without the
// head of a log line: it names the cause.
func LastWords(reason string) string {
	reason, _, _ = strings.Cut(reason, "\nrun directory:")
	lines := strings.Split(strings.TrimSpace(reason), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	return regexp.MustCompile(`^[IWEF]\d{4} \S+ +\d+ `).ReplaceAllString(last, "")
}

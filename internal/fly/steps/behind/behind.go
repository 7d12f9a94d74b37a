// Package behind says of the objects that a wait was not met by what they wait for
// themselves, as far as their status tells. It asks no server.
package behind

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text"
)

// longMessage is how many characters of a condition's message are said.
const longMessage = 160

// Object is an object as far as it says what it waits for.
type Object struct {
	Metadata struct {
		Namespace, Name   string
		DeletionTimestamp string
		Finalizers        []string
	}
	Spec   struct{ NodeName string }
	Status struct {
		Phase      string
		Conditions []struct{ Type, Status, Reason, Message string }
	}
}

// String is the object's name with what its status says, if it has one.
func (o *Object) String() string {
	var parts []string
	if o.Metadata.DeletionTimestamp != "" {
		parts = append(parts, "terminating"+strings.Join(append([]string{""}, o.Metadata.Finalizers...), ", finalizer "))
	}
	if o.Status.Phase != "" {
		parts = append(parts, o.Status.Phase)
	}
	said := map[string]bool{}
	for _, c := range o.Status.Conditions {
		one := c.Type + " " + c.Status
		if c.Status != "True" && c.Reason != "" && !said[c.Message] {
			one += " (" + c.Reason + map[bool]string{true: ": "}[c.Message != ""] + shortenMessage(c.Message) + ")"
			said[c.Message] = c.Message != ""
		}
		parts = append(parts, one)
	}
	name := o.Metadata.Name
	if o.Metadata.Namespace != "" {
		name = o.Metadata.Namespace + "/" + name
	}
	return strings.TrimSpace(name + " " + text.Clean(strings.Join(parts, ", ")))
}

// shortenMessage is a message without its end where it is long.
func shortenMessage(message string) string {
	if runes := []rune(message); len(runes) > longMessage {
		return string(runes[:longMessage]) + "…"
	}
	return message
}

// IsInPhase tells whether a pod is in the phase that a wait wants.
func (o *Object) IsInPhase(phase string) bool {
	switch phase {
	case "created":
		return true
	case "bound":
		return o.Spec.NodeName != ""
	case "running":
		return o.Status.Phase == "Running"
	case "ready":
		for _, c := range o.Status.Conditions {
			if c.Type == "Ready" {
				return c.Status == "True"
			}
		}
	}
	return false
}

// Objects are the first objects that a wait was not met by.
type Objects []Object

// String names them; empty where there are none.
func (b Objects) String() string {
	if len(b) == 0 {
		return ""
	}
	var out []string
	for i := range b {
		out = append(out, b[i].String())
	}
	return "; behind: " + strings.Join(out, "; ")
}

// conditionType finds what condition expressions hold types of conditions against.
var conditionType = regexp.MustCompile(`type\s*==\s*["']([^"']+)["']`)

// DescribeUnseen says which types of conditions an expression names that none of the
// objects has, and which they have.
func (b Objects) DescribeUnseen(expression string) string {
	var seen []string
	for i := range b {
		for _, c := range b[i].Status.Conditions {
			if !slices.Contains(seen, c.Type) {
				seen = append(seen, c.Type)
			}
		}
	}
	var out string
	for _, m := range conditionType.FindAllStringSubmatch(expression, -1) {
		if !slices.Contains(seen, m[1]) && len(b) > 0 {
			had := "none"
			if slices.Sort(seen); len(seen) > 0 {
				had = strings.Join(seen, ", ")
			}
			out += fmt.Sprintf("; no condition of type %q: seen %s", m[1], had) + text.DidYouMean(m[1], seen)
		}
	}
	return out
}

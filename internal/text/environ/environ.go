// Package environ is the environment as a stranger's file may see it: only what
// it names, no secret that the user has not allowed, and what it read is told.
package environ

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text"
)

// Environ is an environment that a file reads; nil is an empty one. It serves one
// goroutine at a time.
type Environ struct {
	values         map[string]string
	allowed        map[string]bool
	read, withheld map[string]bool
}

// New returns one of NAME=VALUE as os.Environ has them. Variables that look like
// secrets are withheld but for those that are allowed by name.
func New(pairs, allowed []string) *Environ {
	e := &Environ{values: map[string]string{}, allowed: map[string]bool{}, read: map[string]bool{}, withheld: map[string]bool{}}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		e.values[name] = value
	}
	for _, name := range allowed {
		e.allowed[name] = true
	}
	return e
}

var secret = regexp.MustCompile(`(?i)^AWS_|(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS|KEY)$`)

// Lookup returns a variable, and remembers that it was read or withheld.
func (e *Environ) Lookup(name string) (string, bool) {
	if e == nil {
		return "", false
	}
	value, ok := e.values[name]
	switch {
	case !ok:
		return "", false
	case secret.MatchString(name) && !e.allowed[name]:
		e.withheld[name] = true
		return "", false
	}
	e.read[name] = true
	return value, true
}

// Names returns the variables that begin so, sorted. None of them counts as read.
func (e *Environ) Names(prefix string) (out []string) {
	if e == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(e.values)) {
		if strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	return out
}

// Notes says what was read and what was withheld, by name; none when nothing was
// asked for.
func (e *Environ) Notes() (out []string) {
	if e == nil {
		return nil
	}
	if len(e.read) > 0 {
		out = append(out, "read of the environment: "+strings.Join(slices.Sorted(maps.Keys(e.read)), ", "))
	}
	if len(e.withheld) > 0 {
		names := slices.Sorted(maps.Keys(e.withheld))
		out = append(out, "kept from the file, as they look like secrets: "+strings.Join(names, ", ")+" (--env "+names[0]+" lets it have that one)")
	}
	return out
}

// CheckAllowed is an error where a file was allowed to read a variable that there is not, or
// that it does not read.
func (e *Environ) CheckAllowed(file string) error {
	if e == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(e.allowed)) {
		if _, ok := e.values[name]; !ok {
			return fmt.Errorf("--env %s: the environment has no such variable%s", name, text.DidYouMean(name, slices.Sorted(maps.Keys(e.values))))
		}
		if !e.read[name] {
			return fmt.Errorf("--env %s: %s does not read it", name, file)
		}
	}
	return nil
}

package plan

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Effects are what a scenario does beside sending calls: a scenario is a program.
type Effects struct {
	Runs    []string // on this machine: programs, and files that components use
	Changes []string // in a cluster that is not the run's own
}

// Empty tells that there are none.
func (e Effects) Empty() bool { return len(e.Runs)+len(e.Changes) == 0 }

// Write writes them for a person; where names the cluster.
func (e Effects) Write(w io.Writer, where string) error {
	var b strings.Builder
	section := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "%s\n", title)
		}
		for i, line := range lines {
			if i == maxShown {
				fmt.Fprintf(&b, "  and %d more\n", len(lines)-maxShown)
				break
			}
			fmt.Fprintf(&b, "  %s\n", text.Clean(line))
		}
	}
	section("RUNS ON THIS MACHINE", e.Runs)
	section("CHANGES IN THE CLUSTER OF "+text.Clean(where), e.Changes)
	_, err := io.WriteString(w, b.String())
	return err
}

// RunsOf lists what a scenario runs on this machine, as the user who runs it.
func RunsOf(s *scenario.Scenario) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if s.Plane.Binaries != "" {
		add("plane: programs of %s", s.Plane.Binaries)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Plane.Components)) {
		c := s.Plane.Components[name]
		for _, flag := range slices.Sorted(maps.Keys(c.Flags)) {
			if namesFile(flag, c.Flags[flag]) {
				add("%s --%s=%s", name, flag, c.Flags[flag])
			}
		}
		for _, variable := range slices.Sorted(maps.Keys(c.Env)) {
			if !slices.Contains([]string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS"}, variable) { // these tune its runtime, and name no file
				add("%s with %s=%s", name, variable, c.Env[variable])
			}
		}
	}
	for _, x := range s.Subjects {
		command := x.Command
		if x.Build != nil {
			command = strings.TrimSpace(x.Build.Main + " " + x.Build.ImportPath() + "@" + x.Build.Version)
		}
		if command != "" {
			add("subject %s: %s", x.Name, strings.Join(append([]string{command}, x.Args...), " "))
		}
	}
	for step := range s.AllSteps() {
		if step.Exec != nil {
			add("step %s: %s", step.Name, strings.Join(step.Exec.Command, " "))
		}
	}
	return out
}

// fileFlag finds flags of components that are about files, and filePath values that
// name one: not networks such as 10.0.0.0/24, and not addresses.
var (
	fileFlag = regexp.MustCompile(`(^|-)(file|files|dir|path|config|kubeconfig|folder)($|-)`)
	filePath = regexp.MustCompile(`(^|[=,:])(/[^/]|\.{1,2}/|~)`)
)

// namesFile tells whether a flag lets a component read or write a file.
func namesFile(flag, value string) bool {
	return value != "" && fileFlag.MatchString(flag) || filePath.MatchString(value)
}

// ChangesOf lists what a scenario changes in a cluster that is not the run's own,
// beside the objects of subjects and stages.
func ChangesOf(s *scenario.Scenario) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if n := s.Namespaces.Count; n > 0 {
		if n == 1 {
			add("creates and deletes the namespace %s-1", s.Namespaces.Prefix)
		} else {
			add("creates and deletes the namespaces %s-1 to %s-%d", s.Namespaces.Prefix, s.Namespaces.Prefix, n)
		}
	}
	switch n := s.Fleet.Nodes; {
	case n > 0 && s.Fleet.Taint == scenario.TaintNone:
		add("makes and deletes %s, open to every pod of the cluster", unit.Count(n, "simulated nodes"))
	case n > 0:
		add("makes and deletes %s, for pods of the run alone", unit.Count(n, "simulated nodes"))
	default:
		add("pods of the run go to the nodes that there are")
	}
	for step := range s.AllSteps() {
		switch c := step.Create; {
		case c == nil:
		case c.Namespace != "":
			add("step %s makes objects in namespace %s", step.Name, c.Namespace)
		case c.Namespaces != nil && c.Namespaces.Prefix != "":
			add("step %s makes objects in namespaces %s-%d to %s-%d", step.Name, c.Namespaces.Prefix, c.Namespaces.From, c.Namespaces.Prefix, c.Namespaces.To)
		case s.Namespaces.Count == 0:
			add("step %s makes objects in namespace default", step.Name)
		}
		if step.Requests != nil {
			out = append(out, changingCalls(step)...)
		}
	}
	return out
}

// changingCalls lists the calls of a step that are not about what steps have made.
func changingCalls(step *scenario.Step) (out []string) {
	for _, c := range step.Requests.Mix {
		if c.Of == "" && slices.Contains([]string{"update", "patch", "delete", "deletecollection"}, c.Verb) {
			out = append(out, strings.TrimSpace(fmt.Sprintf("step %s: %s %s %s", step.Name, c.Verb, cmp.Or(c.Resource, c.Body), cmp.Or(c.Name, c.Selector))))
		}
	}
	return out
}

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windtunnel/windtunnel/internal/text"
)

// explainUsage makes the errors of a verb's arguments and flags, and of all verbs below it,
// say what is missing or what may have been meant.
func explainUsage(verb *cobra.Command) {
	verb.SetFlagErrorFunc(explainFlag)
	if old := verb.Args; old != nil {
		verb.Args = func(verb *cobra.Command, args []string) error {
			if err := old(verb, args); err != nil {
				return explainArguments(verb, args, err)
			}
			return checkRequired(verb)
		}
	}
	for _, child := range verb.Commands() {
		explainUsage(child)
	}
}

// verbWords returns a verb's own words, such as "stage test", and the names of its arguments.
func verbWords(verb *cobra.Command) (name string, arguments []string) {
	name = strings.TrimPrefix(verb.CommandPath(), verb.Root().Name()+" ")
	for _, w := range strings.Fields(verb.Use)[1:] {
		if w != "--" && !strings.HasPrefix(w, "[-") {
			arguments = append(arguments, w)
		}
	}
	return name, arguments
}

// explainArguments says which argument is missing, or which is one too many.
func explainArguments(verb *cobra.Command, args []string, err error) error {
	name, want := verbWords(verb)
	usage := "usage: " + verb.Root().Name() + " " + strings.Join(append([]string{name}, want...), " ")
	switch {
	case verb.HasSubCommands(): // it has said which there are
		return err
	case len(args) < len(want) && !strings.HasPrefix(want[len(args)], "["):
		return fmt.Errorf("%s: %s is missing; %s", name, strings.TrimSuffix(want[len(args)], "..."), usage)
	case len(args) > len(want):
		return fmt.Errorf("%s: unexpected argument %q; %s", name, args[len(want)], usage)
	}
	return fmt.Errorf("%s: %w; %s", name, err, usage)
}

// otherNames are flags by the names that other tools have for them.
func otherNames() map[string][]string {
	return map[string][]string{
		"dry-run": {"plan"}, "check": {"plan"}, "values": {"set"}, "param": {"set"}, "parameter": {"set"}, "var": {"set"},
		"format": {"output"}, "o": {"out", "output"}, "output-dir": {"out"}, "directory": {"out"}, "count": {"repeats", "clusters"}, "runs": {"repeats"},
		"max-neighbors": {"max-neighbours"}, "neighbors": {"max-neighbours"}, "config": {"kubeconfig"}, "threshold": {"fail-above"},
	}
}

// wantedValues says what a flag of a type takes.
func wantedValues() map[string]string {
	const whole, least = "a whole number", "a whole number, 0 or more"
	return map[string]string{
		"int": whole, "int32": whole, "int64": whole, "uint": least, "uint16": least, "uint32": least, "uint64": least,
		"float64": "a number", "float64Slice": "numbers, separated by commas", "bool": "true or false", "duration": "a duration such as 250ms, 30s or 1m30s",
	}
}

// explainFlag names the flag that may have been meant, or says what the flag takes.
func explainFlag(verb *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		if want := wantedValues()[value.GetFlag().Value.Type()]; want != "" {
			return fmt.Errorf("--%s %s: want %s", value.GetFlag().Name, value.GetValue(), want)
		}
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	name := unknown.GetSpecifiedName()
	for _, other := range otherNames()[name] {
		if verb.Flags().Lookup(other) != nil {
			return fmt.Errorf("%w (did you mean --%s?)", err, other)
		}
	}
	var known []string
	verb.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	if best := text.Nearest(name, known); best != "" && len(name) > 1 {
		return fmt.Errorf("%w (did you mean --%s?)", err, best)
	}
	return fmt.Errorf("%w; %s --help lists the flags", err, verb.CommandPath())
}

// checkRequired names the flags that a verb needs and does not have.
func checkRequired(verb *cobra.Command) error {
	var missing []string
	verb.Flags().VisitAll(func(f *pflag.Flag) {
		if _, needed := f.Annotations[cobra.BashCompOneRequiredFlag]; needed && f.Value.String() == "" {
			flag := "--" + f.Name
			if f.Shorthand != "" {
				flag = "-" + f.Shorthand
			}
			placeholder, _ := pflag.UnquoteUsage(f)
			missing = append(missing, flag+" "+placeholder)
		}
	})
	if len(missing) == 0 {
		return nil
	}
	name, _ := verbWords(verb)
	return fmt.Errorf("%s: want %s", name, strings.Join(missing, " and "))
}

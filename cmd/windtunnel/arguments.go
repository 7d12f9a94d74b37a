package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
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
			return cmp.Or(checkRequired(verb), checkCompany(verb))
		}
	}
	for _, child := range verb.Commands() {
		explainUsage(child)
	}
}

// checkChild refuses a verb that is none of those below another, such as plane's, for which cobra
// prints the help of the other and is content.
func checkChild(root *cobra.Command, args []string) error {
	root.InitDefaultCompletionCmd()
	verb, rest, err := root.Find(args)
	if err != nil || verb == root || verb.Runnable() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return nil // the rest is for cobra to say
	}
	var names []string
	for _, child := range verb.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	name, _ := verbWords(verb)
	return fmt.Errorf("%s: there is no %q; there is %s", name, rest[0], strings.Join(names, ", "))
}

// verbWords returns a verb's own words, such as "stage test", and the names of its arguments.
func verbWords(verb *cobra.Command) (name string, arguments []string) {
	name = strings.TrimPrefix(verb.CommandPath(), verb.Root().Name()+" ")
	optional := false // inside of brackets of several words, such as [-- C...]
	for _, w := range strings.Fields(verb.Use)[1:] {
		if optional = optional || strings.HasPrefix(w, "[-"); !optional && w != "--" {
			arguments = append(arguments, w)
		}
		optional = optional && !strings.HasSuffix(w, "]")
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

// The annotations of flags that checkCompany reads.
const (
	needsFlags = "windtunnel: does nothing without one of these"
	aloneFlags = "windtunnel: does nothing beside these"
	filledFlag = "windtunnel: is not given without a value"
)

// refuseEmpty notes of all flags of a verb, and of verbs below it, that a value which is given is
// not empty: that of a variable that is not set would mean the default.
func refuseEmpty(verb *cobra.Command) {
	check := verb.Args
	verb.Args = func(cmd *cobra.Command, args []string) error {
		if i := slices.Index(args, ""); i >= 0 {
			return fmt.Errorf("%s: argument %d is empty: leave it out, or give it a value", cmd.CommandPath(), i+1)
		}
		if check == nil {
			return nil
		}
		return check(cmd, args)
	}
	verb.Flags().VisitAll(func(f *pflag.Flag) { panicOnError(verb.Flags().SetAnnotation(f.Name, filledFlag, nil)) })
	for _, child := range verb.Commands() {
		refuseEmpty(child)
	}
}

// isEmpty tells whether a flag that is given has no value, or one of its values is none.
func isEmpty(f *pflag.Flag) bool {
	if list, many := f.Value.(pflag.SliceValue); many {
		all := list.GetSlice()
		return len(all) == 0 || slices.Contains(all, "")
	}
	return f.Value.String() == ""
}

// needOneOf notes that flags of a verb do nothing unless one of others is given.
func needOneOf(verb *cobra.Command, others []string, flags ...string) {
	for _, name := range flags {
		panicOnError(verb.Flags().SetAnnotation(name, needsFlags, others))
	}
}

// standAlone notes that flags of a verb do nothing beside any of others.
func standAlone(verb *cobra.Command, others []string, flags ...string) {
	for _, name := range flags {
		panicOnError(verb.Flags().SetAnnotation(name, aloneFlags, others))
	}
}

// checkCompany refuses a flag that has no value, or does nothing without another one or beside
// one: who gives it expects something of it.
func checkCompany(verb *cobra.Command) (out error) {
	name, _ := verbWords(verb)
	given := func(name string) bool { return verb.Flags().Changed(name) }
	verb.Flags().Visit(func(f *pflag.Flag) {
		needs, alone := f.Annotations[needsFlags], f.Annotations[aloneFlags]
		_, filled := f.Annotations[filledFlag]
		switch i := slices.IndexFunc(alone, given); {
		case out != nil:
		case filled && isEmpty(f):
			out = fmt.Errorf("--%s: the value that was given is empty", f.Name)
		case len(needs) > 0 && !slices.ContainsFunc(needs, given):
			out = fmt.Errorf("%s: --%s does nothing without --%s", name, f.Name, strings.Join(needs, " or --"))
		case i >= 0:
			out = fmt.Errorf("%s: --%s does nothing beside --%s: leave one of them out", name, f.Name, alone[i])
		}
	})
	return out
}

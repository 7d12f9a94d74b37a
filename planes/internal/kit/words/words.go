// Package words declares the options of a reference plane's process. An option knows
// its values, its default, what presets make of it and its bounds; the flag, its help,
// the check, the presets and the table in the docs follow from that one declaration.
//
//	words.Set{
//		words.Of(&o.Owner, "owner", "whose edges' events the hub handles",
//			words.Default("all", "every edge's"), words.Improved("own", "those of its own edges")),
//		words.Of(&o.Window, "window", "maximum `NUMBER` of unacknowledged messages to an edge",
//			words.Default(1, ""), words.Improved(16, "")).AtLeast(1),
//	}
package words

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Scalar is what an option may hold. A text with several values is a choice: others
// are refused.
type Scalar interface {
	string | int | int64 | uint64 | float64 | bool | time.Duration
}

// Value is one value of an option.
type Value[T Scalar] struct {
	value  T
	preset string // which has it; "" the default, "-" none
	about  string
}

// Default is the value that the real system has; about says what it does.
func Default[T Scalar](value T, about string) Value[T] { return Value[T]{value, "", about} }

// In is the value that a preset gives the option.
func In[T Scalar](preset string, value T, about string) Value[T] {
	return Value[T]{value, preset, about}
}

// Improved is the value of the preset of that name.
func Improved[T Scalar](value T, about string) Value[T] { return In(ImprovedPreset, value, about) }

// Or is a further value of a choice, of no preset.
func Or[T Scalar](value T, about string) Value[T] { return Value[T]{value, "-", about} }

// ImprovedPreset is the name of the preset of what is better than the original.
const ImprovedPreset = "improved"

// Option is one option of a process.
type Option struct {
	flag, usage string
	values      []value
	choice      bool               // others than values are refused
	set         func(string) error // the value, as a flag writes it
	add         func(*pflag.FlagSet, string)
	text        func() string  // the value now
	number      func() float64 // the value now, for bounds
	bounds      []bound
}

type value struct{ text, preset, about string }

type bound struct {
	holds func(float64) bool
	wants string
}

// Of declares the option that at holds. usage is the flag's help, without its values; a
// `NAME` in it stands for the value. The first of values is the default.
func Of[T Scalar](at *T, flag, usage string, values ...Value[T]) Option {
	o := Option{flag: flag, usage: usage, text: func() string { return formatValue(*at) }, number: func() float64 { return toNumber(*at) }}
	for _, v := range values {
		o.values = append(o.values, value{formatValue(v.value), v.preset, v.about})
	}
	_, isText := any(*at).(string)
	o.choice = isText && len(values) > 1
	o.set = func(s string) error {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		addFlag(fs, at, flag, "")
		return fs.Set(flag, s)
	}
	o.add = func(fs *pflag.FlagSet, usage string) { addFlag(fs, at, flag, usage) }
	return o
}

// AtLeast bounds a number or a duration, in seconds, from below.
func (o Option) AtLeast(limit float64) Option {
	return o.withBound(fmt.Sprintf("at least %v", limit), func(n float64) bool { return n >= limit })
}

// Above says that a number or a duration is more than a bound.
func (o Option) Above(bound float64) Option {
	return o.withBound(fmt.Sprintf("more than %v", bound), func(n float64) bool { return n > bound })
}

// AtMost bounds a number or a duration, in seconds, from above.
func (o Option) AtMost(limit float64) Option {
	return o.withBound(fmt.Sprintf("at most %v", limit), func(n float64) bool { return n <= limit })
}

func (o Option) withBound(wants string, holds func(float64) bool) Option {
	o.bounds = append(slices.Clone(o.bounds), bound{holds, wants})
	return o
}

// checkValue says what is wrong with the option's value.
func (o Option) checkValue() error {
	now := o.text()
	if o.choice && !slices.ContainsFunc(o.values, func(v value) bool { return v.text == now }) {
		return fmt.Errorf("%s %q: want one of %s", o.flag, now, strings.Join(o.valueTexts(), ", "))
	}
	for _, b := range o.bounds {
		if !b.holds(o.number()) {
			return fmt.Errorf("%s %s: want %s", o.flag, now, b.wants)
		}
	}
	return nil
}

// valueTexts are the values of a choice, each once.
func (o Option) valueTexts() (out []string) {
	for _, v := range o.values {
		if !slices.Contains(out, v.text) {
			out = append(out, v.text)
		}
	}
	return out
}

// helpText is the flag's help: what it is and, of a choice, its values.
func (o Option) helpText() string {
	if !o.choice {
		return o.usage
	}
	return o.usage + ": " + strings.Join(o.valueTexts(), ", ")
}

// valueIn returns the value that a preset gives the option.
func (o Option) valueIn(preset string) (value, bool) {
	i := slices.IndexFunc(o.values, func(v value) bool { return v.preset == preset })
	if i < 0 {
		return value{}, false
	}
	return o.values[i], true
}

// Set are the options of a process, in the order of its help.
type Set []Option

// Reset gives each option its default.
func (s Set) Reset() {
	for _, o := range s {
		if v, ok := o.valueIn(""); ok {
			mustSet(o, v.text)
		}
	}
}

// Apply gives the options of a preset its values, but for those that keep says.
func (s Set) Apply(preset string, keep func(flag string) bool) {
	for _, o := range s {
		if v, ok := o.valueIn(preset); ok && !keep(o.flag) {
			mustSet(o, v.text)
		}
	}
}

// mustSet sets a declared value, which was written by the same code that reads it.
func mustSet(o Option, text string) {
	if err := o.set(text); err != nil {
		panic(fmt.Sprintf("option %s: %v", o.flag, err))
	}
}

// Check joins what is wrong with the values, as a user may have given them.
func (s Set) Check() error {
	var errs []error
	for _, o := range s {
		errs = append(errs, o.checkValue())
	}
	return errors.Join(errs...)
}

// AddFlags adds a flag for each option, whose default is the value now.
func (s Set) AddFlags(fs *pflag.FlagSet) {
	for _, o := range s {
		o.add(fs, o.helpText())
	}
}

// Table is a Markdown table of the options that a preset changes: what the original
// does, and what the preset does.
func (s Set) Table(preset, original string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| option | %s | %s |\n|---|---|---|\n", original, preset)
	for _, o := range s {
		better, changes := o.valueIn(preset)
		usual, _ := o.valueIn("")
		if changes {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", o.flag, usual.tableCell(), better.tableCell())
		}
	}
	return b.String()
}

// tableCell is a value and what it does.
func (v value) tableCell() string {
	if v.about == "" {
		return v.text
	}
	return v.text + ": " + v.about
}

// addFlag adds the flag of an option.
func addFlag(fs *pflag.FlagSet, at any, name, usage string) {
	switch at := at.(type) {
	case *string:
		fs.StringVar(at, name, *at, usage)
	case *int:
		fs.IntVar(at, name, *at, usage)
	case *int64:
		fs.Int64Var(at, name, *at, usage)
	case *uint64:
		fs.Uint64Var(at, name, *at, usage)
	case *float64:
		fs.Float64Var(at, name, *at, usage)
	case *bool:
		fs.BoolVar(at, name, *at, usage)
	case *time.Duration:
		fs.DurationVar(at, name, *at, usage)
	}
}

// formatValue is a value as its flag takes it.
func formatValue(v any) string { return fmt.Sprint(v) }

// toNumber is a value as bounds compare it: a duration in seconds.
func toNumber(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case float64:
		return v
	case time.Duration:
		return v.Seconds()
	}
	return 0
}

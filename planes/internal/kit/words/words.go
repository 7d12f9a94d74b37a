// Package words declares the options of a reference plane's process. An option knows
// its values, its default, what presets make of it and its bounds; the flag, its help,
// the check, the presets and the table in the docs follow from that one declaration.
//
//	words.Set{
//		words.Of(&o.Owner, "owner", "edges whose events the hub handles",
//			words.Default("all", "every edge's"), words.Improved("own", "those of its own edges")),
//		words.Of(&o.Window, "window", "maximum `NUMBER` of unacknowledged messages to an edge",
//			words.Default(1, ""), words.Improved(16, "")).AtLeast(1),
//	}
package words

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Scalar is what an option may hold. A text with several values is a choice: others
// are refused.
type Scalar interface {
	string | int | int64 | uint64 | float32 | float64 | bool | time.Duration
}

// Value is one value of an option.
type Value[T any] struct {
	value  T
	preset string // which has it; "" the default, "-" none
	about  string
}

// Default is the value that the real system has; about says what it does.
func Default[T any](value T, about string) Value[T] { return Value[T]{value, "", about} }

// In is the value that a preset gives the option.
func In[T any](preset string, value T, about string) Value[T] {
	return Value[T]{value, preset, about}
}

// Improved is the value of the preset of that name.
func Improved[T any](value T, about string) Value[T] { return In(ImprovedPreset, value, about) }

// Or is a further value of a choice, of no preset.
func Or[T any](value T, about string) Value[T] { return Value[T]{value, "-", about} }

// ImprovedPreset is the name of the preset of what is better than the original.
const ImprovedPreset = "improved"

// Option is one option of a process.
type Option struct {
	flag, usage string
	values      []value
	choice      bool // others than values are refused
	holder      *holder
	bounds      []bound
}

type value struct{ text, preset, about string }

type bound struct {
	holds func(float64) bool
	wants string
}

// holder is where an option's value is, as a flag reads and writes it.
type holder struct {
	pflag.Value
	placeholder string
	given       []string // by the user, in order
}

// Set takes what the user gives.
func (h *holder) Set(text string) error {
	if err := h.Value.Set(text); err != nil {
		return err
	}
	h.given = append(h.given, text)
	return nil
}

// Type returns the placeholder of the value in help.
func (h *holder) Type() string { return h.placeholder }

// String returns the value, empty for an empty list.
func (h *holder) String() string {
	if h.Value == nil { // pflag asks a zero value
		return ""
	}
	if text := h.Value.String(); text != "[]" {
		return text
	}
	return ""
}

// Of declares the option that at holds. usage is the flag's help, without its values; a
// `NAME` in it is the placeholder of the value. The first of values is the default.
func Of[T Scalar](at *T, flag, usage string, values ...Value[T]) Option {
	o := Option{flag: flag, usage: usage, holder: &holder{Value: valueAt(at)}}
	for _, v := range values {
		o.values = append(o.values, value{fmt.Sprint(v.value), v.preset, v.about})
	}
	_, isText := any(*at).(string)
	o.choice = isText && len(values) > 1
	switch any(*at).(type) {
	case bool:
		o.holder.placeholder = "bool" // it has none: the flag alone says yes
	case time.Duration:
		o.holder.placeholder = "DURATION"
	case string:
		o.holder.placeholder = "TEXT"
		if o.choice {
			o.holder.placeholder = "WORD"
		}
	default:
		o.holder.placeholder = "NUMBER"
	}
	return o
}

// Texts declares an option that has several texts, separated by commas, and none by default.
func Texts(at *[]string, flag, usage string) Option {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.StringSliceVar(at, flag, *at, "") // the declaration is repeated to check values
	return Option{flag: flag, usage: usage, holder: &holder{Value: fs.Lookup(flag).Value, placeholder: "TEXTS"}}
}

// Custom declares an option that reads and writes itself; the Type of at is its placeholder.
// A preset comes before what the user gives, which at may add to it.
func Custom(at pflag.Value, flag, usage string, values ...Value[string]) Option {
	o := Option{flag: flag, usage: usage, holder: &holder{Value: at, placeholder: at.Type()}}
	for _, v := range values {
		o.values = append(o.values, value{v.value, v.preset, v.about})
	}
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
	now := o.holder.String()
	if o.choice && !slices.ContainsFunc(o.values, func(v value) bool { return v.text == now }) {
		return fmt.Errorf("%s %q: want one of %s", o.flag, now, strings.Join(o.valueTexts(), ", "))
	}
	for _, b := range o.bounds {
		if !b.holds(number(now)) {
			return fmt.Errorf("%s %s: want %s", o.flag, now, b.wants)
		}
	}
	if v, ok := o.holder.Value.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return fmt.Errorf("%s: %w", o.flag, err)
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

// set sets a declared value, which was written by the same code that reads it.
func (o Option) set(text string) {
	if err := o.holder.Value.Set(text); err != nil {
		panic(fmt.Sprintf("option %s: %v", o.flag, err))
	}
}

// Set are the options of a process, in the order of its help.
type Set []Option

// Reset gives each option its default.
func (s Set) Reset() {
	for _, o := range s {
		if v, ok := o.valueIn(""); ok {
			o.set(v.text)
		}
	}
}

// DefaultsOf returns options with their declared defaults, and zeros where none is declared.
func DefaultsOf[O any, P interface {
	*O
	Words() Set
}]() O {
	var o O
	P(&o).Words().Reset()
	return o
}

// Apply gives the options of a preset its values, and then what the user has given.
func (s Set) Apply(preset string) {
	for _, o := range s {
		if v, ok := o.valueIn(preset); ok {
			o.set(v.text)
			for _, given := range o.holder.given {
				o.set(given)
			}
		}
	}
}

// Presets returns the names of the presets that change an option, sorted.
func (s Set) Presets() (out []string) {
	for _, o := range s {
		for _, v := range o.values {
			if v.preset != "" && v.preset != "-" {
				out = append(out, v.preset)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
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
		f := fs.VarPF(o.holder, o.flag, "", o.helpText())
		if o.holder.placeholder == "bool" {
			f.NoOptDefVal = "true"
		}
	}
}

// Table is a Markdown table of the options that presets change: what the original does,
// and what each preset does.
func (s Set) Table(original string, presets ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| option | %s | %s |\n|---|---|%s\n", original, strings.Join(presets, " | "), strings.Repeat("---|", len(presets)))
	for _, o := range s {
		usual, _ := o.valueIn("")
		cells, changes := []string{"`" + o.flag + "`", usual.tableCell()}, false
		for _, preset := range presets {
			v, other := o.valueIn(preset)
			if !other {
				v = usual
			}
			cells, changes = append(cells, v.tableCell()), changes || other
		}
		if changes {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
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

// valueAt returns what reads and writes a scalar, as pflag does.
func valueAt[T Scalar](at *T) pflag.Value {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	switch at := any(at).(type) {
	case *string:
		fs.StringVar(at, "at", *at, "")
	case *int:
		fs.IntVar(at, "at", *at, "")
	case *int64:
		fs.Int64Var(at, "at", *at, "")
	case *uint64:
		fs.Uint64Var(at, "at", *at, "")
	case *float32:
		fs.Float32Var(at, "at", *at, "")
	case *float64:
		fs.Float64Var(at, "at", *at, "")
	case *bool:
		fs.BoolVar(at, "at", *at, "")
	case *time.Duration:
		fs.DurationVar(at, "at", *at, "")
	}
	return fs.Lookup("at").Value
}

// number is the text of a value as bounds compare it: a duration in seconds.
func number(text string) float64 {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n
	}
	d, _ := time.ParseDuration(text) // of anything else bounds say nothing
	return d.Seconds()
}

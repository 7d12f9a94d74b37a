// Package limit bounds what a text template may make and how long it may take:
// templates come from strangers, and forty lines of one can double a text forty
// times. Functions refuse what is too large before they make it, and loops end.
//
// It knows the functions of text/template and sprig by name; any other is bounded
// by what goes in and what comes out.
package limit

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

// Bounds of one use of a template.
const (
	// MaxValue is how many bytes a value of a function may have, and what goes in.
	MaxValue = 16 << 20
	// MaxSteps is how many texts may be written, turns of loops and uses of
	// templates included.
	MaxSteps = 2_000_000
	nodeSize = 16 // bytes that a value takes at least, in a list of any
	wordSize = 8  // and a number in a list of numbers
)

var (
	// ErrTooLarge says that a value is beyond MaxValue.
	ErrTooLarge = errors.New("it takes or makes more than 16 MiB")
	// ErrTooLong says that a template goes on beyond MaxSteps.
	ErrTooLong = errors.New("the template goes on for more than two million steps")
	// ErrTooDear says that a function is not to be had in templates.
	ErrTooDear = errors.New("it takes seconds of CPU, and is not for templates")
)

// Functions returns functions that refuse what is too large, in place of those of
// a map and of text/template's own. Keys, certificates and password hashes are
// refused.
func Functions(all template.FuncMap) template.FuncMap {
	out := template.FuncMap{}
	for name, f := range (template.FuncMap{
		"print": fmt.Sprint, "println": fmt.Sprintln, "printf": fmt.Sprintf,
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
	}) {
		out[name] = boundFunction(name, f)
	}
	for name, f := range all {
		out[name] = boundFunction(name, f)
		if dear.MatchString(name) {
			out[name] = func(...any) (string, error) { return "", ErrTooDear }
		}
	}
	return out
}

var dear = regexp.MustCompile(`^(gen.*(CA|Cert|Key).*|buildCustomCert|bcrypt|htpasswd|derivePassword)$`)

// boundFunction wraps a function. It panics with the error, which text/template returns:
// not every function has an error to return.
func boundFunction(name string, f any) any {
	of := reflect.ValueOf(f)
	made := outputSizes()[name]
	return reflect.MakeFunc(of.Type(), func(in []reflect.Value) []reflect.Value {
		args := flattenArgs(in, of.Type().IsVariadic())
		left := MaxValue
		for _, a := range args {
			if left = spendSize(left, a); left < 0 {
				panic(ErrTooLarge)
			}
		}
		if made != nil && made(args) > MaxValue {
			panic(ErrTooLarge)
		}
		out := of.Call
		if of.Type().IsVariadic() {
			out = of.CallSlice
		}
		results := out(in)
		if spendSize(MaxValue, results[0].Interface()) < 0 {
			panic(ErrTooLarge)
		}
		return results
	}).Interface()
}

// flattenArgs returns arguments, those of a list that is variadic by themselves.
func flattenArgs(in []reflect.Value, variadic bool) []any {
	var out []any
	for i, v := range in {
		if variadic && i == len(in)-1 {
			for j := range v.Len() {
				out = append(out, v.Index(j).Interface())
			}
			continue
		}
		out = append(out, v.Interface())
	}
	return out
}

// spendSize takes a value's size off what is left. A value is counted as a tree: one
// that stands in it twice is written twice.
func spendSize(left int, v any) int {
	if left -= nodeSize; left < 0 {
		return left
	}
	switch v := v.(type) {
	case string:
		return left - len(v)
	case []byte:
		return left - len(v)
	case []any:
		for _, x := range v {
			if left = spendSize(left, x); left < 0 {
				return left
			}
		}
	case map[string]any:
		for key, x := range v {
			if left = spendSize(left-len(key), x); left < 0 {
				return left
			}
		}
	case nil, bool, int, int64, float64:
	default:
		if r := reflect.ValueOf(v); r.Kind() == reflect.Slice {
			if left -= r.Len() * int(r.Type().Elem().Size()); left < 0 {
				return left
			}
			for i := 0; r.Type().Elem().Kind() == reflect.String && i < r.Len(); i++ {
				left -= r.Index(i).Len()
			}
		}
	}
	return left
}

// outputSizes says of the functions that make much out of little how much, at most. Their
// arguments are as sprig and text/template declare them; of others it says nothing.
func outputSizes() map[string]func([]any) float64 {
	return map[string]func([]any) float64{
		"repeat":  func(a []any) float64 { return numberArg(a, 0) * sizeArg(a, 1) },
		"indent":  func(a []any) float64 { return (numberArg(a, 0) + 1) * (sizeArg(a, 1) + 1) },
		"nindent": func(a []any) float64 { return (numberArg(a, 0) + 1) * (sizeArg(a, 1) + 1) },
		"YAML":    func(a []any) float64 { return (2*numberArg(a, 1) + 1) * lengthOf(a) },
		"until":   func(a []any) float64 { return wordSize * abs(numberArg(a, 0)) },
		"untilStep": func(a []any) float64 {
			return wordSize * abs(numberArg(a, 1)-numberArg(a, 0)) / max(1, abs(numberArg(a, 2)))
		},
		"randBytes": func(a []any) float64 { return numberArg(a, 0) }, "randAlpha": func(a []any) float64 { return numberArg(a, 0) },
		"randNumeric": func(a []any) float64 { return numberArg(a, 0) }, "randAlphaNum": func(a []any) float64 { return numberArg(a, 0) },
		"randAscii": func(a []any) float64 { return numberArg(a, 0) },
		"replace": func(a []any) float64 {
			return sizeArg(a, 2) + sizeArg(a, 1)*float64(strings.Count(textArg(a, 2), textArg(a, 0)))
		},
		"join":                       func(a []any) float64 { return sizeArg(a, 0) * float64(countElements(a, 1)) },
		"wrapWith":                   func(a []any) float64 { return (sizeArg(a, 1) + 1) * (sizeArg(a, 2) + 1) },
		"regexReplaceAll":            replacedSize,
		"regexReplaceAllLiteral":     replacedSize,
		"mustRegexReplaceAll":        replacedSize,
		"mustRegexReplaceAllLiteral": replacedSize,
		"printf":                     sumWidths,
	}
}

// replacedSize is of a text in which each byte may be replaced; what a group matched
// may stand in it again and again.
func replacedSize(a []any) float64 {
	return (sizeArg(a, 1)+1)*(sizeArg(a, 2)+1) + sizeArg(a, 1)*float64(strings.Count(textArg(a, 2), "$"))
}

var width = regexp.MustCompile(`%[^%a-zA-Z]*`)

// sumWidths adds up the widths and precisions of a format.
func sumWidths(a []any) (sum float64) {
	highest := 0.0 // of a width that is an argument
	for i := range a {
		highest = max(highest, abs(numberArg(a, i)))
	}
	for _, verb := range width.FindAllString(textArg(a, 0), -1) {
		sum += highest * float64(strings.Count(verb, "*"))
		for _, digits := range strings.FieldsFunc(verb, func(r rune) bool { return r < '0' || r > '9' }) {
			n, _ := strconv.ParseFloat(digits, 64)
			sum += n
		}
	}
	return sum
}

// lengthOf is the size of the first argument, whatever it is.
func lengthOf(a []any) float64 {
	if len(a) == 0 {
		return 0
	}
	return float64(MaxValue - spendSize(MaxValue, a[0]))
}

func abs(f float64) float64 { return max(f, -f) }

func numberArg(a []any, i int) float64 {
	if i >= len(a) {
		return 0
	}
	switch v := reflect.ValueOf(a[i]); {
	case v.CanInt():
		return float64(v.Int())
	case v.CanFloat():
		return v.Float()
	}
	return 0
}

func textArg(a []any, i int) string {
	if i >= len(a) {
		return ""
	}
	s, _ := a[i].(string)
	return s
}

func sizeArg(a []any, i int) float64 { return float64(len(textArg(a, i))) }

func countElements(a []any, i int) int {
	if i >= len(a) {
		return 0
	}
	if v := reflect.ValueOf(a[i]); v.Kind() == reflect.Slice || v.Kind() == reflect.Array {
		return v.Len()
	}
	return 1
}

// Loops makes each turn of a loop and each use of a template write an empty text,
// for a Writer to count. A template is parsed once and given to Loops once.
func Loops(t *template.Template) {
	for _, part := range t.Templates() {
		if part.Tree != nil && part.Root != nil {
			countLoops(part.Root, true)
		}
	}
}

// countLoops looks for loops in a list, which is one's body itself or a template.
func countLoops(l *parse.ListNode, body bool) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.IfNode:
			countLoops(n.List, false)
			countLoops(n.ElseList, false)
		case *parse.WithNode:
			countLoops(n.List, false)
			countLoops(n.ElseList, false)
		case *parse.RangeNode:
			countLoops(n.List, true)
			countLoops(n.ElseList, false)
		}
	}
	if body {
		l.Nodes = append([]parse.Node{&parse.TextNode{NodeType: parse.NodeText}}, l.Nodes...)
	}
}

// MaxOutput is how many bytes a Writer passes on.
const MaxOutput = 32 << 20

// Writer passes on what a template writes, and ends one that goes on for too long.
type Writer struct {
	To           io.Writer
	steps, bytes int
}

// Write counts a step. Its errors are ErrTooLong, ErrTooLarge and To's.
func (w *Writer) Write(p []byte) (int, error) {
	if w.steps++; w.steps > MaxSteps {
		return 0, ErrTooLong
	}
	if w.bytes += len(p); w.bytes > MaxOutput {
		return 0, ErrTooLarge
	}
	if len(p) == 0 {
		return 0, nil
	}
	return w.To.Write(p)
}

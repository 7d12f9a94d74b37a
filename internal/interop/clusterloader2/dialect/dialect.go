// Package dialect is the language of ClusterLoader2's object templates: its functions and
// variables.
package dialect

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand"
	"strconv"
	"strings"
	texttemplate "text/template"

	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/template"
)

// Name is what a scenario calls the dialect.
const Name = "clusterloader2"

// FilesVariable is the entry of Vars.With in which ClusterLoader2's
// IncludeFile and IncludeEmbedFile look: a map from path to content. A body is
// rendered far from the files that it was written beside.
const FilesVariable = "IncludeFile"

// New returns the dialect. What an object is called does not stand in its template: it is
// put in.
func New() template.Dialect {
	return template.Dialect{
		Missing: "invalid", Random: []string{"RandData", "RandInt", "RandIntRange"},
		Functions: func(s template.Source) texttemplate.FuncMap {
			out := Functions(s)
			include := func(path string) (string, error) { return includeFile(s, path) }
			out["IncludeFile"], out["IncludeEmbedFile"] = include, include
			return out
		},
		Variables: func(v template.Vars, data map[string]any) {
			data["Name"], data["Namespace"], data["Index"] = v.Name, v.Namespace, v.Index
		},
		Finish: setName,
	}
}

// Functions returns the functions of ClusterLoader2's templates as its
// pkg/config/template_functions.go defines them; those that read files or the environment
// are the caller's to add. They take whole and other numbers and texts of numbers alike;
// their arithmetic is that of float64, cut to whole numbers where they say Int.
// StructuralData comes from the template engine that ClusterLoader2 uses,
// github.com/google/safetext: the engine refuses a text variable that changes
// the structure of the YAML unless it passes through this function, which
// returns it as it is.
func Functions(s template.Source) texttemplate.FuncMap {
	out := texttemplate.FuncMap{
		"Concat": concatText, "Lowercase": strings.ToLower, "StringSplit": func(s string) []string { return strings.Split(s, ",") },
		"DefaultParam": func(param, fallback any) any {
			if param == nil {
				return fallback
			}
			return param
		},
		"IfThenElse": ifThenElse, "YamlQuote": yamlQuote,
		"StructuralData": func(data any) any { return data },
		"Seq":            zeroList, "SliceOfZeros": zeroList, "Loop": countBelow, "Mod": moduloInt, "IsEven": isEven,
		"Ceil":             func(v any) (float64, error) { f, err := toNumber(v); return math.Ceil(f), err },
		"RandData":         func(size any) (string, error) { return randData(s, size) },
		"RandDataWithSeed": randDataWithSeed,
		"RandInt":          func(limit any) (int, error) { return randUpTo(s, limit) },
		"RandIntRange":     func(from, to any) (int, error) { return randBetween(s, from, to) },
	}
	for name, f := range arithmeticFunctions() {
		out[name+"Float"] = f
		out[name+"Int"] = func(all ...any) (int, error) { v, err := f(all...); return int(v), err }
	}
	return out
}

// arithmeticFunctions are the functions that there are with the endings Int and Float.
func arithmeticFunctions() map[string]func(all ...any) (float64, error) {
	return map[string]func(all ...any) (float64, error){
		"Add":      foldNumbers("Add", 0, func(a, b float64) float64 { return a + b }),
		"Multiply": foldNumbers("Multiply", 0, func(a, b float64) float64 { return a * b }),
		"Max":      foldNumbers("Max", 1, math.Max),
		"Min":      foldNumbers("Min", 1, math.Min),
		"Subtract": twoNumbers("Subtract", func(a, b float64) (float64, error) { return a - b, nil }),
		"Divide": twoNumbers("Divide", func(a, b float64) (float64, error) {
			if b == 0 {
				return 0, errors.New("division by zero")
			}
			return a / b, nil
		}),
	}
}

// foldNumbers makes a function of any count of numbers, but at least so many.
func foldNumbers(name string, least int, step func(a, b float64) float64) func(all ...any) (float64, error) {
	return func(all ...any) (float64, error) {
		if len(all) < least {
			return 0, fmt.Errorf("%s of no numbers", name)
		}
		out := 0.0
		if name == "Multiply" {
			out = 1
		}
		for i, v := range all {
			f, err := toNumber(v)
			if err != nil {
				return 0, err
			}
			if i == 0 && least > 0 {
				out = f
			}
			out = step(out, f)
		}
		return out, nil
	}
}

// twoNumbers makes a function of two numbers.
func twoNumbers(name string, f func(a, b float64) (float64, error)) func(all ...any) (float64, error) {
	return func(all ...any) (float64, error) {
		if len(all) != 2 {
			return 0, fmt.Errorf("%s of %d numbers in place of 2", name, len(all))
		}
		a, err := toNumber(all[0])
		if err != nil {
			return 0, err
		}
		b, err := toNumber(all[1])
		if err != nil {
			return 0, err
		}
		return f(a, b)
	}
}

// toNumber reads what a template or YAML can hold as a number.
func toNumber(v any) (float64, error) {
	switch v := v.(type) {
	case float64:
		return v, nil
	case int:
		return float64(v), nil
	case int64:
		return float64(v), nil
	case uint64:
		return float64(v), nil
	case string:
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			return f, nil
		}
	}
	return 0, fmt.Errorf("%v is not a number", v)
}

// concatText writes its arguments one after another.
func concatText(parts ...any) string {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprint(&b, p)
	}
	return b.String()
}

func isEven(v any) (bool, error) {
	rest, err := moduloInt(v, 2)
	return rest == 0, err
}

func moduloInt(a, b any) (int, error) {
	x, err := toNumber(a)
	if err != nil {
		return 0, err
	}
	y, err := toNumber(b)
	if err != nil {
		return 0, err
	}
	if int(y) == 0 {
		return 0, errors.New("division by zero")
	}
	return int(x) % int(y), nil
}

func ifThenElse(condition, yes, no any) (any, error) {
	is, ok := condition.(bool)
	switch {
	case !ok:
		return nil, fmt.Errorf("IfThenElse: %v is not true or false", condition)
	case is:
		return yes, nil
	}
	return no, nil
}

// zeroList gives a list of so many zeros: something to range over.
func zeroList(size any) ([]int, error) {
	list, err := countBelow(size)
	clear(list)
	return list, err
}

// countBelow lists 0, 1 ... below size.
func countBelow(size any) ([]int, error) {
	n, err := toNumber(size)
	if err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, fmt.Errorf("a list of %v", size)
	}
	return template.CountSteps(0, int(n), 1)
}

// yamlQuote writes a text as a YAML scalar whose further lines are indented by
// two spaces times depth.
func yamlQuote(text, depth any) (string, error) {
	s, ok := text.(string)
	if !ok {
		return "", fmt.Errorf("YamlQuote: %v is not a text", text)
	}
	n, err := toNumber(depth)
	if err != nil {
		return "", err
	}
	if n < 0 || n > 500 {
		return "", fmt.Errorf("YamlQuote: depth %v is not in 0 to 500", depth)
	}
	out, err := yaml.Marshal(s)
	return strings.ReplaceAll(string(out), "\n", "\n"+strings.Repeat("  ", int(n))), err
}

// randData gives so many letters. ClusterLoader2 draws from digits and capitals
// too; ours are texts for YAML wherever they stand, and as incompressible.
func randData(s template.Source, size any) (string, error) {
	n, err := toLength(size)
	if err != nil || n == 0 {
		return "", err
	}
	return s.DrawLetters(n), nil
}

// randDataWithSeed gives the same bytes as ClusterLoader2: a generator of
// math/rand seeded with the first eight bytes of the seed's SHA-256.
func randDataWithSeed(size any, seed string) (string, error) {
	const alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	n, err := toLength(size)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(seed))
	source := mathrand.New(mathrand.NewSource(int64(binary.BigEndian.Uint64(sum[:8]))))
	out := make([]byte, n)
	for i := range out {
		out[i] = alphabet[source.Intn(len(alphabet))]
	}
	return string(out), nil
}

// toLength reads the size of a text.
func toLength(size any) (int, error) {
	n, err := toNumber(size)
	switch {
	case err != nil:
		return 0, err
	case n < 0:
		return 0, fmt.Errorf("a text of %v letters", size)
	case n > template.MaxOutput:
		return 0, fmt.Errorf("a text of %v letters: %w", size, template.ErrTooLarge)
	}
	return int(n), nil
}

// randUpTo gives a whole number from 0 to a limit, both included.
func randUpTo(s template.Source, limit any) (int, error) {
	if n, err := toNumber(limit); err != nil || n < 0 {
		return 0, fmt.Errorf("RandInt: %v is not a number of at least 0", limit)
	}
	return randBetween(s, 0, limit)
}

// randBetween gives a whole number of a range, both ends included; the lower
// end of an empty one.
func randBetween(s template.Source, from, to any) (int, error) {
	a, err := toNumber(from)
	if err != nil {
		return 0, err
	}
	b, err := toNumber(to)
	if err != nil {
		return 0, err
	}
	if int(a) >= int(b) {
		return int(a), nil
	}
	return strconv.Atoi(s.DrawNumber(int64(a), int64(b)+1))
}

// includeFile returns a file that came with the body.
func includeFile(s template.Source, path string) (string, error) {
	files, _ := s.With(FilesVariable).(map[string]any)
	if text, ok := files[path].(string); ok {
		return text, nil
	}
	return "", fmt.Errorf("%s is not in with.%s", path, FilesVariable)
}

// setName gives an object its name, whatever its template says.
func setName(object []byte, v template.Vars) ([]byte, error) {
	var has struct {
		Metadata struct {
			Name any `json:"name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(object, &has); err == nil && has.Metadata.Name == v.Name {
		return object, nil
	}
	var all map[string]any
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber() // large numbers stay what they are
	if err := d.Decode(&all); err != nil {
		return nil, err
	}
	metadata, ok := all["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		all["metadata"] = metadata
	}
	metadata["name"] = v.Name
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(all)
	return bytes.TrimSpace(out.Bytes()), err
}

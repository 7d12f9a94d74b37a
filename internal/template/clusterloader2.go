package template

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
)

// FilesVariable is the entry of Vars.With in which ClusterLoader2's
// IncludeFile and IncludeEmbedFile look: a map from path to content. A body is
// rendered far from the files that it was written beside.
const FilesVariable = "IncludeFile"

// clusterLoader2 is the dialect of ClusterLoader2's object templates. What an
// object is called does not stand in its template: it is put in.
func clusterLoader2() dialect {
	return dialect{
		missing: "invalid", random: []string{"RandData", "RandInt", "RandIntRange"},
		functions: func(x *executor) texttemplate.FuncMap {
			out := x.clusterLoader2()
			out["IncludeFile"], out["IncludeEmbedFile"] = x.includeFile, x.includeFile
			return out
		},
		variables: func(v Vars, data map[string]any) {
			data["Name"], data["Namespace"], data["Index"] = v.Name, v.Namespace, v.Index
		},
		finish: setName,
	}
}

// ClusterLoader2Functions returns the functions of ClusterLoader2's templates,
// for a whole config; those that read files or the environment are the
// caller's to add. Their random values come from the seed. The map serves one
// goroutine at a time.
func ClusterLoader2Functions(seed uint64) texttemplate.FuncMap {
	x := &executor{vars: Vars{Seed: seed}}
	return x.clusterLoader2()
}

// clusterLoader2 are the functions as its pkg/config/template_functions.go
// defines them. They take whole and other numbers and texts of numbers alike;
// their arithmetic is that of float64, cut to whole numbers where they say Int.
// StructuralData comes from the template engine that ClusterLoader2 uses,
// github.com/google/safetext: the engine refuses a text variable that changes
// the structure of the YAML unless it passes through this function, which
// returns it as it is.
func (x *executor) clusterLoader2() texttemplate.FuncMap {
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
		"Seq":            zeroList, "SliceOfZeros": zeroList, "Loop": countBelow, "Mod": moduloWhole, "IsEven": isEven,
		"Ceil":     func(v any) (float64, error) { f, err := toNumber(v); return math.Ceil(f), err },
		"RandData": x.randData, "RandDataWithSeed": randDataWithSeed, "RandInt": x.randUpTo, "RandIntRange": x.randBetween,
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
	rest, err := moduloWhole(v, 2)
	return rest == 0, err
}

func moduloWhole(a, b any) (int, error) {
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
	return untilStep(0, int(n), 1)
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
func (x *executor) randData(size any) (string, error) {
	n, err := toLength(size)
	if err != nil || n == 0 {
		return "", err
	}
	return x.randomValue(random{letters: n}), nil
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
	case n > MaxOutput:
		return 0, fmt.Errorf("a text of %v letters: %w", size, ErrTooLarge)
	}
	return int(n), nil
}

// randUpTo gives a whole number from 0 to most, both included.
func (x *executor) randUpTo(most any) (int, error) {
	if n, err := toNumber(most); err != nil || n < 0 {
		return 0, fmt.Errorf("RandInt: %v is not a number of at least 0", most)
	}
	return x.randBetween(0, most)
}

// randBetween gives a whole number of a range, both ends included; the lower
// end of an empty one.
func (x *executor) randBetween(from, to any) (int, error) {
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
	return strconv.Atoi(x.randomValue(random{from: int64(a), to: int64(b) + 1}))
}

// includeFile returns a file that came with the body.
func (x *executor) includeFile(path string) (string, error) {
	files, _ := x.vars.With[FilesVariable].(map[string]any)
	if text, ok := files[path].(string); ok {
		return text, nil
	}
	return "", fmt.Errorf("%s is not in with.%s", path, FilesVariable)
}

// setName gives an object its name, whatever its template says.
func setName(object []byte, v Vars) ([]byte, error) {
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

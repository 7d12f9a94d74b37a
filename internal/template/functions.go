package template

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	texttemplate "text/template"

	"github.com/Masterminds/sprig/v3"
)

// templateFunctions are those of a template: the ones of sprig that always give the
// same for the same arguments and see neither files nor network nor the
// environment, and the seeded random ones.
func (x *executor) templateFunctions() texttemplate.FuncMap {
	all, out := sprig.TxtFuncMap(), texttemplate.FuncMap{}
	for _, name := range sprigFunctions() {
		out[name] = all[name]
	}
	maps.Copy(out, boundedFunctions())
	out["randInt"], out["randAlpha"], out["payload"] = x.randInt, x.randAlpha, x.randomPayload
	return out
}

// sprigFunctions are the ones taken from sprig. Left out are clocks and dates,
// the unseeded random ones, keys and certificates, env, getHostByName, and what
// changes its arguments (set, unset, merge), which objects share.
func sprigFunctions() []string {
	return strings.Fields(`
		abbrev abbrevboth trunc trim upper lower title untitle substr trimall trimAll trimSuffix trimPrefix nospace
		initials swapcase snakecase camelcase kebabcase wrap wrapWith contains hasPrefix hasSuffix quote squote cat
		replace plural sha1sum sha256sum sha512sum adler32sum toString atoi int64 int float64 toDecimal split splitList
		splitn toStrings add1 add sub div mod mul add1f addf subf divf mulf biggest max min maxf minf ceil floor round
		join sortAlpha default empty coalesce all any compact mustCompact fromJson toJson toPrettyJson toRawJson
		mustFromJson mustToJson mustToPrettyJson mustToRawJson ternary deepCopy mustDeepCopy typeOf typeIs typeIsLike
		kindOf kindIs deepEqual base dir clean ext isAbs b64enc b64dec b32enc b32dec tuple list dict get hasKey pluck
		pick omit append mustAppend prepend mustPrepend first mustFirst rest mustRest last mustLast initial
		mustInitial reverse mustReverse uniq mustUniq without mustWithout has mustHas slice mustSlice concat dig chunk
		mustChunk semver semverCompare fail regexMatch mustRegexMatch regexFindAll mustRegexFindAll regexFind
		mustRegexFind regexReplaceAll mustRegexReplaceAll regexReplaceAllLiteral mustRegexReplaceAllLiteral regexSplit
		mustRegexSplit regexQuoteMeta urlParse urlJoin`)
}

// boundedFunctions are in place of sprig's: those that make much out of little
// have bounds here, so that a slip of the pen does not take the machine's
// memory, and keys and values come in one order.
func boundedFunctions() texttemplate.FuncMap {
	return texttemplate.FuncMap{
		"repeat": func(n int, s string) (string, error) {
			if n < 0 || n > MaxOutput || n*len(s) > MaxOutput {
				return "", fmt.Errorf("repeat %d: %w", n, ErrTooLarge)
			}
			return strings.Repeat(s, n), nil
		},
		"indent":  func(n int, s string) (string, error) { return indentText(n, s) },
		"nindent": func(n int, s string) (string, error) { s, err := indentText(n, s); return "\n" + s, err },
		"until":   listUntil,
		"keys":    sortedKeys,
		"values":  valuesByKey,
		"untilStep": func(from, to, step int) ([]int, error) {
			return CountSteps(from, to, step)
		},
	}
}

func indentText(n int, s string) (string, error) {
	if n < 0 || n > 1000 {
		return "", fmt.Errorf("indent %d: not in 0 to 1000", n)
	}
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(s, "\n", "\n"+pad), nil
}

// listUntil lists 0, 1 ... below n, which is whole. It is taken as what div, a parameter
// and a sum are alike: sprig's takes an int alone.
func listUntil(n any) ([]int, error) {
	v := reflect.ValueOf(n)
	switch {
	case v.CanInt() && int64(int(v.Int())) == v.Int():
		return CountSteps(0, int(v.Int()), 1)
	case v.CanFloat() && math.Abs(v.Float()) < 1<<53 && v.Float() == math.Trunc(v.Float()):
		return CountSteps(0, int(v.Float()), 1)
	}
	return nil, fmt.Errorf("until %v: not a whole number", n)
}

// CountSteps lists from, from+step ... while below to (above it for a step below 0).
func CountSteps(from, to, step int) ([]int, error) {
	out := []int{}
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		if len(out) == 1_000_000 {
			return nil, fmt.Errorf("until: more than %d numbers", len(out))
		}
		out = append(out, i)
	}
	return out, nil
}

// sortedKeys lists the keys of maps, sorted.
func sortedKeys(all ...map[string]any) []string {
	var out []string
	for _, m := range all {
		out = append(out, slices.Sorted(maps.Keys(m))...)
	}
	return out
}

// valuesByKey lists the values of a map in the order of its keys.
func valuesByKey(m map[string]any) []any {
	out := []any{}
	for _, key := range sortedKeys(m) {
		out = append(out, m[key])
	}
	return out
}

package unit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Text writes a value with its unit for people, three significant digits. It
// knows the units of verdict.json: "seconds" ("s"), "bytes", "cores", "ratio"
// (written as a percentage), "bit/s" (with SI prefixes), "1/s" and names such as "pods/s"; any other unit
// is written behind the number as it is, and of one thing in the singular. NaN is "unknown".
func Text(v float64, u string) string {
	switch {
	case math.IsNaN(v):
		return "unknown"
	case math.IsInf(v, 0):
		return strings.TrimSpace(Number(v) + " " + u)
	}
	switch u {
	case "seconds", "s":
		return Seconds(v)
	case "bytes", "B":
		if v < 0 {
			return "-" + Bytes(-v).Human()
		}
		return Bytes(v).Human()
	case "ratio":
		return Number(100*v) + " %"
	case "1/s", "/s":
		return Number(v) + "/s"
	case "bit/s":
		return formatBits(v)
	case "", "1", "count":
		return Number(v)
	}
	if n := Number(v); n != "1" {
		return n + " " + u
	}
	return "1 " + singularOf(u)
}

// Count writes a number of things for people: "3000 pods", "1 simulated node".
// things is the plural, whose last word is made the singular.
func Count[N ~int | ~int32 | ~int64 | ~uint64](n N, things string) string {
	if n == 1 {
		adjectives, noun := "", things
		if at := strings.LastIndexByte(things, ' '); at >= 0 {
			adjectives, noun = things[:at+1], things[at+1:]
		}
		things = adjectives + singularOf(noun)
	}
	return strconv.FormatInt(int64(n), 10) + " " + things
}

// Verb returns the form of a verb that goes with a number of things: one with one
// of them, many with any other number.
func Verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// singularOf is the name of one of what a unit counts: "core" of "cores", "watch" of
// "watches". A unit that is no such name is itself.
func singularOf(u string) string {
	if noun, group, ok := strings.Cut(u, "."); ok { // a resource, such as deployments.apps
		return singularOf(noun) + "." + group
	}
	switch one := strings.TrimSuffix(u, "s"); {
	case len(u) < 4 || strings.ContainsAny(u, "/ ") || one == u:
		return u
	case u == "series":
		return u
	case strings.HasSuffix(u, "ies"):
		return strings.TrimSuffix(u, "ies") + "y"
	case strings.HasSuffix(u, "ches"), strings.HasSuffix(u, "sses"):
		return strings.TrimSuffix(u, "es")
	default:
		return one
	}
}

// formatBits writes bits per second with the largest prefix of a thousand that fits.
func formatBits(v float64) string {
	prefix := ""
	for _, p := range []string{"k", "M", "G", "T"} {
		if math.Abs(v) < 999.5 {
			break
		}
		v, prefix = v/1000, p
	}
	return Number(roundTo(v, 3)) + " " + prefix + "bit/s"
}

// Number writes a number for people: whole numbers in full with thousands
// separators, others with three significant digits: 3,000, 98.7, 0.0412.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "unknown"
	case math.IsInf(v, 0):
		return map[bool]string{true: "∞", false: "-∞"}[v > 0]
	case a >= 1e15 || a > 0 && a < 1e-4:
		return fmt.Sprintf("%.3g", v)
	case v == math.Trunc(v) || a >= 999.5:
		return groupDigits(strconv.FormatFloat(math.Round(v), 'f', 0, 64))
	default:
		return strconv.FormatFloat(roundTo(v, 3), 'f', -1, 64)
	}
}

// roundTo returns v with n significant digits.
func roundTo(v float64, n int) float64 {
	out, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', n, 64), 64)
	return out
}

// groupDigits puts a comma between each three digits of a whole number.
func groupDigits(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

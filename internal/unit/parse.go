package unit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Parse reads a number of some unit, which may be written with one: of "seconds" 500ms
// or 1m30s, of "1/s" and other things per second 50/s or 3000/min, of "bytes" 512Mi, of
// "bytes/s" 10Mi/s, of "ratio" and "percent" 5%, of "cores" 500m. A number without one
// is taken as it is. What is of another dimension is an error.
func Parse(text, of string) (float64, error) {
	text = strings.TrimSpace(text)
	if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		return v, nil
	}
	v, ok, want := 0.0, false, "a number"
	switch k := unitName(of); k {
	case "seconds":
		want = "a time such as 500ms, or a number of seconds"
		d, err := time.ParseDuration(text)
		if v, ok = d.Seconds(), err == nil; ok && d >= maxMinutes && strings.Count(text, "m") == 1 && strings.HasSuffix(text, "m") && !strings.Contains(text, "h") {
			return 0, fmt.Errorf("%q is %s: m means minutes, ms means milliseconds", text, strings.TrimSuffix(d.String(), "0s"))
		}
	case "bytes":
		want = "a size such as 512Mi, or a number of bytes"
		v, ok = parseSize(text)
	case "bytes/s":
		want = "a size per second such as 10Mi/s, or a number of bytes per second"
		v, ok = perSecond(text, parseSize)
	case "1/s":
		want = "a rate such as 50/s, or a number per second"
		v, ok = perSecond(text, parseNumber)
	case "ratio", "percent":
		want = map[string]string{"ratio": "a share such as 5% or 0.05", "percent": "a percentage such as 5%, or a number of percent"}[k]
		left, percent := strings.CutSuffix(text, "%")
		if v, ok = parseNumber(left); k == "ratio" {
			v /= 100
		}
		ok = ok && percent
	case "cores":
		want = "cores such as 0.5 or 500m"
		left, milli := strings.CutSuffix(text, "m")
		v, ok = parseNumber(left)
		v, ok = v/1000, ok && milli
	}
	if !ok {
		return 0, fmt.Errorf("%q is not %s", text, want)
	}
	return v, nil
}

// HasUnit tells whether a text is a number with a unit that Parse knows, whatever it is
// a number of.
func HasUnit(text string) bool {
	if _, plain := parseNumber(text); plain {
		return false
	}
	for _, of := range []string{"seconds", "1/s", "bytes", "bytes/s", "ratio", "cores"} {
		if _, err := Parse(text, of); err == nil {
			return true
		}
	}
	return false
}

// maxMinutes is the time from which on minutes alone are more likely thousandths of a second,
// as in a quantity of Kubernetes.
const maxMinutes = 100 * time.Minute

// unitName is what a unit of verdict.json, or what people call it, is a number of.
func unitName(of string) string {
	switch of {
	case "s", "second":
		return "seconds"
	case "B", "byte":
		return "bytes"
	case "B/s", "bytes/s":
		return "bytes/s"
	}
	if strings.HasSuffix(of, "/s") {
		return "1/s"
	}
	return of
}

func parseNumber(text string) (float64, bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// parseSize reads a Kubernetes quantity; what people write behind it in full is no other
// size: 512MiB, 512MB.
func parseSize(text string) (float64, bool) {
	q, err := resource.ParseQuantity(strings.TrimSuffix(text, "B"))
	v := q.AsApproximateFloat64()
	return v, err == nil && (v == 0 || v >= 1) // m means thousandths
}

// perSecond reads a number per second, minute or hour.
func perSecond(text string, of func(string) (float64, bool)) (float64, bool) {
	left, unit, cut := strings.Cut(text, "/")
	seconds := map[string]float64{"s": 1, "min": 60, "h": 3600}[strings.TrimSpace(unit)]
	v, ok := of(strings.TrimSpace(left))
	if !ok || !cut || seconds == 0 {
		return 0, false
	}
	return v / seconds, true
}

package assess

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Claim is a sentence for a bundle: a bound on a measure of runs with some parameters.
type Claim struct {
	Says       string            `json:"says"`
	Measure    string            `json:"measure"`
	Of         string            `json:"of,omitempty"` // change: from A to B; empty: the runs With
	With       map[string]string `json:"with,omitempty"`
	Max        string            `json:"max,omitempty"`
	Min        string            `json:"min,omitempty"`
	Confidence string            `json:"confidence"`
}

// maxConfidence is that of a claim that enough runs show.
const maxConfidence = 95

// Claims bounds, for each size, the peak memory and CPU of the tested programs: no more than
// in the runs, with the confidence that their number gives. The median of further runs lies
// above the largest of n once in 2 to the power of n.
func Claims(p Plan, s Subject, all []Observation) (out []Claim) {
	size, _ := p.Sweep(Size)
	for i, arm := range size.Arms {
		for _, program := range s.Programs {
			for _, m := range []struct{ key, what string }{{"peak_rss_bytes", "peak memory"}, {"cpu_seconds", "CPU"}} {
				key := slo.Key(m.key, program)
				values, with, of := valuesIn(all, arm, key, p.Arms[arm].Set)
				if len(values) == 0 {
					continue
				}
				limit := roundUp(slices.Max(values))
				out = append(out, Claim{
					Says:    fmt.Sprintf("%s of %s with %s=%s is at most %s", m.what, program, size.Param, size.Values[i], unit.Text(limit, of)),
					Measure: key, With: with, Max: strconv.FormatFloat(limit, 'f', -1, 64), Confidence: confidenceOf(len(values)),
				})
			}
		}
	}
	return out
}

// ChangeClaims bounds each measure that differs beyond chance between two sides.
func ChangeClaims(c *compare.Comparison) (out []Claim) {
	for _, m := range c.Measures {
		if m.Besides || m.Interval == nil || m.Outcome != compare.Worse && m.Outcome != compare.Better {
			continue
		}
		const digits = 1e4
		low, high := math.Floor((m.Interval[0]-1)*digits)/digits, math.Ceil((m.Interval[1]-1)*digits)/digits
		out = append(out, Claim{
			Says:    fmt.Sprintf("%s changes by %s to %s from %s to %s", m.Title, unit.Text(low, "ratio"), unit.Text(high, "ratio"), c.A.Name, c.B.Name),
			Measure: m.Key, Of: "change", Min: strconv.FormatFloat(low, 'f', -1, 64), Max: strconv.FormatFloat(high, 'f', -1, 64), Confidence: fmt.Sprintf("%d%%", maxConfidence),
		})
	}
	return out
}

// valuesIn are the values of a measure in the runs of an arm, the parameters that the arm
// sets as the manifests write them, and the measure's unit.
func valuesIn(all []Observation, arm int, key string, set map[string]string) (values []float64, with map[string]string, of string) {
	with = map[string]string{}
	for _, o := range all {
		m, ok := o.Run.Judgement.Measures[key]
		if o.Arm != arm || o.Run.Unfit() != "" || !ok {
			continue
		}
		values, of = append(values, m.Value), m.Unit
		for name := range maps.Keys(set) {
			with[name] = fmt.Sprint(o.Run.Manifest.Parameters[name])
		}
	}
	return values, with, of
}

// confidenceOf is how surely n runs bound the median of all by their largest value.
func confidenceOf(n int) string {
	return fmt.Sprintf("%.0f%%", min(maxConfidence, math.Floor(100*(1-math.Pow(2, -float64(n))))))
}

// roundUp returns three significant digits, never less than v.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 0
	}
	digit := math.Pow(10, math.Floor(math.Log10(v))-2)
	r, err := strconv.ParseFloat(strconv.FormatFloat(math.Ceil(v/digit)*digit, 'g', 3, 64), 64)
	if err != nil || r < v {
		return v
	}
	return r
}

// ClaimsFile writes claims as publish reads them.
func ClaimsFile(claims []Claim) []byte {
	var b strings.Builder
	b.WriteString("claims:\n")
	for _, c := range claims {
		fmt.Fprintf(&b, "- says: %q\n  measure: %s\n  confidence: %s\n", c.Says, c.Measure, c.Confidence)
		for _, f := range [][2]string{{"of", c.Of}, {"max", c.Max}, {"min", c.Min}} {
			if f[1] != "" {
				fmt.Fprintf(&b, "  %s: %q\n", f[0], f[1])
			}
		}
		for i, name := range slices.Sorted(maps.Keys(c.With)) {
			if i == 0 {
				b.WriteString("  with:\n")
			}
			fmt.Fprintf(&b, "    %q: %q\n", name, c.With[name])
		}
	}
	return []byte(b.String())
}

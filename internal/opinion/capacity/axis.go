package capacity

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxLevels bounds how many values of an axis are told apart.
const maxLevels = 10_000

// Axis is a parameter of a scenario that is varied.
type Axis struct {
	Name  string  `json:"name"`
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Log   bool    `json:"log,omitempty"`   // values are apart by a factor, not by a sum
	Whole bool    `json:"whole,omitempty"` // the parameter is a whole number
}

// ParseAxis reads NAME=FROM..TO, or NAME=FROM..TO:log.
func ParseAxis(text string) (Axis, error) {
	bad := func(why string) (Axis, error) {
		return Axis{}, fmt.Errorf("%s: %s; want such as pods=1000..50000 or pods=1000..50000:log", text, why)
	}
	name, values, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return bad("no name")
	}
	a := Axis{Name: name}
	values, a.Log = strings.CutSuffix(values, ":log")
	values = strings.TrimSuffix(values, ":linear")
	from, to, ok := strings.Cut(values, "..")
	var errs [2]error
	a.From, errs[0] = strconv.ParseFloat(from, 64)
	a.To, errs[1] = strconv.ParseFloat(to, 64)
	switch {
	case !ok || errs[0] != nil || errs[1] != nil || math.IsInf(a.From, 0) || math.IsInf(a.To, 0) || math.IsNaN(a.From) || math.IsNaN(a.To):
		return bad("no range")
	case a.From < 0:
		return bad("a load below 0")
	case a.From >= a.To:
		return bad("the range has no room")
	case a.Log && a.From == 0:
		return bad("a logarithmic range begins above 0")
	}
	return a, nil
}

// Levels returns the values that are told apart, ascending: those of a linear
// axis are apart by at most resolution of the range, those of a logarithmic one
// by at most that share of the smaller. Both ends are among them.
func (a Axis) Levels(resolution float64) []float64 {
	n := math.Ceil(1/resolution - 1e-9)
	if a.Log {
		n = math.Ceil(math.Log(a.To/a.From)/math.Log1p(resolution) - 1e-9)
	}
	n = min(max(n, 1), maxLevels)
	var out []float64
	for i := range int(n) + 1 {
		share := float64(i) / n
		v := a.From + (a.To-a.From)*share
		if a.Log {
			v = a.From * math.Pow(a.To/a.From, share)
		}
		out = append(out, a.roundValue(v))
	}
	out[0], out[len(out)-1] = a.From, a.To
	return slices.Compact(out)
}

// roundValue makes a value that a person can read.
func (a Axis) roundValue(v float64) float64 {
	if a.Whole {
		return math.Round(v)
	}
	out, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	return min(max(out, a.From), a.To)
}

// Text writes a value as --set takes it.
func Text(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Ends returns the points of the least and of the most load.
func (p Plan) Ends() (low, high []float64) {
	for _, a := range p.Axes {
		low, high = append(low, a.From), append(high, a.To)
	}
	return low, high
}

package kubelet

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
)

// page is metrics in Prometheus' text format, version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/
type page struct{ families []*family }

// family is the samples of one name.
type family struct {
	name  string
	head  string
	seen  map[string]bool // label sets
	lines bytes.Buffer
}

// familyOf returns the family of a series, in the order in which they were first
// asked for.
func (p *page) familyOf(s *configuration.Series) *family {
	for _, f := range p.families {
		if f.name == s.Name {
			return f
		}
	}
	f := &family{name: s.Name, seen: map[string]bool{}}
	if help := strings.TrimSpace(s.Help); help != "" {
		f.head = "# HELP " + s.Name + " " + escapeText(help, false) + "\n"
	}
	f.head += "# TYPE " + s.Name + " " + s.Kind + "\n"
	p.families = append(p.families, f)
	return f
}

// encodeText writes the families that have samples.
func (p *page) encodeText() []byte {
	var out []byte
	for _, f := range p.families {
		if f.lines.Len() > 0 {
			out = append(append(out, f.head...), f.lines.Bytes()...)
		}
	}
	return out
}

// escapeText writes a text so that it ends neither its line nor its quotes.
func escapeText(text string, quotes bool) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), "\n", `\n`)
	if quotes {
		text = strings.ReplaceAll(text, `"`, `\"`)
	}
	return text
}

// formatLabels writes the labels of a sample in the order of their names.
func formatLabels(s *configuration.Series, values []string) string {
	pairs := make([]string, len(values))
	for i, v := range values {
		pairs[i] = s.Labels[i].Name + `="` + escapeText(strings.ToValidUTF8(v, "\uFFFD"), true) + `"`
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// isFresh says whether no sample has these labels yet.
func (f *family) isFresh(labels string) bool {
	if f.seen[labels] {
		return false
	}
	f.seen[labels] = true
	return true
}

func (f *family) addLine(suffix, labels string, v float64) {
	f.lines.WriteString(f.name + suffix)
	if labels != "" {
		f.lines.WriteString("{" + labels + "}")
	}
	f.lines.WriteString(" " + formatNumber(v) + "\n")
}

func formatNumber(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	case math.IsNaN(v):
		return "NaN"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// addValue adds a sample; false when one with the same labels is there.
func (f *family) addValue(s *configuration.Series, values []string, v float64) bool {
	set := formatLabels(s, values)
	if !f.isFresh(set) {
		return false
	}
	f.addLine("", set, v)
	return true
}

// addHistogram adds a histogram from how many observations fall into each bucket,
// and not into those before it. Every observation counts as large as its
// bucket's bound; those of hidden buckets are in the next that is not.
func (f *family) addHistogram(s *configuration.Series, values []string, counts []float64) bool {
	set := formatLabels(s, values)
	if !f.isFresh(set) {
		return false
	}
	order := make([]int, len(counts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if s.Buckets[a].Le < s.Buckets[b].Le {
			return -1
		}
		return 1
	})
	comma := ""
	if set != "" {
		comma = ","
	}
	var count, sum float64
	for _, i := range order {
		n := math.Floor(max(0, counts[i]))
		if math.IsNaN(n) {
			n = 0
		}
		count += n
		sum += n * s.Buckets[i].Le
		if !s.Buckets[i].Hidden {
			f.addLine("_bucket", set+comma+`le="`+formatNumber(s.Buckets[i].Le)+`"`, count)
		}
	}
	f.addLine("_bucket", set+comma+`le="+Inf"`, count)
	f.addLine("_sum", set, sum)
	f.addLine("_count", set, count)
	return true
}

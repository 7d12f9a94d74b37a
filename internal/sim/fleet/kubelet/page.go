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

// family returns the family of a series, in the order in which they were first
// asked for.
func (p *page) family(s *configuration.Series) *family {
	for _, f := range p.families {
		if f.name == s.Name {
			return f
		}
	}
	f := &family{name: s.Name, seen: map[string]bool{}}
	if help := strings.TrimSpace(s.Help); help != "" {
		f.head = "# HELP " + s.Name + " " + escape(help, false) + "\n"
	}
	f.head += "# TYPE " + s.Name + " " + s.Kind + "\n"
	p.families = append(p.families, f)
	return f
}

// text writes the families that have samples.
func (p *page) text() []byte {
	var out []byte
	for _, f := range p.families {
		if f.lines.Len() > 0 {
			out = append(append(out, f.head...), f.lines.Bytes()...)
		}
	}
	return out
}

// escape writes a text so that it ends neither its line nor its quotes.
func escape(text string, quotes bool) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), "\n", `\n`)
	if quotes {
		text = strings.ReplaceAll(text, `"`, `\"`)
	}
	return text
}

// labels writes the labels of a sample in the order of their names.
func labels(s *configuration.Series, values []string) string {
	pairs := make([]string, len(values))
	for i, v := range values {
		pairs[i] = s.Labels[i].Name + `="` + escape(strings.ToValidUTF8(v, "\uFFFD"), true) + `"`
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// fresh says whether no sample has these labels yet.
func (f *family) fresh(labels string) bool {
	if f.seen[labels] {
		return false
	}
	f.seen[labels] = true
	return true
}

func (f *family) line(suffix, labels string, v float64) {
	f.lines.WriteString(f.name + suffix)
	if labels != "" {
		f.lines.WriteString("{" + labels + "}")
	}
	f.lines.WriteString(" " + number(v) + "\n")
}

func number(v float64) string {
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

// value adds a sample; false when one with the same labels is there.
func (f *family) value(s *configuration.Series, values []string, v float64) bool {
	set := labels(s, values)
	if !f.fresh(set) {
		return false
	}
	f.line("", set, v)
	return true
}

// histogram adds a histogram from how many observations fall into each bucket,
// and not into those before it. Every observation counts as large as its
// bucket's bound; those of hidden buckets are in the next that is not.
func (f *family) histogram(s *configuration.Series, values []string, counts []float64) bool {
	set := labels(s, values)
	if !f.fresh(set) {
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
			f.line("_bucket", set+comma+`le="`+number(s.Buckets[i].Le)+`"`, count)
		}
	}
	f.line("_bucket", set+comma+`le="+Inf"`, count)
	f.line("_sum", set, sum)
	f.line("_count", set, count)
	return true
}

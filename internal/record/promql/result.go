package promql

import (
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	engine "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Kind is what an expression gives.
type Kind string

// The kinds of results, by Prometheus' names.
const (
	Scalar Kind = "scalar" // one series without labels, with one point
	Vector Kind = "vector" // series with one point each
	Matrix Kind = "matrix" // series with any number of points
	String Kind = "string"
)

// Result is the answer to a query.
type Result struct {
	Kind     Kind
	Series   []Series   // in the engine's order: by labels, unless the expression sorts
	Text     string     // of a String
	At       clock.Time // of a String
	Warnings []string   // what makes the answer doubtful
	Infos    []string   // what may be meant otherwise
}

// Series is one series of an answer.
type Series struct {
	Labels []record.Label // sorted by name; the metric's name is __name__
	Points []Point        // in the order of time
}

// Point is a value or, where Histogram is set, a native histogram.
type Point struct {
	At        clock.Time
	Value     float64
	Histogram *Histogram
}

// Histogram is a native histogram in an answer.
type Histogram struct {
	Count, Sum float64
	Buckets    []Bucket // ascending, those with values
}

// Bucket is one bucket of a Histogram.
type Bucket struct {
	Lower, Upper             float64
	LowerClosed, UpperClosed bool // the bounds belong to the bucket
	Count                    float64
}

// maxNotes is how many warnings, and how many infos, a result has at most.
const maxNotes = 10

func (d *DB) toResult(expr string, r *engine.Result) (Result, error) {
	var out Result
	switch v := r.Value.(type) {
	case engine.Scalar:
		out.Kind = Scalar
		out.Series = []Series{{Points: []Point{{At: d.momentOf(v.T), Value: v.V}}}}
	case engine.String:
		out.Kind, out.Text, out.At = String, v.V, d.momentOf(v.T)
	case engine.Vector:
		out.Kind = Vector
		for _, s := range v {
			out.Series = append(out.Series, Series{labelsOf(s.Metric), []Point{{d.momentOf(s.T), s.F, histogramOf(s.H)}}})
		}
	case engine.Matrix:
		out.Kind = Matrix
		for _, s := range v {
			out.Series = append(out.Series, Series{labelsOf(s.Metric), d.mergePoints(s)})
		}
	default:
		return out, fmt.Errorf("evaluate %q: a result of type %s", expr, typeOf(r.Value))
	}
	out.Warnings, out.Infos = r.Warnings.AsStrings(expr, maxNotes, maxNotes)
	return out, nil
}

func typeOf(v parser.Value) parser.ValueType {
	if v == nil {
		return parser.ValueTypeNone
	}
	return v.Type()
}

func (d *DB) momentOf(ms int64) clock.Time { return d.Moment(time.UnixMilli(ms)) }

// mergePoints puts a series' values and histograms in the order of time.
func (d *DB) mergePoints(s engine.Series) []Point {
	out := make([]Point, 0, len(s.Floats)+len(s.Histograms))
	floats, histograms := s.Floats, s.Histograms
	for len(floats) > 0 || len(histograms) > 0 {
		if len(histograms) == 0 || (len(floats) > 0 && floats[0].T < histograms[0].T) {
			out = append(out, Point{At: d.momentOf(floats[0].T), Value: floats[0].F})
			floats = floats[1:]
			continue
		}
		out = append(out, Point{At: d.momentOf(histograms[0].T), Histogram: histogramOf(histograms[0].H)})
		histograms = histograms[1:]
	}
	return out
}

func labelsOf(l labels.Labels) []record.Label {
	out := make([]record.Label, 0, l.Len())
	l.Range(func(l labels.Label) { out = append(out, record.Label{Name: l.Name, Value: l.Value}) })
	return out
}

func histogramOf(h *histogram.FloatHistogram) *Histogram {
	if h == nil {
		return nil
	}
	out := &Histogram{Count: h.Count, Sum: h.Sum}
	for it := h.AllBucketIterator(); it.Next(); {
		if b := it.At(); b.Count != 0 {
			out.Buckets = append(out.Buckets, Bucket{b.Lower, b.Upper, b.LowerInclusive, b.UpperInclusive, b.Count})
		}
	}
	return out
}

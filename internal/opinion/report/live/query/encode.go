package query

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
)

// encodeAnswer writes an answer.
func encodeAnswer(a answer) []byte {
	b := []byte(`{"status":"success","data":`)
	switch data := a.data.(type) {
	case evaluated:
		b = data.appendTo(b)
	case []labelSet:
		b = append(b, '[')
		for i, l := range data {
			b = appendComma(b, i)
			b = l.appendTo(b)
		}
		b = append(b, ']')
	default:
		b = appendJSON(b, data)
	}
	if len(a.warnings) > 0 {
		b = appendJSON(append(b, `,"warnings":`...), a.warnings)
	}
	if len(a.infos) > 0 {
		b = appendJSON(append(b, `,"infos":`...), a.infos)
	}
	return append(b, "}\n"...)
}

func encodeFault(f *fault) []byte {
	b := append([]byte(`{"status":"error","errorType":"`), f.kind...)
	return append(appendJSON(append(b, `","error":`...), f.Error()), "}\n"...)
}

// appendJSON appends what the standard library makes of texts, numbers, maps
// and lists of them, which always works.
func appendJSON(b []byte, v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(b, raw...)
}

func appendComma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

// labelSet is labels as an object.
type labelSet []record.Label

func (l labelSet) appendTo(b []byte) []byte {
	b = append(b, '{')
	for i, one := range l {
		b = appendComma(b, i)
		b = appendJSON(b, one.Name)
		b = appendJSON(append(b, ':'), one.Value)
	}
	return append(b, '}')
}

// evaluated is the answer to a query.
type evaluated struct {
	promql.Result
	db *promql.DB
}

func (e evaluated) appendTo(b []byte) []byte {
	b = append(b, `{"resultType":"`...)
	b = append(append(b, e.Kind...), `","result":`...)
	switch e.Kind {
	case promql.Scalar:
		b = e.appendPoint(b, e.Series[0].Points[0])
	case promql.String:
		b = append(e.appendTime(append(b, '['), e.At), ',')
		b = append(appendJSON(b, e.Text), ']')
	default:
		b = append(b, '[')
		for i, s := range e.Series {
			b = appendComma(b, i)
			b = append(labelSet(s.Labels).appendTo(append(b, `{"metric":`...)), ',')
			b = append(e.appendPoints(b, s.Points), '}')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// appendPoints writes a series' values and then its histograms, or the one that a
// vector's has.
func (e evaluated) appendPoints(b []byte, points []promql.Point) []byte {
	if e.Kind == promql.Vector {
		name := `"value":`
		if points[0].Histogram != nil {
			name = `"histogram":`
		}
		return e.appendPoint(append(b, name...), points[0])
	}
	lists := 0
	for _, list := range []struct {
		name       string
		histograms bool
	}{{`"values":[`, false}, {`"histograms":[`, true}} {
		n := 0
		for _, p := range points {
			if (p.Histogram != nil) != list.histograms {
				continue
			}
			if n == 0 {
				b = append(appendComma(b, lists), list.name...)
				lists++
			}
			b = e.appendPoint(appendComma(b, n), p)
			n++
		}
		if n > 0 {
			b = append(b, ']')
		}
	}
	return b
}

func (e evaluated) appendPoint(b []byte, p promql.Point) []byte {
	b = append(e.appendTime(append(b, '['), p.At), ',')
	if p.Histogram != nil {
		return append(appendHistogram(b, p.Histogram), ']')
	}
	return append(appendNumber(b, p.Value), ']')
}

// appendTime writes seconds since 1970, with milliseconds where there are any.
func (e evaluated) appendTime(b []byte, at clock.Time) []byte {
	ms := e.db.Wall(at).UnixMilli()
	b = strconv.AppendInt(b, ms/1000, 10)
	if part := ms % 1000; part > 0 {
		b = append(b, '.', byte('0'+part/100), byte('0'+part/10%10), byte('0'+part%10))
	}
	return b
}

// appendNumber writes a value as a text, since JSON has no NaN.
func appendNumber(b []byte, v float64) []byte {
	form := byte('f')
	if size := math.Abs(v); size != 0 && (size < 1e-6 || size >= 1e21) {
		form = 'e'
	}
	return append(strconv.AppendFloat(append(b, '"'), v, form, -1, 64), '"')
}

func appendHistogram(b []byte, h *promql.Histogram) []byte {
	b = appendNumber(append(b, `{"count":`...), h.Count)
	b = appendNumber(append(b, `,"sum":`...), h.Sum)
	if len(h.Buckets) > 0 {
		b = append(b, `,"buckets":[`...)
		for i, bucket := range h.Buckets {
			b = append(appendComma(b, i), '[')
			b = strconv.AppendInt(b, boundaryRule(bucket), 10)
			b = appendNumber(append(b, ','), bucket.Lower)
			b = appendNumber(append(b, ','), bucket.Upper)
			b = append(appendNumber(append(b, ','), bucket.Count), ']')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// boundaryRule says which of a bucket's ends belong to it, by the API's numbers.
func boundaryRule(b promql.Bucket) int64 {
	switch {
	case b.LowerClosed && b.UpperClosed:
		return 3
	case b.LowerClosed:
		return 1
	case b.UpperClosed:
		return 0
	}
	return 2
}

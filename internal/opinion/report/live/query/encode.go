package query

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
)

// encode writes an answer.
func encode(a answer) []byte {
	b := []byte(`{"status":"success","data":`)
	switch data := a.data.(type) {
	case evaluated:
		b = data.append(b)
	case []labelSet:
		b = append(b, '[')
		for i, l := range data {
			b = comma(b, i)
			b = l.append(b)
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

func comma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

// labelSet is labels as an object.
type labelSet []record.Label

func (l labelSet) append(b []byte) []byte {
	b = append(b, '{')
	for i, one := range l {
		b = comma(b, i)
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

func (e evaluated) append(b []byte) []byte {
	b = append(b, `{"resultType":"`...)
	b = append(append(b, e.Kind...), `","result":`...)
	switch e.Kind {
	case promql.Scalar:
		b = e.point(b, e.Series[0].Points[0])
	case promql.String:
		b = append(e.time(append(b, '['), e.At), ',')
		b = append(appendJSON(b, e.Text), ']')
	default:
		b = append(b, '[')
		for i, s := range e.Series {
			b = comma(b, i)
			b = append(labelSet(s.Labels).append(append(b, `{"metric":`...)), ',')
			b = append(e.points(b, s.Points), '}')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// points writes a series' values and then its histograms, or the one that a
// vector's has.
func (e evaluated) points(b []byte, points []promql.Point) []byte {
	if e.Kind == promql.Vector {
		name := `"value":`
		if points[0].Histogram != nil {
			name = `"histogram":`
		}
		return e.point(append(b, name...), points[0])
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
				b = append(comma(b, lists), list.name...)
				lists++
			}
			b = e.point(comma(b, n), p)
			n++
		}
		if n > 0 {
			b = append(b, ']')
		}
	}
	return b
}

func (e evaluated) point(b []byte, p promql.Point) []byte {
	b = append(e.time(append(b, '['), p.At), ',')
	if p.Histogram != nil {
		return append(histogram(b, p.Histogram), ']')
	}
	return append(number(b, p.Value), ']')
}

// time writes seconds since 1970, with milliseconds where there are any.
func (e evaluated) time(b []byte, at clock.Time) []byte {
	ms := e.db.Wall(at).UnixMilli()
	b = strconv.AppendInt(b, ms/1000, 10)
	if part := ms % 1000; part > 0 {
		b = append(b, '.', byte('0'+part/100), byte('0'+part/10%10), byte('0'+part%10))
	}
	return b
}

// number writes a value as a text, since JSON has no NaN.
func number(b []byte, v float64) []byte {
	form := byte('f')
	if size := math.Abs(v); size != 0 && (size < 1e-6 || size >= 1e21) {
		form = 'e'
	}
	return append(strconv.AppendFloat(append(b, '"'), v, form, -1, 64), '"')
}

func histogram(b []byte, h *promql.Histogram) []byte {
	b = number(append(b, `{"count":`...), h.Count)
	b = number(append(b, `,"sum":`...), h.Sum)
	if len(h.Buckets) > 0 {
		b = append(b, `,"buckets":[`...)
		for i, bucket := range h.Buckets {
			b = append(comma(b, i), '[')
			b = strconv.AppendInt(b, boundaries(bucket), 10)
			b = number(append(b, ','), bucket.Lower)
			b = number(append(b, ','), bucket.Upper)
			b = append(number(append(b, ','), bucket.Count), ']')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// boundaries says which of a bucket's ends belong to it, by the API's numbers.
func boundaries(b promql.Bucket) int64 {
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

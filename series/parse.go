// Package series reads metrics: it parses what /metrics serves, and keeps the
// samples of a record stream so that they can be asked for their value at a
// moment or their increase over a time. It is the only door to Prometheus.
//
// It scrapes nothing (package observe/scrape does) and judges nothing.
// Packages observe/scrape, slo, report and diagnose call it.
package series

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/windtunnel/windtunnel/record"
)

// MaxExposition is the largest exposition that is read, in bytes. That of a
// kube-apiserver with hundreds of resources has about 10 MB.
const MaxExposition = 64 << 20

// ErrTooLarge says that an exposition has more bytes than are read.
var ErrTooLarge = errors.New("metrics exposition is too large")

// Point is one sample of an exposition. A histogram is several points:
// NAME_bucket with the label le, NAME_sum and NAME_count.
type Point struct {
	Name   string
	Labels []record.Label // sorted by name
	Value  float64
}

// Parse reads an exposition whose HTTP Content-Type is given: Prometheus' text
// format or its delimited protobuf. Only points whose name accept holds for are
// returned, in the order of the exposition; nil accepts all. Names are those
// of points: NAME_bucket, not NAME. Native histograms give their _sum and
// _count, and _bucket where classic buckets are served beside them.
func Parse(r io.Reader, contentType string, accept func(name string) bool) ([]Point, error) {
	if accept == nil {
		accept = func(string) bool { return true }
	}
	format := expfmt.ResponseFormat(http.Header{"Content-Type": {contentType}})
	if format.FormatType() == expfmt.TypeProtoDelim {
		return parseProto(r, format, accept)
	}
	body, err := ReadAll(r, nil, MaxExposition)
	if err != nil {
		return nil, err
	}
	t := NewTracker(accept)
	var points []Point
	err = t.Update(body, func(i int, v float64) {
		p := t.Point(i)
		p.Value = v
		points = append(points, p)
	})
	return points, err
}

// ReadAll reads an exposition of at most limit bytes into buf, or into a larger
// one where buf is too small.
func ReadAll(r io.Reader, buf []byte, limit int64) ([]byte, error) {
	b := bytes.NewBuffer(buf[:0])
	n, err := b.ReadFrom(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	if n > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return b.Bytes(), nil
}

func parseProto(r io.Reader, format expfmt.Format, accept func(string) bool) ([]Point, error) {
	limited := &io.LimitedReader{R: r, N: MaxExposition + 1}
	d := expfmt.NewDecoder(limited, format)
	var points []Point
	for {
		var family dto.MetricFamily
		err := d.Decode(&family)
		if limited.N <= 0 {
			return points, ErrTooLarge
		}
		if errors.Is(err, io.EOF) {
			return points, nil
		}
		if err != nil {
			return points, fmt.Errorf("parse metrics: %w", err)
		}
		if points, err = flatten(points, &family, accept); err != nil {
			return points, err
		}
	}
}

// flatten appends the accepted points of a family.
func flatten(points []Point, family *dto.MetricFamily, accept func(string) bool) ([]Point, error) {
	name := family.GetName()
	if !slices.ContainsFunc([]string{"", "_bucket", "_sum", "_count"}, func(s string) bool { return accept(name + s) }) {
		return points, nil
	}
	samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, family)
	if err != nil {
		return points, fmt.Errorf("parse metrics: %s: %w", name, err)
	}
	for _, s := range samples {
		if p := point(s); accept(p.Name) {
			points = append(points, p)
		}
	}
	return points, nil
}

func point(s *model.Sample) Point {
	p := Point{Name: string(s.Metric[model.MetricNameLabel]), Value: float64(s.Value)}
	for _, name := range slices.Sorted(maps.Keys(s.Metric)) {
		if name != model.MetricNameLabel {
			p.Labels = append(p.Labels, record.Label{Name: string(name), Value: string(s.Metric[name])})
		}
	}
	return p
}

// parseLines reads lines of the text format in full, with Prometheus' parser;
// the points are in the order of the lines.
func parseLines(lines [][]byte) ([]Point, error) {
	// Without its TYPE a line is a sample of an untyped family, so that the
	// points of histograms come out as they stand. One parser for all lines
	// costs a sixth of one for each.
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(append(bytes.Join(lines, []byte{'\n'}), '\n')))
	if err != nil {
		return parseEach(lines)
	}
	points := make([]Point, 0, len(lines))
	for _, line := range lines {
		family := families[string(nameOf(line))]
		if family == nil || len(family.Metric) == 0 {
			return parseEach(lines)
		}
		points = append(points, untyped(family))
		family.Metric = family.Metric[1:]
	}
	return points, nil
}

// untyped is the first sample of an untyped family.
func untyped(family *dto.MetricFamily) Point {
	m := family.Metric[0]
	p := Point{Name: family.GetName(), Value: m.GetUntyped().GetValue()}
	for _, l := range m.Label {
		p.Labels = append(p.Labels, record.Label{Name: l.GetName(), Value: l.GetValue()})
	}
	slices.SortFunc(p.Labels, func(a, b record.Label) int { return strings.Compare(a.Name, b.Name) })
	return p
}

// parseEach parses lines one by one: those that do not begin with their name,
// and those among which one is faulty, so that the error says which.
func parseEach(lines [][]byte) ([]Point, error) {
	var points []Point
	for _, line := range lines {
		p := expfmt.NewTextParser(model.UTF8Validation)
		families, err := p.TextToMetricFamilies(bytes.NewReader(append(bytes.Clone(line), '\n')))
		if err != nil || len(families) != 1 {
			return points, parseError(line, err)
		}
		for _, family := range families {
			points = append(points, untyped(family))
		}
	}
	return points, nil
}

func parseError(line []byte, err error) error {
	if err == nil {
		return fmt.Errorf("parse metrics: %.200q is not a sample", line)
	}
	return fmt.Errorf("parse metrics: %.200q: %w", line, err)
}

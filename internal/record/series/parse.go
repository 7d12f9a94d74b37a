// Package series reads metrics: it tells what changed from one reading of a
// /metrics to the next, and keeps the samples of a record stream so that they
// can be asked for their value at a moment, for their increase over a time, or
// one by one as a server that scraped the same targets would hold them.
//
// It scrapes nothing (package scrape does) and judges nothing; PromQL over its
// store is package promql.
package series

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"

	"github.com/windtunnel/windtunnel/internal/record"
)

// MaxExposition is the largest exposition that is read, in bytes. That of a
// kube-apiserver with hundreds of resources has about 10 MB.
const MaxExposition = 64 << 20

var (
	// ErrTooLarge says that an exposition has more bytes than are read.
	ErrTooLarge = errors.New("metrics exposition is too large")
	// ErrFormat says that a target answered in a form that is not read.
	ErrFormat = errors.New("not Prometheus' text or protobuf format")
)

// Accept is what to ask a target for: protobuf first, since only there native
// histograms are, and since it costs a kube-apiserver half of what text does.
const Accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited," +
	"text/plain;version=0.0.4;q=0.5"

// Format is a form of exposition.
type Format uint8

// The forms that are read.
const (
	Text     Format = iota // Prometheus' text format 0.0.4
	Protobuf               // io.prometheus.client.MetricFamily, delimited
)

// FormatOf tells the form of an answer by its Content-Type. An answer without
// one is taken for text.
func FormatOf(contentType string) (Format, error) {
	if contentType == "" {
		return Text, nil
	}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return 0, fmt.Errorf("content type %.100q: %w", contentType, ErrFormat)
	}
	switch {
	case kind == "text/plain":
		return Text, nil
	case kind == "application/vnd.google.protobuf" && params["encoding"] == "delimited" &&
		params["proto"] == "io.prometheus.client.MetricFamily":
		return Protobuf, nil
	}
	return 0, fmt.Errorf("content type %.100q: %w", contentType, ErrFormat)
}

// Point is one sample of an exposition. A histogram is several points:
// NAME_bucket with the label le, NAME_sum and NAME_count; where it is a native
// one too, that is a point NAME.
type Point struct {
	Name   string
	Labels []record.Label // sorted by name
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

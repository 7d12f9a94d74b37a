// Package unit holds the quantities that files and reports speak in: durations
// and bytes, each with its text form. It does no arithmetic beyond that.
package unit

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Duration is a time.Duration whose text is Go's: "1m30s", "250ms".
type Duration time.Duration

// UnmarshalText parses Go's notation.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 250ms, 30s or 1m30s", text)
	}
	if v.Abs() > maxDuration {
		return fmt.Errorf("%q is longer than 10 years", text)
	}
	*d = Duration(v)
	return nil
}

// maxDuration keeps a time that is so much later, and sums of durations, within their type.
const maxDuration = 10 * 365 * 24 * time.Hour

// MarshalText writes Go's notation.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String writes Go's notation.
func (d Duration) String() string { return time.Duration(d).String() }

// maxBytes is 1 EiB.
const maxBytes = 1 << 60

// Bytes is a size; its text is Kubernetes' quantity: 512Mi, 4Gi, 1500M.
type Bytes uint64

// UnmarshalText parses a Kubernetes quantity.
func (b *Bytes) UnmarshalText(text []byte) error {
	q, err := resource.ParseQuantity(string(text))
	if err != nil || q.Sign() < 0 {
		return fmt.Errorf("%q is not a size such as 512Mi or 4Gi", text)
	}
	v := q.AsApproximateFloat64()
	if v > maxBytes { // Value has no place for much more, and says of 1e300 that it is anything
		return fmt.Errorf("%q is more than 1 EiB: no machine has that", text)
	}
	if v < 1e15 && v != math.Trunc(v) {
		return fmt.Errorf("%q is %s bytes: m means thousandths, Mi means mebibytes, as in 512Mi", text, strconv.FormatFloat(v, 'g', 6, 64))
	}
	*b = Bytes(q.Value())
	return nil
}

// Amount reads a Kubernetes quantity such as 500m or 2Gi as a number; what is
// none, which an API server would refuse, is 0.
func Amount(quantity string) float64 {
	q, err := resource.ParseQuantity(quantity)
	if err != nil {
		return 0
	}
	return q.AsApproximateFloat64()
}

// MarshalText writes a Kubernetes quantity with binary suffixes.
func (b Bytes) MarshalText() ([]byte, error) {
	return []byte(resource.NewQuantity(int64(b), resource.BinarySI).String()), nil
}

// Human writes a size for people with three significant digits: 1.10 GiB.
func (b Bytes) Human() string {
	v, suffix := float64(b), "B"
	for _, s := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if v < 1024 {
			break
		}
		v, suffix = v/1024, s
	}
	if suffix == "B" {
		return fmt.Sprintf("%d B", uint64(b))
	}
	return Number(v) + " " + suffix
}

// Seconds writes a duration for people with three significant digits in the
// unit that suits it: 812 µs, 4.31 ms, 18.2 s, 3m05s.
func Seconds(s float64) string {
	switch a := math.Abs(s); {
	case math.IsNaN(s):
		return "unknown"
	case a == 0:
		return "0 s"
	case a < 0.9995e-3:
		return fmt.Sprintf("%.3g µs", s*1e6)
	case a < 0.9995:
		return fmt.Sprintf("%.3g ms", s*1e3)
	case a < 99.95:
		return fmt.Sprintf("%.3g s", s)
	default:
		return time.Duration(s * float64(time.Second)).Round(time.Second).String()
	}
}

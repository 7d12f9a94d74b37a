package unit_test

import (
	"math"
	"testing"

	"github.com/windtunnel/windtunnel/internal/unit"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{0, "seconds", "0 s"},
		{0.00431, "s", "4.31 ms"},
		{185, "s", "3m5s"},
		{1 << 30, "bytes", "1 GiB"},
		{1023 << 20, "bytes", "1,023 MiB"},
		{1.1 * (1 << 30), "bytes", "1.1 GiB"},
		{98.7321, "1/s", "98.7/s"},
		{6.2249e9, "bit/s", "6.22 Gbit/s"},
		{999.4, "bit/s", "999 bit/s"},
		{999.6e3, "bit/s", "1 Mbit/s"},
		{227.4, "pods/s", "227 pods/s"},
		{1, "pods/s", "1 pods/s"},
		{1, "cores", "1 core"},
		{1.2, "cores", "1.2 cores"},
		{1, "watches", "1 watch"},
		{1, "entries", "1 entry"},
		{0.0412, "ratio", "4.12 %"},
		{3000, "", "3,000"},
		{1234567, "count", "1,234,567"},
		{-1234, "", "-1,234"},
		{1234.56, "", "1,235"},
		{999.4, "", "999"},
		{0.00001234, "", "1.23e-05"},
		{math.NaN(), "s", "unknown"},
		{math.Inf(1), "s", "∞ s"},
		{1.244, "cores", "1.24 cores"},
	} {
		if got := unit.Text(c.v, c.unit); got != c.want {
			t.Errorf("Text(%v, %q) = %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"0 pods": unit.Count(0, "pods"), "1 pod": unit.Count(1, "pods"), "3000 pods": unit.Count(3000, "pods"), "1 simulated node": unit.Count(1, "simulated nodes"),
		"1 series": unit.Count(1, "series"), "1 deployment.apps": unit.Count(int64(1), "deployments.apps"), "1 policy": unit.Count(1, "policies"), "1 class": unit.Count(1, "classes"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := unit.Verb(1, "is", "are") + unit.Verb(0, "is", "are"); got != "isare" {
		t.Error(got)
	}
}

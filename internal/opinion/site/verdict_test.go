package site

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
)

func keptVerdict(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "judge", "testdata", "format1", "density", "verdict.json"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// unmarshal is what package json reads.
func unmarshal(raw []byte) (v verdictFile, err error) { return v, json.Unmarshal(raw, &v) }

// TestScanVerdict reads what package json reads, and leaves to it what it does not know.
func TestScanVerdict(t *testing.T) {
	for _, c := range []struct {
		raw string
		ok  bool
	}{
		{string(keptVerdict(t)), true},
		{`{}`, true},
		{` { "verdict" : "pass" , "measures" : { } } `, true},
		{`{"objectives":[{"name":"a \"b\" {[","x":[1,[2,{}],{"y":"}"}]}],"verdict":"fail","failures":null,"measures":{"a":{"value":-1.5e3,"unit":"s","own":true,"better":"lower"},"b":{"value":0,"unit":""}},"last":true}`, true},
		{`{"verdict":"pa\u0073s","measures":{}}`, false},
		{`{"measures":{"a":{"value":1,"unit":"s","later":[1]}}}`, false},
		{`{"measures":{"a":{"value":null}}}`, false},
		{`{"measures":null}`, false},
		{`[]`, false},
		{`{"verdict":"pass"`, false},
		{`{"verdict":"pass"}}`, false},
		{`{"verdict":"pass",}`, false},
		{`{"x":[1,2}`, false},
		{`{"x"}`, false},
		{``, false},
	} {
		got, ok := scanVerdict([]byte(c.raw))
		if ok != c.ok {
			t.Errorf("%.80s: read: %t", c.raw, ok)
		}
		want, err := unmarshal([]byte(c.raw))
		if want.Measures == nil {
			want.Measures = map[string]slo.Measure{}
		}
		if ok && (err != nil || !reflect.DeepEqual(got, want)) {
			t.Errorf("%.80s: %+v, want %+v, %v", c.raw, got, want, err)
		}
	}
}

// FuzzScanVerdict holds the scanner against package json: of JSON it reads the same.
func FuzzScanVerdict(f *testing.F) {
	f.Add(keptVerdict(f))
	f.Add([]byte(`{"verdict":"pass","measures":{"a":{"value":1,"unit":"s"}},"x":[{"y":"\\\""}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, ok := scanVerdict(raw)
		if !ok || !json.Valid(raw) {
			return
		}
		want, err := unmarshal(raw)
		if want.Measures == nil {
			want.Measures = map[string]slo.Measure{}
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v, %v", got, want, err)
		}
	})
}

func BenchmarkVerdict(b *testing.B) {
	raw := keptVerdict(b)
	for name, read := range map[string]func([]byte) (verdictFile, error){"scanner": readVerdict, "json": unmarshal} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if v, err := read(raw); err != nil || len(v.Measures) == 0 {
					b.Fatal(err)
				}
			}
		})
	}
}

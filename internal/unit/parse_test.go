package unit

import (
	"fmt"
	"math"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text, of string
		want     float64
	}{
		{"0.5", "seconds", 0.5}, {"500ms", "seconds", 0.5}, {"1m30s", "seconds", 90}, {" 2s ", "s", 2}, {"1e3", "seconds", 1000},
		{"50/s", "1/s", 50}, {"3000/min", "1/s", 50}, {"1800 / h", "1/s", 0.5}, {"50/s", "pods/s", 50}, {"7", "requests/s", 7},
		{"512Mi", "bytes", 512 << 20}, {"4Gi", "bytes", 4 << 30}, {"1G", "bytes", 1e9}, {"512MiB", "bytes", 512 << 20}, {"10Mi/s", "bytes/s", 10 << 20},
		{"5%", "ratio", 0.05}, {"0.05", "ratio", 0.05}, {"5%", "percent", 5}, {"12.5", "percent", 12.5},
		{"500m", "cores", 0.5}, {"2", "cores", 2}, {"3", "items", 3}, {"-1", "", -1},
	} {
		if got, err := Parse(c.text, c.of); err != nil || math.Abs(got-c.want) > 1e-9*math.Abs(c.want) {
			t.Errorf("%q of %s: %v, %v, want %v", c.text, c.of, got, err, c.want)
		}
	}
}

func TestParseRefusesOtherDimensions(t *testing.T) {
	for _, c := range [][2]string{
		{"50/s", "seconds"}, {"512Mi", "seconds"}, {"5%", "seconds"}, {"500ms", "1/s"}, {"50/day", "1/s"}, {"/s", "1/s"}, {"500ms", "bytes"}, {"-1Gi", "bytes"},
		{"10Mi", "bytes/s"}, {"5", "x"}, {"5%", "items"}, {"500ms", ""}, {"500ms", "cores"}, {"2Gi", "cores"}, {"", "seconds"}, {"NaN", "seconds"}, {"Inf", "1/s"}, {"1m", "ratio"},
	} {
		if v, err := Parse(c[0], c[1]); err == nil && c[0] != "5" {
			t.Errorf("%q is %v %s", c[0], v, c[1])
		}
	}
}

func TestHasUnit(t *testing.T) {
	for text, want := range map[string]bool{"500ms": true, "50/s": true, "4Gi": true, "5%": true, "500m": true, "5": false, "1e3": false, "x": false, "": false, "5 pods": false} {
		if HasUnit(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func ExampleParse() {
	fmt.Println(Parse("500ms", "seconds"))
	fmt.Println(Parse("50/s", "seconds"))
	// Output:
	// 0.5 <nil>
	// 0 "50/s" is not a time such as 500ms, or a number of seconds
}

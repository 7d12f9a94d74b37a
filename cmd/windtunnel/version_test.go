package main

import (
	"regexp"
	"testing"
)

func TestIsRelease(t *testing.T) {
	for v, want := range map[string]bool{
		"v0.1.0": true, "v1.2.3-rc.1": true,
		"": false, "(devel)": false, "v0.0.0-20261127011245-450e6c20aaaa": false, "v0.1.1-0.20261127011245-450e6c20aaaa": false, "v0.1.0+dirty": false,
	} {
		if got := isRelease(v); got != want {
			t.Errorf("%q: %v", v, got)
		}
	}
}

// Two builds of one checkout compute different results: a bundle names the executable.
func TestBuildName(t *testing.T) {
	if got := buildName(); !regexp.MustCompile(`^` + regexp.QuoteMeta(version) + `\+[0-9a-f]{12}$`).MatchString(got) {
		t.Error(got)
	}
}

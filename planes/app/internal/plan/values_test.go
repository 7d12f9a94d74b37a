package plan

import (
	"strings"
	"testing"
)

// TestPaths holds where a value goes by its parameterKey.
func TestPaths(t *testing.T) {
	for _, tt := range []struct{ document, path, want, fails string }{
		{`{"a":1}`, "b", `{"a":1,"b":"v"}`, ""},
		{``, "a.b[0].c", `{"a":{"b":[{"c":"v"}]}}`, ""},
		{`{"a":[{"b":1}]}`, "a[0].b", `{"a":[{"b":"v"}]}`, ""},
		{`{"a":[1]}`, "a[1]", `{"a":[1,"v"]}`, ""},
		{`{}`, `a["b.c/d"].e`, `{"a":{"b.c/d":{"e":"v"}}}`, ""},
		{`{"a":[1]}`, "a[2]", "", "the list has 1"},
		{`{"a":1}`, "a.b", "", "no object"},
		{`{"a":{}}`, "a[0]", "", "no list"},
		{`{}`, "", "", "want a path"},
		{`{}`, "a..b", "", "want a path"},
		{`{}`, "a[x]", "", "want a path"},
		{`{}`, `a["b`, "", "want a path"},
	} {
		got, err := setPath([]byte(tt.document), tt.path, []byte(`"v"`))
		if string(got) != tt.want || (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%s of %s: %s, %v; want %s %s", tt.path, tt.document, got, err, tt.want, tt.fails)
		}
	}
}

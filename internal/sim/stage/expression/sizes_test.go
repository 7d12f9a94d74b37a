package expression_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/stage/expression"
)

// first returns what an expression finds first in an object.
func first(t *testing.T, src string) (string, bool) {
	t.Helper()
	q := repotest.Must(expression.Compile(src))(t)
	v, ok := q.First(object.Of(map[string]any{"a": "x", "n": 3.0, "l": []any{"p", "q"}}))
	return v.String(), ok
}

// TestExpressionsThatMakeMuchOfLittle end as failed, soon and with little memory.
func TestExpressionsThatMakeMuchOfLittle(t *testing.T) {
	for _, src := range []string{
		`reduce range(40) as $i ("x"; . + .)`,
		`reduce range(40) as $i ("x"; . += .)`,
		`reduce range(40) as $i (2; . * .)`,
		`reduce range(40) as $i (3; . *= .)`,
		`reduce range(40) as $i ([1]; . + .)`,
		`reduce range(60) as $i (1; [., .]) | tojson`,
		`reduce range(60) as $i (1; {a: ., b: .}) | . == .`,
		`reduce range(40) as $i ("x"; "\(.)\(.)")`,
		`reduce range(60) as $i ("\""; tojson)`,
		`reduce range(90) as $i ("x"; @base64)`,
		`reduce range(40) as $i ("x"; gsub("x"; "xx"))`,
		`reduce range(40) as $i (["x", "x"]; [join("x"), join("x")])`,
		`"x" * 2000000000`,
		`2000000000 * "x"`,
		`["x"] | .[0] *= 2000000000`,
		`[range(1000000) | "x" * 10000000]`,
		`.[500000000] = 1`,
		`[] | .[400000000] |= 1`,
		`[] | setpath([400000000]; 1)`,
		`fromstream(([[400000000], 1], [[400000000]]))`,
		`def f: tojson | f; "x" | f`,
		`[1] | map("x" * 20000000)`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begin := time.Now()
		if v, ok := first(t, src); ok {
			t.Errorf("%s gives %d bytes", src, len(v))
		}
		runtime.ReadMemStats(&after)
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 1500 {
			t.Errorf("%s: %d MiB allocated", src, mib)
		}
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("%s: %v", src, took)
		}
	}
}

// TestBoundedExpressionsMeanTheSame.
func TestBoundedExpressionsMeanTheSame(t *testing.T) {
	for src, want := range map[string]string{
		`.a + "y"`:                                    "xy",
		`.n * 2 | tostring`:                           "6",
		`"ab" * 2`:                                    "abab",
		`.n *= 2 | .n | tostring`:                     "6",
		`[.l[] + "z"] | join(",")`:                    "pz,qz",
		`.l | map(. + .) | add`:                       "ppqq",
		`.a | gsub("x"; "y")`:                         "y",
		`[.a, .n] | @json`:                            `["x",3]`,
		`.l[1:] | tojson`:                             `["q"]`,
		`.l[0] = "w" | .l | join("")`:                 "wq",
		`(.l | first) as $f | $f + "!"`:               "p!",
		`{a: (.a + "1")} | .a`:                        "x1",
		`def f(x): x + "f"; f(.a)`:                    "xf",
		`if .a + "" == "x" then "yes" else "no" end`:  "yes",
		`try error("e") catch (. + "!")`:              "e!",
		`[foreach .l[] as $x (""; . + $x; .)] | last`: "pq",
		`"\(.a)-\(.n)"`:                               "x-3",
		`. as {a: $v} | $v + $v`:                      "xx",
	} {
		if got, ok := first(t, src); !ok || got != want {
			t.Errorf("%s gives %q, %v, want %q", src, got, ok, want)
		}
	}
}

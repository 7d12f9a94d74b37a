package history_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/history"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestCSVRoundTrip writes a history as a table and reads it again: the same changes.
func TestCSVRoundTrip(t *testing.T) {
	s := newSource(1)
	f := file(t, append(s.runs(20, 1, "v1.36.0"), s.runs(12, 1.3, "v1.37.0")...)...)
	want := look(t, f, history.Options{})
	var table bytes.Buffer
	repotest.NoError(t, f.WriteCSV(&table, nil))
	again := &history.File{}
	repotest.NoError(t, again.AddCSV("made-up.csv", &table, nil))
	got := look(t, again, history.Options{})
	if got.Scenario != want.Scenario || len(got.Runs) != len(want.Runs) || len(got.Measures) != len(want.Measures) {
		t.Fatalf("%+v\n%+v", got, want)
	}
	for i, m := range want.Measures {
		a, b := fmt.Sprint(got.Measures[i].Key, got.Measures[i].Better, got.Measures[i].Values), fmt.Sprint(m.Key, m.Better, m.Values)
		if a != b || len(got.Measures[i].Changes) != len(m.Changes) {
			t.Errorf("%s, want %s", a, b)
		}
	}
	if c := got.Measures[0].Changes; len(c) != 1 || fmt.Sprint(c[0].Versions) != "[[kubernetes v1.36.0 v1.37.0]]" {
		t.Errorf("%+v", c)
	}
}

// TestCSVOfSomeMeasures: a table has the measures that were asked for, and no others.
func TestCSVOfSomeMeasures(t *testing.T) {
	f := file(t, newSource(1).runs(2, 1, "v1.36.0")...)
	r := look(t, f, history.Options{})
	if len(r.Measures) < 2 {
		t.Fatalf("%d measures", len(r.Measures))
	}
	var table bytes.Buffer
	repotest.NoError(t, f.WriteCSV(&table, []string{r.Measures[0].Key}))
	head, _, _ := strings.Cut(table.String(), "\n")
	if !strings.Contains(head, r.Measures[0].Key) || strings.Contains(head, r.Measures[1].Key) {
		t.Errorf("want %s and no %s in %q", r.Measures[0].Key, r.Measures[1].Key, head)
	}
}

// TestCSVOfOthers reads what other tools write.
func TestCSVOfOthers(t *testing.T) {
	const table = "time,commit,throughput,\"latency, ms\",1e3,empty\n" +
		"2026-01-01 10:00:00 +0100,aaa,100,5.5,1,\n" +
		"2026-01-01T09:00:01Z,bbb,101,,2,\n" +
		"1767258002,ccc,99,5.6,3,\n" +
		"2026-01-02,1234,99,5.6,4,\n"
	f := &history.File{}
	repotest.NoError(t, f.AddCSV("x/results.csv", strings.NewReader(table), []string{"through"}))
	if f.Scenario != "results" || len(f.Entries) != 4 {
		t.Fatalf("%+v", f)
	}
	for i, want := range []string{"09:00:00 aaa", "09:00:01 bbb", "09:00:02 ccc", "00:00:00 1234"} {
		e := f.Entries[i]
		if got := e.Started.Format("15:04:05") + " " + e.Versions["commit"]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	r := look(t, f, history.Options{})
	if len(r.Measures) != 2 || !strings.Contains(strings.Join(r.Warnings, " "), "Not measured in every run, and not looked at: latency, ms.") {
		t.Errorf("%+v", r)
	}
	for _, m := range r.Measures {
		if want := map[string]compare.Direction{"throughput": compare.Higher, "1e3": compare.Lower}[m.Key]; m.Better != want {
			t.Errorf("%s: %s is better, want %s", m.Key, m.Better, want)
		}
	}
}

func TestCSVRefused(t *testing.T) {
	for _, tt := range []struct{ table, want string }{
		{"", "no runs: want a head"},
		{"time,a\n", "no runs"},
		{"a,b\n1,2\n", `no column "time"; it has a, b`},
		{"time,a\n2026-01-01,x\n", "no column has only numbers"},
		{"time,a\n2026-01-01,NaN\n", "no column has only numbers"},
		{"time,a\n2026-01-01,1,2\n", "wrong number of fields"},
		{"time,a\n01/02/26,1\n", `row 2: time "01/02/26": want RFC 3339`},
		{"time,a\n-5,1\n", "row 2: time"},
		{"time,a\n0001-01-01,1\n", "row 2: time"},
		{"time,a\n2026-01-01,1\n2026-01-02,1\n2026-01-01,2\n", "rows 2 and 4 have the same time"},
		{"time,a,a\n2026-01-01,1,2\n", `two columns "a"`},
		{"time,branch,a\n2026-01-01,main,1\n2026-01-02,topic,2\n", `row 3 is of branch "topic"`},
		{"time,\"a\n", "extraneous or missing"},
		{"time" + strings.Repeat(",x", 2000) + "\n", "2001 columns"},
		{"time,a\n2026-01-01,1\n", `no column of numbers begins with "b"`},
	} {
		f := &history.File{}
		if err := f.AddCSV("x.csv", strings.NewReader(tt.table), []string{"b"}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40q: %v, want %q", tt.table, err, tt.want)
		}
		if len(f.Entries) > 0 {
			t.Errorf("%.40q: half a table was added", tt.table)
		}
	}
}

// FuzzCSV: what is read is finite, in order and without doubles, and can be written again.
func FuzzCSV(f *testing.F) {
	f.Add("time,a\n2026-01-01,1\n1767258002.5,2e300\n")
	f.Fuzz(func(t *testing.T, table string) {
		h := &history.File{}
		if h.AddCSV("x.csv", strings.NewReader(table), nil) != nil {
			return
		}
		for _, e := range h.Entries {
			for key, m := range e.Measures {
				if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
					t.Errorf("%q: %v", key, m.Value)
				}
			}
		}
		raw := repotest.Must(h.Encode())(t)
		if _, err := history.Decode("x", raw); err != nil {
			t.Error(err)
		}
	})
}

package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestRatiosAreAboveOneWhereOursIsBetter(t *testing.T) {
	got := ratiosOf(
		measures{"cpu_ms_per_pod": 1.2, "pods_running_per_second": 200, "rss_bytes_per_pod": -5, "leases_expired": 4, "live_bytes": 7},
		measures{"cpu_ms_per_pod": 0.3, "pods_running_per_second": 300, "rss_bytes_per_pod": 10, "leases_expired": 2})
	if len(got) != 2 || math.Abs(got["cpu_ms_per_pod"]-4) > 1e-9 || math.Abs(got["pods_running_per_second"]-1.5) > 1e-9 {
		t.Errorf("%v, want cpu_ms_per_pod 4 and pods_running_per_second 1.5 alone", got)
	}
}

func TestMedians(t *testing.T) {
	got := mediansOf([]measures{{"a": 3}, {"a": 1, "b": 9}, {"a": 2}})
	if got["a"] != 2 || got["b"] != 9 || len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// TestEveryMeasureHasARow keeps the phases and the table together.
func TestEveryMeasureHasARow(t *testing.T) {
	known := map[string]bool{}
	for _, row := range tableRows() {
		if known[row.key] {
			t.Errorf("%s stands twice", row.key)
		}
		known[row.key] = true
	}
	source := repotest.Must(os.ReadFile("phases.go"))(t)
	found := 0
	for _, part := range strings.Split(string(source), `f.out["`)[1:] {
		key, _, ok := strings.Cut(part, `"]`)
		if !ok {
			continue // a key that is put together
		}
		if found++; !known[key] {
			t.Errorf("%s has no row", key)
		}
	}
	if found < 20 {
		t.Errorf("only %d keys found", found)
	}
}

func TestLateness(t *testing.T) {
	s := time.Second
	late, expired := renewalLateness([]time.Duration{10 * s, 11 * s, 45 * s}, []time.Duration{3 * s, 41 * s, 12 * s}, 10*s, 40*s)
	if expired != 2 || len(late) != 5 || quantileOf(late, 1) != 35 || quantileOf(late, 0.5) != 2 {
		t.Errorf("%v, %d expired", late, expired)
	}
}

func TestLatenciesCountWhatNeverCame(t *testing.T) {
	sec := func(v float64) clock.Time { return clock.Time(v * float64(time.Second)) }
	got := phaseLatencies([]life{{bound: sec(1), running: sec(1.5)}, {bound: sec(2)}, {}}, sec(9), boundAt, runningAt)
	if len(got) != 2 || got[0] != 0.5 || got[1] != 7 {
		t.Errorf("%v, want 0.5 and 7", got)
	}
	if quantileOf(nil, 0.5) != 0 {
		t.Error("an empty sample has a quantile")
	}
}

func TestLiveBytes(t *testing.T) {
	profile := "heap profile: 1: 2 [3: 4] @ heap/5\n# runtime.MemStats\n# Alloc = 7\n# HeapAlloc = 1000\n# HeapInuse = 9\n# Stack = 24 / 48\n"
	if got := liveBytes(strings.NewReader(profile)); got != 1024 {
		t.Errorf("%v, want 1024", got)
	}
	if got := liveBytes(strings.NewReader("404 page not found")); got != 0 {
		t.Errorf("%v, want 0", got)
	}
}

func TestEngineMeasures(t *testing.T) {
	theirs := []figure{{"a", "s", 100, 1000, 2000}, {"b", "t", 300, 3000, 0}}
	general := []figure{{"a", "s", 50, 500, 900}, {"b", "t", 50, 500, 900}}
	kwok, ours, err := engineMeasures(theirs, general, []figure{{"b", "t", 10, 20, 30}})
	if err != nil || kwok["stage_ns_per_object"] != 300 || ours["stage_ns_per_object"] != 10 ||
		kwok["stage_general_ns_per_object"] != 200 || ours["stage_general_ns_per_object"] != 50 {
		t.Errorf("%v, %v, %v", kwok, ours, err)
	}
	general[1].Stage = "u"
	if _, _, err := engineMeasures(theirs, general, nil); err == nil || !strings.Contains(err.Error(), "b: our engine plays u") {
		t.Errorf("%v: want it to say that the engines do different things", err)
	}
}

func TestWrite(t *testing.T) {
	r := newReport(options{nodes: 10, lease: 40 * time.Second})
	r.addTurn(kwokName, measures{"cpu_ms_per_pod": 4})
	r.addTurn(ourName, measures{"cpu_ms_per_pod": 1})
	var table bytes.Buffer
	r.printTable(&table)
	if !strings.Contains(table.String(), "|    4.0000 ms |    1.0000 ms |   4.00 |") {
		t.Errorf("%s", &table)
	}
	path := filepath.Join(t.TempDir(), "out", "fleet.json")
	repotest.NoError(t, r.writeJSON(path))
	raw := repotest.Must(os.ReadFile(path))(t)
	var got struct {
		Machine struct{ Cores int }
		Sides   map[string]measures
		Ratios  measures
	}
	if err := json.Unmarshal(raw, &got); err != nil || got.Machine.Cores == 0 || got.Sides[kwokName]["cpu_ms_per_pod"] != 4 || got.Ratios["cpu_ms_per_pod"] != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

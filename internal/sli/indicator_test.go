package sli_test

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sli"
)

func TestPageIsUpToDate(t *testing.T) {
	const page = "../../docs/reference/slis.md"
	want := sli.Page()
	repotest.Golden(t, page, want)
}

func TestTable(t *testing.T) {
	name := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen, shown := map[string]bool{}, 0
	for _, x := range sli.All() {
		if seen[x.Name] || !name.MatchString(x.Name) {
			t.Errorf("%q stands twice or is no name", x.Name)
		}
		seen[x.Name] = true
		if x.Text == "" || x.Source == "" || x.Unit == "" || len(x.Statistics) == 0 {
			t.Errorf("%s is not complete: %+v", x.Name, x)
		}
		if (x.Family == "") != (x.Kind == sli.Records) || (x.PromQL(x.Statistics[0]) == "") != (x.Kind == sli.Records) {
			t.Errorf("%s: kind %d with family %q", x.Name, x.Kind, x.Family)
		}
		for _, label := range x.Per {
			if _, ok := x.Labels[label]; !ok {
				t.Errorf("%s is split by %q, which it does not have", x.Name, label)
			}
		}
		shown += len(x.Shown)
		for _, s := range x.Shown {
			if !slices.Contains(x.Statistics, s) {
				t.Errorf("%s shows %q, which it does not have", x.Name, s)
			}
		}
		if x.Calls && x.Labels != nil {
			if _, ok := x.Labels["group"]; ok {
				t.Errorf("%s: group is part of its resource", x.Name)
			}
		}
		x.Taker()(func(string) string { return "" }) // its patterns can be read
	}
	if shown > 52 { // each of them for every component
		t.Errorf("%d statistics are measures of every run: too many to read", shown)
	}
	if x, ok := sli.Find("etcd-fsync"); !ok || x.Unit != "seconds" {
		t.Errorf("etcd-fsync is %+v", x)
	}
	if _, ok := sli.Find("etcd"); ok {
		t.Error("half a name is found")
	}
}

func TestUnits(t *testing.T) {
	for _, tt := range []struct{ name, statistic, want string }{
		{"etcd-fsync", "p99", "seconds"},
		{"etcd-fsync", "rate", "1/s"},
		{"etcd-fsync", "sum", "seconds"},
		{"cpu", "rate", "cores"},
		{"cpu", "sum", "seconds"},
		{"cpu", "max", "cores"},
		{"workqueue-retries", "rate", "items/s"},
		{"workqueue-depth", "max", "items"},
		{"gc-pause", "rate", "1/s"},
		{"pods-bound-rate", "max", "1/s"},
	} {
		x, ok := sli.Find(tt.name)
		if got := x.UnitOf(tt.statistic); !ok || got != tt.want {
			t.Errorf("%s of %s is in %q, want %q", tt.statistic, tt.name, got, tt.want)
		}
	}
}

func TestPromQL(t *testing.T) {
	for _, tt := range []struct{ name, statistic, want string }{
		{"etcd-fsync", "p99.9", `histogram_quantile(0.999, sum by (le) (increase(etcd_disk_wal_fsync_duration_seconds_bucket[%v])))`},
		{"etcd-compaction", "max", `0.001 * histogram_quantile(1, sum by (le) (increase(etcd_debugging_mvcc_db_compaction_total_duration_milliseconds_bucket[%v])))`},
		{"etcd-fsync", "rate", `sum (rate(etcd_disk_wal_fsync_duration_seconds_count[%v]))`},
		{"workqueue-adds", "rate", `sum by (component) (rate(workqueue_adds_total[%v]))`},
		{"workqueue-adds", "p90", `quantile_over_time(0.90, (sum by (component) (rate(workqueue_adds_total[30s])))[%v:])`},
		{"scheduling-rate", "sum", `sum (increase(scheduler_schedule_attempts_total{result=~"scheduled"}[%v]))`},
		{"etcd-size", "max", `max_over_time((max (etcd_mvcc_db_total_size_in_bytes))[%v:])`},
		{"etcd-size", "mean", `avg_over_time((max (etcd_mvcc_db_total_size_in_bytes))[%v:])`},
		{"api-availability", "mean", `sum (increase(apiserver_request_total{code!~"5.."}[%v])) / sum (increase(apiserver_request_total[%v]))`},
		{"gc-pause", "mean", `sum by (component) (increase(go_gc_duration_seconds_sum[%v])) / sum by (component) (increase(go_gc_duration_seconds_count[%v]))`},
		{"call-latency", "p99", ""},
	} {
		x, _ := sli.Find(tt.name)
		if got := x.PromQL(tt.statistic); got != tt.want {
			t.Errorf("%s of %s:\n got %s\nwant %s", tt.statistic, tt.name, got, tt.want)
		}
	}
}

func ExampleFind() {
	x, _ := sli.Find("etcd-commit")
	fmt.Println(x.Text, "in", x.Unit)
	// Output: duration of a commit to etcd's database in seconds
}

func TestTaker(t *testing.T) {
	x, _ := sli.Find("api-availability")
	takes := x.Taker()
	for code, want := range map[string]bool{"200": true, "503": false, "504": false, "": true, "1503": true} {
		if got := takes(func(string) string { return code }); got != want {
			t.Errorf("code %q is taken: %v", code, got)
		}
	}
}

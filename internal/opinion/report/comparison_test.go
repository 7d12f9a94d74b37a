package report_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// arms invents variants with so many runs each; in the second one pods take
// longer and the scheduler costs more.
func arms(t testing.TB, variants, runs int, s reporttest.Shape) ([]content.Arm, [][]compare.Run) {
	t.Helper()
	var out []content.Arm
	var sides [][]compare.Run
	for v := range variants {
		arm := content.Arm{Name: string(rune('A'+v)) + s.Taint}
		var side []compare.Run
		for i := range runs {
			shape := s
			shape.Rate = 220 / (1 + 0.8*float64(v))
			d, m := invented(t, shape, v*runs+i)
			m.Parameters["rate"] = 100 + v
			noise := 1 + 0.01*float64(i%3)
			slower := (1 + 0.5*float64(v)) * noise
			j := reporttest.Judgement(shape, true)
			j.Measures["pod_startup_p99_seconds"] = slo.Measure{Value: 0.2 * slower, Unit: "seconds"}
			j.Measures["pods_running_per_second"] = slo.Measure{Value: 99 * noise, Unit: "pods/s"}
			r := content.Build(reporttest.Read(t, d, m), j, reporttest.Found(t, d))
			arm.Runs = append(arm.Runs, r)
			change := 0.4
			side = append(side, compare.Run{Name: string(d), Manifest: m, Judgement: j, Published: []scenario.Published{
				{Measure: "pod_startup_p99_seconds", Change: &change, Source: "An earlier report", Differences: "a larger machine", When: true, From: v == 0, To: v == 1},
			}, Facts: &compare.Facts{Ended: record.Event{Detail: record.Detail{Reason: record.Done}}, Counters: []compare.Count{
				{Name: "server: POST pods", Unit: "requests/pod", Value: float64(1 + v)},
				{Name: "etcd: get " + s.Taint, Unit: "requests/pod", Value: float64(1 + i)},
			}}})
		}
		out, sides = append(out, arm), append(sides, side)
	}
	return out, sides
}

func compared(t testing.TB, variants, runs int, s reporttest.Shape) report.Page {
	t.Helper()
	all, sides := arms(t, variants, runs, s)
	var pairs []*compare.Comparison
	for i := range sides[1:] {
		c, err := compare.Compare(sides[0], sides[i+1], compare.Options{NameA: all[0].Name, NameB: all[i+1].Name, Asked: []string{"parameter rate"}, FailAbove: 0.05})
		repotest.NoError(t, err)
		pairs = append(pairs, c)
	}
	return repotest.Must(report.Compare(all, pairs))(t)
}

func written(t testing.TB, p report.Page) string {
	t.Helper()
	var out bytes.Buffer
	repotest.NoError(t, p.HTML(&out))
	return out.String()
}

func TestComparisonPage(t *testing.T) {
	p := compared(t, 2, 5, reporttest.Shape{Pods: 300, Latency: 20})
	if p.Kind != "comparison" || p.State != "fail" {
		t.Errorf("kind %s, state %s", p.Kind, p.State)
	}
	page := written(t, p)
	for _, want := range []string{
		"1 measure is worse by more than 5 % in B.", "p99 pod startup is 50 % higher in B", "B against A", "parameter rate", "asked for", "100 → 101",
		"server: POST pods (requests/pod)", "×2", "The whole manifest of the first run of B", `class="forest"`,
		"Beside published figures", "&#43;50 % (", "&#43;40 %", "An earlier report", "a larger machine",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if len(page) > 3_000_000 {
		t.Errorf("the page of ten runs has %d bytes", len(page))
	}
	lines := map[string]int{}
	for _, c := range p.Data.Time {
		lines[c.ID] = len(c.Lines)
	}
	for _, id := range []string{"load-achieved--succeeded-", "latency-p99", "pods-running", "cpu-kube-scheduler", "memory-etcd", "queues-deployment", "startup-time-slowest--running"} {
		if lines[id] != 2 {
			t.Errorf("chart %s has %d lines, want one for each arm (charts: %v)", id, lines[id], lines)
		}
	}
	if n := len(p.Data.Startup); n != 16 {
		t.Errorf("%d distributions, want 4 phases of 2 groups in 2 arms", n)
	}
}

func TestComparisonOfThree(t *testing.T) {
	p := compared(t, 3, 4, reporttest.Shape{Pods: 100, Latency: 10})
	page := written(t, p)
	for _, want := range []string{"B against A", "C against A", "false alarm is about 2 times as likely"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if got := strings.Join(p.Data.Arms, " "); got != "A B C" {
		t.Errorf("arms %s", got)
	}
}

func TestHostileComparison(t *testing.T) {
	page := written(t, compared(t, 2, 2, reporttest.Shape{Pods: 50, Latency: 5, Taint: `</script><img src=x onerror=boo()>`, Faults: true}))
	if strings.Contains(page, "<img") || strings.Count(page, "</script") != 2 {
		t.Error("a name became markup")
	}
}

func TestComparisonNeedsArms(t *testing.T) {
	if _, err := report.Compare([]content.Arm{{Name: "A"}}, nil); !errors.Is(err, report.ErrNoArms) {
		t.Errorf("one arm: %v", err)
	}
	if _, err := report.Compare([]content.Arm{{Name: "A"}, {Name: "B"}}, []*compare.Comparison{{}}); !errors.Is(err, report.ErrNoArms) {
		t.Errorf("arms without runs: %v", err)
	}
}

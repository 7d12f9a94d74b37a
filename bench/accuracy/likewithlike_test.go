package accuracy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// small makes the density scenario last for seconds.
func small() map[string]string {
	return map[string]string{"nodes": "20", "podsPerNode": "10", "latencyPods": "100", "latencyRate": "25"}
}

// density flies the density scenario on a plane of its own, with the binary that
// `make build` left, and returns its verdict.
func density(t *testing.T, set map[string]string, out string, seed int) slo.Judgement {
	t.Helper()
	args := []string{"run", "../../examples/density.yaml", "--out", out, "--seed", strconv.Itoa(seed)}
	for name, value := range set {
		args = append(args, "--set", name+"="+value)
	}
	said, err := exec.CommandContext(t.Context(), repotest.Binary(t), args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 2) { // 1 and 2 are verdicts
		t.Fatalf("%v\n%s", err, said)
	}
	raw := repotest.Must(os.ReadFile(filepath.Join(out, record.VerdictFile)))(t)
	var j slo.Judgement
	repotest.NoError(t, json.Unmarshal(raw, &j))
	return j
}

// spread is what twenty runs of one and the same thing say of an indicator.
type spread struct {
	Key     string    `json:"key"`
	Unit    string    `json:"unit"`
	Values  []float64 `json:"values"`
	Median  float64   `json:"median"`
	Spread  float64   `json:"spread"`            // standard deviation of the logarithms: near the coefficient of variation
	Covered float64   `json:"covered,omitempty"` // share of the runs whose interval holds the median of all; 0: it has no interval
}

// TestLikeWithLike flies the small density scenario many times on fresh planes.
// The spread of each indicator is recorded in spread.json of the folder that
// WINDTUNNEL_SPREAD names, and held against what the intervals promise: within
// one run an interval of 95 % says where the run's own source lies, and calls
// that queue behind each other, and one run and the next, differ by more than
// that. The interval of the median over runs is what must hold, and does when
// halves of the runs, taken at random, do not differ.
func TestLikeWithLike(t *testing.T) {
	long(t)
	runs := 20
	if text := os.Getenv("WINDTUNNEL_RUNS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 4 {
			t.Fatalf("WINDTUNNEL_RUNS=%s is not a number from 4 on", text)
		}
		runs = n
	}
	folder := os.Getenv("WINDTUNNEL_SPREAD")
	if folder == "" {
		folder = t.TempDir()
	}
	var all []slo.Judgement
	for i := range runs {
		t.Run(fmt.Sprintf("run %d", i+1), func(t *testing.T) {
			all = append(all, density(t, small(), filepath.Join(folder, fmt.Sprintf("run-%02d", i+1)), i+1))
		})
		if t.Failed() {
			t.FailNow()
		}
	}
	found := append(ofMeasures(all), ofObjectives(all)...)
	raw := repotest.Must(json.MarshalIndent(found, "", "  "))(t)
	repotest.NoError(t, os.WriteFile(filepath.Join(folder, "spread.json"), append(raw, '\n'), 0o600))
	for _, s := range found {
		t.Logf("%-60s median %12.5g %-8s spread %5.1f %% covered %3.0f %%", s.Key, s.Median, s.Unit, 100*s.Spread, 100*s.Covered)
	}
	promised(t, found, runs)
}

// promised holds the interval of the median of each half of the runs against
// the median of the other half. Two intervals of 95 % that are of one source miss
// each other in about 1 of 170 cases: of many indicators a few may, not more
// than 1 in 20.
func promised(t *testing.T, found []spread, runs int) {
	t.Helper()
	tried, apart := 0, []string{}
	for _, s := range found {
		if len(s.Values) < runs || slices.Min(s.Values) == slices.Max(s.Values) {
			continue
		}
		var halves [2][]float64
		for i, v := range s.Values {
			halves[i%2] = append(halves[i%2], v)
		}
		a, b := stats.Median(halves[0]), stats.Median(halves[1])
		if !a.Bounded() || !b.Bounded() {
			continue
		}
		if tried++; a.Interval[1] < b.Interval[0] || b.Interval[1] < a.Interval[0] {
			apart = append(apart, s.Key)
		}
	}
	t.Logf("of %d indicators %d differ between odd and even runs: %s", tried, len(apart), strings.Join(apart, ", "))
	if runs >= 12 && tried == 0 {
		t.Error("no interval could be held against anything")
	}
	if float64(len(apart)) > math.Max(1, 0.05*float64(tried)) {
		t.Errorf("%d of %d indicators differ between runs of one and the same thing: %q", len(apart), tried, apart)
	}
}

// ofMeasures are the spreads of the measures that every run has.
func ofMeasures(all []slo.Judgement) (out []spread) {
	for key, m := range all[0].Measures {
		s := spread{Key: key, Unit: m.Unit}
		for _, j := range all {
			if v, ok := j.Measures[key]; ok {
				s.Values = append(s.Values, v.Value)
			}
		}
		if len(s.Values) == len(all) {
			out = append(out, s.summed())
		}
	}
	slices.SortFunc(out, func(a, b spread) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// ofObjectives are the spreads of the objectives that every run has, with how
// often a run's own interval holds what all runs together say.
func ofObjectives(all []slo.Judgement) (out []spread) {
	for _, one := range all[0].Objectives {
		key := fmt.Sprintf("objective %s %s %v", one.Name, one.Statistic, one.Labels)
		s := spread{Key: key, Unit: one.Unit}
		var intervals [][2]float64
		for _, j := range all {
			for _, r := range j.Objectives {
				if fmt.Sprintf("objective %s %s %v", r.Name, r.Statistic, r.Labels) == key && r.Value != nil {
					s.Values = append(s.Values, *r.Value)
					if r.Interval != nil && r.SLI != "server-latency" { // there it is a bucket
						intervals = append(intervals, *r.Interval)
					}
				}
			}
		}
		if len(s.Values) != len(all) {
			continue
		}
		s = s.summed()
		for _, i := range intervals {
			if i[0] <= s.Median && s.Median <= i[1] {
				s.Covered += 1 / float64(len(intervals))
			}
		}
		out = append(out, s)
	}
	return out
}

func (s spread) summed() spread {
	s.Median, s.Spread = stats.Median(s.Values).Value, stats.Spread(s.Values, nil)
	return s
}

// selfCost is the most that windtunnel itself, its fleet and its load among it,
// may take of the plane's CPU.
const selfCost = 0.05

// TestSelfCost flies the density scenario at a size at which the fixed cost of
// looking is not all there is.
func TestSelfCost(t *testing.T) {
	long(t)
	out := filepath.Join(t.TempDir(), "run")
	self := density(t, map[string]string{"nodes": "100", "podsPerNode": "20"}, out, 1).Self
	t.Logf("windtunnel used %.2f CPU seconds, %.1f %% of the plane's, and at most %.0f MB, %.1f %% of the plane's",
		self.CPUSeconds, 100*self.CPUShare, float64(self.MaxRSSBytes)/1e6, 100*self.MemoryShare)
	if self.CPUShare == 0 || self.CPUShare > selfCost {
		t.Errorf("a share of %.3f of the plane's CPU, at most %.2f may be", self.CPUShare, selfCost)
	}
	html := repotest.Must(os.ReadFile(filepath.Join(out, "report.html")))(t)
	if !regexp.MustCompile(`windtunnel itself took [^<]* of the plane[^<]{1,8}s CPU`).Match(html) {
		t.Error("the report does not say what windtunnel cost")
	}
}

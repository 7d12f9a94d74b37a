package compare

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// indicatorOf finds the indicator and the statistic that a measure's key is of, and
// what stands behind them: the component.
func indicatorOf(key string) (x sli.Indicator, statistic, rest string, ok bool) {
	longest := 0
	for _, one := range shown() {
		tail, found := strings.CutPrefix(key, one.begin)
		if found && len(one.begin) > longest && (tail == "" || tail[0] == '_') {
			x, statistic, rest, ok, longest = one.indicator, one.statistic, strings.TrimPrefix(tail, "_"), true, len(one.begin)
		}
	}
	return x, statistic, rest, ok
}

// shownKey is what the keys of one statistic of an indicator begin with.
type shownKey struct {
	begin, statistic string
	indicator        sli.Indicator
}

// shown are those of all indicators, which a comparison asks for thousands of times.
var shown = sync.OnceValue(func() (out []shownKey) {
	for _, one := range sli.All() {
		for _, s := range one.Shown {
			out = append(out, shownKey{slo.IndicatorKey(one, s), s, one})
		}
	}
	return out
})

// besidesTitle names a measure that is not judged: "p99 apf wait", "max workqueue
// depth (kube-controller-manager)".
func besidesTitle(key string) string {
	if of, service := strings.CutPrefix(key, "service_latency_"); service {
		quantile, step, _ := strings.Cut(of, "_seconds_")
		return quantile + " service latency (" + step + ")"
	}
	x, statistic, rest, ok := indicatorOf(key)
	if !ok {
		return keyWords(key)
	}
	out := strings.ReplaceAll(x.Name, "-", " ")
	if !strings.HasSuffix(out, " "+statistic) { // not "rate scheduling rate"
		out = statistic + " " + out
	}
	if rest != "" {
		out += " (" + strings.ReplaceAll(rest, "_", "-") + ")"
	}
	return out
}

// burdenIndicators returns indicators, not of time, of which less is better.
func burdenIndicators() []string {
	return []string{"apf-queued", "apf-rejected", "webhook-rejections", "pods-pending", "watchers-ended", "workqueue-depth", "workqueue-retries",
		"reconcile-errors", "etcd-size", "etcd-size-in-use", "etcd-leader-changes", "etcd-slow-applies", "etcd-proposals-pending",
		"go-alloc", "go-sys", "resident-memory", "cpu", "cpu-throttled"}
}

// besidesOf says which way of a measure that is not judged is the better one, where
// anybody can say: less waiting, more success, more pods placed. How many requests there are is
// neither good nor bad, nor is what windtunnel itself took.
func besidesOf(key string) family {
	f := family{prefix: key}
	x, statistic, _, ok := indicatorOf(key)
	switch {
	case strings.HasSuffix(key, instrument):
	case key == "call_success_mean", ok && x.Kind == sli.Share, ok && x.Name == "scheduling-rate":
		f.better = Higher
	case strings.HasPrefix(key, "service_latency_"), key == "calls_failed", key == "calls_unknown":
		f.better = Lower
	case ok && (slices.Contains(burdenIndicators(), x.Name) || x.Unit == "seconds" && statistic != "rate"):
		f.better = Lower
	}
	return f
}

// counterValues returns the values of a counter that not every run has: a run that was
// scraped and lacks it counted nothing. False where that is not known.
func (c *comparing) counterValues(key string) (all []float64, ok bool) {
	if x, _, _, found := indicatorOf(key); !found || x.Kind != sli.Counter {
		return nil, false
	}
	for _, r := range c.runs {
		m, here := r.Judgement.Measures[key]
		if !here && !wasScraped(r) {
			return nil, false
		}
		all = append(all, m.Value)
	}
	return all, true
}

// wasScraped says whether a run has any count of a component.
func wasScraped(r Run) bool {
	for key := range r.Judgement.Measures {
		if x, _, _, ok := indicatorOf(key); ok && x.Kind == sli.Counter {
			return true
		}
	}
	return false
}

// absent is a measure that not every run has.
type absent struct {
	title  string
	only   string // the side that alone has it, in all of its runs; empty: neither
	values []float64
	unit   string
}

func (c *comparing) absentFrom(key, title string) absent {
	out := absent{title: title}
	var have [2]int
	for i, r := range c.runs {
		if m, ok := r.Judgement.Measures[key]; ok {
			side := 0
			if i >= c.a {
				side = 1
			}
			have[side]++
			out.values, out.unit = append(out.values, m.Value), m.Unit
		}
	}
	switch {
	case have[0] == c.a && have[1] == 0:
		out.only = c.o.NameA
	case have[1] == len(c.runs)-c.a && have[0] == 0:
		out.only = c.o.NameB
	}
	return out
}

// namedAbsent is how many measures that are not in every run are named.
const namedAbsent = 3

// warnAbsent says what was not measured everywhere: what one side alone has, with
// its values, and how many others.
func (c *comparing) warnAbsent(all []absent) {
	for _, side := range []string{c.o.NameA, c.o.NameB} {
		var parts []string
		for _, m := range all {
			if m.only == side {
				parts = append(parts, m.title+" "+unit.Text(slices.Max(m.values), m.unit))
			}
		}
		if len(parts) > 0 {
			c.addWarning("Measured in %s only, and not compared (the most in any run): %s.", side, firstNames(parts))
		}
	}
	var parts []string
	for _, m := range all {
		if m.only == "" {
			parts = append(parts, m.title)
		}
	}
	if len(parts) > 0 {
		c.addWarning("Measured in some runs only, and not compared: %s.", firstNames(parts))
	}
}

func firstNames(parts []string) string {
	if left := len(parts) - namedAbsent; left > 0 {
		return strings.Join(parts[:namedAbsent], ", ") + fmt.Sprintf(" and %d more", left)
	}
	return strings.Join(parts, ", ")
}

// Named says whether one of some patterns is about a measure: its key, or its title, holds the
// pattern, whose letters may be large or small and whose spaces, - and _ are the same. With
// a * the pattern is of the whole key or title. A former word of a key is one of today's.
func Named(patterns []string, key, title string) bool {
	plain := func(s string) string { return strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(s)) }
	for _, p := range patterns {
		for _, p := range []string{plain(p), slo.CurrentKey(plain(p))} {
			for _, name := range []string{key, plain(title)} {
				whole, err := path.Match(p, name)
				if whole || err != nil && strings.Contains(name, p) || !strings.ContainsAny(p, "*?[") && strings.Contains(name, p) {
					return true
				}
			}
		}
	}
	return false
}

// isWanted says whether the options ask for a measure.
func (c *comparing) isWanted(key, title string) bool {
	return len(c.o.Only) == 0 || Named(c.o.Only, key, title)
}

// checkNames refuses a pattern that is about nothing that any run has.
func (c *comparing) checkNames() error {
	var names []string
	for _, r := range c.runs {
		for key, m := range r.Judgement.Measures {
			names = append(names, key, measureTitle(key, m))
		}
		for _, o := range r.Judgement.Objectives {
			names = append(names, objectiveKey(o), slo.Title(o))
		}
		if r.Facts != nil {
			for _, n := range r.Facts.Counters {
				names = append(names, n.Name)
			}
		}
	}
	for _, name := range slices.Clone(names) { // a slip is in a word of them
		names = append(names, strings.FieldsFunc(name, func(c rune) bool { return strings.ContainsRune(" _-():", c) })...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, p := range c.o.Only {
		if slices.ContainsFunc(names, func(name string) bool { return Named([]string{p}, name, name) }) {
			continue
		}
		return fmt.Errorf("--measure %s: %w: no measure, indicator, query, objective or counter of these runs is named so%s", p, ErrRefused, text.DidYouMean(p, names))
	}
	return nil
}

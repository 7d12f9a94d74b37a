package app_test

import (
	"context"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
)

// bounds are at least and at most so many.
type bounds struct{ low, high int }

func (b bounds) times(n bounds) bounds { return bounds{b.low * n.low, b.high * n.high} }
func (b bounds) plus(o bounds) bounds  { return bounds{b.low + o.low, b.high + o.high} }

// countedCase is one case of testdata/counted.table.
type countedCase struct {
	settled bounds
	sum     int
	before  []string
	calls   map[string][4]bounds // once, and for each waiting, settled, sweeping pass
}

// countedCases reads the table of what was counted on the real program.
func countedCases(t testing.TB) map[string]*countedCase {
	t.Helper()
	raw := repotest.Must(os.ReadFile("testdata/counted.table"))(t)
	number := func(text string) bounds {
		low, high, isRange := strings.Cut(text, "..")
		a, err := strconv.Atoi(low)
		b := a
		if isRange && err == nil {
			b, err = strconv.Atoi(high)
		}
		if err != nil {
			t.Fatalf("counted.table: %q: %v", text, err)
		}
		return bounds{a, b}
	}
	out := map[string]*countedCase{}
	var now *countedCase
	for _, line := range strings.Split(string(raw), "\n") {
		if name, ok := strings.CutPrefix(line, "case "); ok {
			parts := strings.Split(name, "; ")
			now = &countedCase{calls: map[string][4]bounds{}}
			out[parts[0]] = now
			for _, p := range parts[1:] {
				switch what, value, _ := strings.Cut(p, " "); what {
				case "settled":
					now.settled = number(value)
				case "sum":
					now.sum = number(value).low
				}
			}
		} else if calls, ok := strings.CutPrefix(line, "before: "); ok {
			now.before = strings.Split(calls, ", ")
		} else if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			n := slices.IndexFunc(fields, func(f string) bool { return strings.Trim(f, "-.0123456789") == "" })
			var all [4]bounds
			for i, f := range fields[n:] {
				all[i] = number(f)
			}
			now.calls[strings.Join(fields[:n], " ")] = all
		}
	}
	return out
}

// sumOf adds up how often calls were made.
func sumOf(calls map[string]int) (n int) {
	for _, count := range calls {
		n += count
	}
	return n
}

// check holds calls to a case, by call, and their first times to the order of it. How many passes
// waited is what the PATCHes of the status say, how many were settled those of Secrets.
func (c *countedCase) check(t testing.TB, name string, made []string) {
	t.Helper()
	got := map[string]int{}
	for _, call := range made {
		got[call]++
	}
	settled, secrets := 0, c.calls["PATCH secrets"]
	if n := secrets[2].low; n > 0 {
		settled = (got["PATCH secrets"] - secrets[0].low) / n
	}
	status := c.calls["PATCH applications/status"]
	waiting := got["PATCH applications/status"] - status[0].low - settled*status[2].low
	if waiting < 0 || settled < c.settled.low || settled > c.settled.high {
		t.Errorf("%s: %d settled and %d waiting passes, want %v and at least 0: %v", name, settled, waiting, c.settled, got)
		return
	}
	passes := [4]bounds{{1, 1}, {waiting, waiting}, {settled, settled}, {2, max(2, settled)}}
	for _, call := range slices.Sorted(maps.Keys(union(got, nil))) {
		if _, ok := c.calls[call]; !ok {
			t.Errorf("%s: %d %s, want none", name, got[call], call)
		}
	}
	for call, each := range c.calls {
		var want bounds
		for i, n := range passes {
			want = want.plus(each[i].times(n))
		}
		if n := got[call]; call != "events" && (n < want.low || n > want.high) {
			t.Errorf("%s: %d %s, want %d to %d (%d waiting, %d settled)", name, n, call, want.low, want.high, waiting, settled)
		}
	}
	if waiting == 0 && settled == c.settled.low && c.sum > 0 && sumOf(got) != c.sum {
		t.Errorf("%s: %d requests, want %d", name, sumOf(got), c.sum)
	}
	for i := 1; i < len(c.before); i++ {
		if slices.Index(made, c.before[i-1]) > slices.Index(made, c.before[i]) {
			t.Errorf("%s: %s comes before %s", name, c.before[i], c.before[i-1])
		}
	}
}

// TestCounted holds the profiles to the requests that were counted on the releases that they
// stand for, call by call.
func TestCounted(t *testing.T) {
	t.Parallel()
	cases := countedCases(t)
	for release, profile := range map[string]string{"v1.8.0": "v18", "v1.7.5": "v175"} {
		r, _ := hollowRig(t)
		c := r.runAs(profile, func(*controller.Options) {})
		holds := func(action, template string) {
			t.Helper()
			name := release + " " + action + " " + template
			want := cases[name]
			if want == nil {
				c.sent()
				return
			}
			want.check(t, name, c.sentInOrder())
		}
		for _, template := range []string{"light", "heavy"} {
			r.create(template, template)
			r.becomes(template, api.Running)
			holds("publish", template)
			before := c.passes()
			c.touch(template)
			c.passesMore(before, 1)
			holds("stable", template)
			r.update(template, template, 2)
			r.becomes(template, api.Running)
			r.remains(template, left{configMaps: map[string]int{"light": 1, "heavy": 4}[template], secrets: map[string]int{"light": 1, "heavy": 3}[template], revisions: 2, trackers: 1})
			holds("update", template)
			r.delete(template)
			holds("delete", template)
		}
		c.stop()
	}
}

// TestCountedEvents holds the events of a publication and of a stable pass to those that were
// counted: five a pass, whose writes are in no other count.
func TestCountedEvents(t *testing.T) {
	t.Parallel()
	r, _ := hollowRig(t)
	c := r.run(func(o *controller.Options) { o.Events = true })
	events := func(calls map[string]int) int { return calls["POST events"] + calls["PATCH events"] }
	wait := func(what string, want func(map[string]int) int) {
		t.Helper()
		got := c.sent()
		repotest.Eventually(t, what, func() bool {
			for call, n := range c.calls.Take() {
				got[call] += n
			}
			return events(got) >= want(got)
		})
		repotest.Equal(t, events(got), want(got), "%s: events", what)
	}
	of := countedCases(t)["v1.8.0 publish light"].calls["events"]
	r.create("a", "light")
	r.becomes("a", api.Running)
	wait("events of a publication", func(got map[string]int) int {
		return of[0].low + of[1].low*(got["PATCH applications/status"]-2) + of[2].low*2
	})
	before := c.passes()
	c.touch("a")
	c.passesMore(before, 1)
	wait("events of a stable pass", func(map[string]int) int { return of[2].low })
}

// TestImprovedRests holds that improved sends nothing in a pass over a stable application.
func TestImprovedRests(t *testing.T) {
	t.Parallel()
	r, _ := hollowRig(t)
	c := r.runAs("improved", func(*controller.Options) {})
	for _, template := range []string{"light", "heavy"} {
		r.create(template, template)
		r.becomes(template, api.Running)
		c.rests(template)
	}
}

// publishing returns the calls of a light publication by v1.8.0, with as many waiting passes as
// there were.
func publishing(t testing.TB, got map[string]int) map[string]int {
	t.Helper()
	c := countedCases(t)["v1.8.0 publish light"]
	waiting, out := got["PATCH applications/status"]-2, map[string]int{}
	for call, each := range c.calls {
		if n := each[0].low + waiting*each[1].low + 2*each[2].low; call != "events" && n > 0 {
			out[call] = n
		}
	}
	return out
}

// stable checks what one pass over a published application takes.
func stable(c *running, what, name string, want map[string]int) {
	c.t.Helper()
	before := c.passes()
	c.touch(name)
	c.passesMore(before, 1)
	counts(c.t, what, c.sent(), want)
}

// rests waits until a pass over an application sends nothing.
func (r *running) rests(name string) {
	r.t.Helper()
	repotest.Eventually(r.t, "a pass over "+name+" sends nothing", func() bool {
		r.sent()
		before := r.passes()
		r.touch(name)
		r.passesMore(before, 1)
		return len(r.sent()) == 0
	})
}

// TestLimiterCarries holds how many stable passes of a light application a limit carries: with a
// bucket for each kind those of the kind with the most calls, three, and with one for all those
// of all calls. Counted side by side at the same limit were 6.64 and 2.84 passes/s.
func TestLimiterCarries(t *testing.T) {
	for _, tt := range []struct {
		release  string
		limit    limiter.Rate
		newOne   func(limiter.Rate) *limiter.Reloadable
		min, max float64 // passes/s
	}{
		{"v1.8.0", limiter.Rate{QPS: 20, Burst: 1}, limiter.NewNamed, 6.6, 6.7},
		{"v1.8.0", limiter.Rate{QPS: 20, Burst: 1}, limiter.New, 2.8, 2.9},
		{"v1.7.5", limiter.Rate{QPS: 100, Burst: 1}, limiter.NewNamed, 33, 34},
		{"v1.7.5", limiter.Rate{QPS: 100, Burst: 1}, limiter.New, 8.3, 8.4},
		{"v1.8.0", limiter.Rate{QPS: 400, Burst: 1}, limiter.NewNamed, 133, 134},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, calls, passes := tt.newOne(tt.limit), countedCases(t)[tt.release+" stable light"].calls, atomic.Int64{}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var workers sync.WaitGroup
			for range 16 { // enough to wait for every bucket at the same time
				workers.Go(func() {
					for ctx.Err() == nil {
						for call, n := range calls {
							for range n[2].low {
								if call != "events" && l.Of(strings.Fields(call)[1]).Wait(ctx) != nil {
									return
								}
							}
						}
						passes.Add(1)
					}
				})
			}
			workers.Wait()
			if rate := float64(passes.Load()) / 60; rate < tt.min-0.3 || rate > tt.max+0.3 {
				t.Errorf("%s at %v: %.2f passes/s, want %g to %g", tt.release, tt.limit, rate, tt.min, tt.max)
			}
		})
	}
}

package steps

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/share"
	"github.com/windtunnel/windtunnel/scenario"
)

// pretended sends nothing: it lists the calls of a plan, and has some of them fail.
type pretended struct{ calls []string }

// send lists the calls of a share, as they are due, and tells the plan how they ended.
func (p *pretended) send(part Part, plan load.Plan) error {
	asked, err := plan.Asked()
	if err != nil {
		return err
	}
	for i := plan.Share.Index; i < asked.Count; i += max(1, plan.Share.Of) {
		req := load.Request{}
		req.Discard = true
		wanted, err := plan.Build(i, &req)
		if err != nil {
			return err
		}
		if !wanted {
			p.calls = append(p.calls, fmt.Sprintf("%s %06d left out", part, i))
			continue
		}
		p.calls = append(p.calls, fmt.Sprintf("%s %06d %v %s %s %x", part, i, plan.Pace.Due(i), req.Method, req.Path, sum(req.Body)))
		result := load.Result{Index: i, Op: req.Op, Outcome: record.OK, Last: true, Response: &wire.Response{Code: 201}}
		if sum([]byte(fmt.Sprint(part, i)))%11 == 0 {
			result.Outcome, result.Response = record.Failed, &wire.Response{Code: 500, Err: os.ErrInvalid}
		}
		if plan.Done != nil {
			plan.Done(result)
		}
	}
	return nil
}

func sum(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}

// alone is one sender, who takes the plans as they come.
type alone struct{ pretended }

func (a *alone) Send(_ context.Context, part Part, _ inventory.Changes, plan load.Plan) ([]inventory.Changes, error) {
	return nil, a.send(part, plan)
}

// several are workers with a session of their own each.
type several struct {
	sessions []*Session
	sent     []pretended
}

func (x *several) Send(ctx context.Context, part Part, known inventory.Changes, _ load.Plan) ([]inventory.Changes, error) {
	var out []inventory.Changes
	for i, s := range x.sessions {
		s.Created.Apply(known)
		plan, err := s.PlanPart(ctx, part)
		if err != nil {
			return nil, err
		}
		_ = s.Created.TakeChanges()
		plan.Share = share.Share{Index: i, Of: len(x.sessions)}
		if err := x.sent[i].send(part, plan); err != nil {
			return nil, err
		}
		out = append(out, s.Created.TakeChanges())
	}
	return out, nil
}

// newPretended returns a session that sends nothing.
func newPretended(t *testing.T, generator *load.Generator, client *wire.Client, text string) *Session {
	t.Helper()
	file := filepath.Join(t.TempDir(), "s.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	sc, err := scenario.Load(file, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	w := repotest.Must(Compile(sc, file, object.Stamp{}))(t)
	log := slog.New(slog.DiscardHandler)
	out := &Session{Workload: w, Created: NewCreated(), Load: generator, Client: client, Clock: clock.Start(), Log: log, Injected: &Injected{Log: log}}
	out.Created.TrackChanges()
	return out
}

// randomPace is a pace of any kind that has an end with a count.
func randomPace(r *rand.Rand) string {
	return []string{
		"{constant: 50}", "{constant: 20, jitter: 0.5}", "{poisson: 30}", "{burst: true}", "{within: 10s}", "{within: 10s, random: true}",
		"{ramp: {from: 1, to: 40, over: 20s}}", "{closed: 9}",
	}[r.IntN(8)]
}

// randomScenario is one of create steps and of steps about what they make.
func randomScenario(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString(head(1 + r.IntN(3)))
	step := func(format string, args ...any) { fmt.Fprintf(&b, "- "+format+"\n", args...) }
	perNamespace := r.IntN(3) == 0
	switch {
	case perNamespace:
		step("{name: a, create: {body: map, perNamespace: %d, pace: %s}}", 5+r.IntN(20), randomPace(r))
	case r.IntN(2) == 0:
		step("{name: a, create: {count: %d, objects: [{body: map, name: x, replicas: %d}, {body: own, every: %d}], pace: %s}}", 10+r.IntN(40), 1+r.IntN(3), 1+r.IntN(3), randomPace(r))
	default:
		step("{name: a, create: {body: map, count: %d, pace: %s}}", 10+r.IntN(60), randomPace(r))
	}
	z := 10 + r.IntN(60) // how many there are
	step("{name: z, create: {body: map, count: %d, pace: %s}}", z, randomPace(r))
	for n := range 3 + r.IntN(6) {
		switch r.IntN(6) {
		case 0:
			z = 5 + r.IntN(80)
			step("{name: scale-%d, scale: {step: z, to: %d, pace: %s}}", n, z, randomPace(r))
		case 1:
			step("{name: update-%d, update: {step: z, body: patch, with: {e: x}, pace: %s}}", n, randomPace(r))
		case 2:
			step("{name: churn-%d, churn: {step: a, percent: %d, perObject: %t, cycles: %d, pace: %s}}", n, 10+r.IntN(90), r.IntN(2) == 0, 1+r.IntN(3), randomPace(r))
		case 3:
			step("{name: mix-%d, requests: {count: %d, pace: %s, mix: [{verb: get, of: z, pick: random, weight: 2}, {verb: patch, of: z, body: patch, with: {e: y}}, {verb: create, body: map, name: m%d}, {verb: list, of: z, limit: 10}]}}",
				n, 20+r.IntN(100), randomPace(r), n)
		case 4:
			step("{name: put-%d, update: {step: z, method: put, first: %d, pace: %s}}", n, 1+r.IntN(z), randomPace(r))
		default:
			step("{name: timed-%d, requests: {for: 3s, pace: {poisson: 40}, mix: [{verb: get, of: z}]}}", n)
		}
	}
	step("{name: gone, delete: {step: z, pace: %s}}", randomPace(r))
	step("{name: again, update: {step: a, object: map, body: patch, with: {e: x}, pace: {burst: true}}}")
	return b.String()
}

// Whatever a scenario does, the calls of its workers together are those of one
// sender: the same numbers, due times, verbs, paths and bodies, and the same are
// left out.
func TestCallsOfWorkersAreThoseOfOne(t *testing.T) {
	bench := newBench(t, head(1)+"- {pause: 1ms}\n")
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 22))
		text := randomScenario(r)
		one := newPretended(t, bench.Load, bench.Client, text)
		single := &alone{}
		one.Workers, one.Tracker = single, bench.Tracker
		alone := Run(t.Context(), one) // where chance has all objects of a step fail, later steps are not done
		leader, followers := newPretended(t, bench.Load, bench.Client, text), &several{}
		leader.Workers, leader.Tracker = followers, bench.Tracker
		n := 1 + r.IntN(7)
		for range n {
			followers.sessions = append(followers.sessions, newPretended(t, bench.Load, bench.Client, text))
		}
		followers.sent = make([]pretended, n)
		if err := leader.Workload.CheckSharable(n); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		if err := Run(t.Context(), leader); fmt.Sprint(err) != fmt.Sprint(alone) {
			t.Fatalf("seed %d: %v, of one sender %v\n%s", seed, err, alone, text)
		}
		var union []string
		for i := range followers.sent {
			union = append(union, followers.sent[i].calls...)
		}
		slices.Sort(union)
		slices.Sort(single.calls)
		if len(union) == 0 || !slices.Equal(union, single.calls) {
			t.Fatalf("seed %d, %d workers: %d calls, of one sender %d; %s\n%s", seed, n, len(union), len(single.calls), firstDifference(union, single.calls), text)
		}
	}
}

func firstDifference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%q and %q", a[i], b[i])
		}
	}
	return "one is longer"
}

func TestWhatCannotBeSharedIsSaidBefore(t *testing.T) {
	const made = "- {name: a, create: {body: map, count: 20, pace: {burst: true}}}\n"
	for _, tt := range []struct{ name, steps, want string }{
		{"a pool", "- {name: p, requests: {count: 99, pace: {closed: 3}, mix: [{verb: get, of: a}]}}", "3 calls at a time: fewer than 4 workers; use --workers 3"},
		{"a mix that deletes", "- {name: p, requests: {count: 9, pace: {burst: true}, mix: [{verb: delete, of: a}]}}", "use a delete step"},
		{"namespaces that churn", "- {name: n, create: {body: space, count: 4, pace: {burst: true}}}\n- {name: p, churn: {step: a, namespaces: n, percent: 50, cycles: 1, pace: {burst: true}}}", "churn the objects"},
		{"branches", "- {name: p, parallel: [{delete: {step: a, pace: {burst: true}}}, {update: {step: a, pace: {burst: true}}}]}", "put these branches one after another"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newPretended(t, nil, nil, head(1)+made+tt.steps+"\n")
			if err := s.Workload.CheckSharable(4); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "cannot be shared") {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	s := newPretended(t, nil, nil, head(1)+made)
	if err := s.Workload.CheckSharable(21); err == nil || !strings.Contains(err.Error(), "use --workers 20 or fewer") {
		t.Errorf("21 workers for 20 calls: %v", err)
	}
	if err := s.Workload.CheckSharable(20); err != nil {
		t.Errorf("20 workers for 20 calls: %v", err)
	}
}

// TestPathsToWorkersAreChecked holds that who is to answer has to be there, and that who
// answers is not for nothing.
func TestPathsToWorkersAreChecked(t *testing.T) {
	s := newPretended(t, nil, nil, head(1)+"- {name: link, network: {to: {worker: 2}, echo: {}}}\n")
	if err := s.Workload.CheckAnswers(2); err == nil || !strings.Contains(err.Error(), `step "link": network.to.worker: 2 is not among 2 workers; run it with --workers 3 or more`) {
		t.Errorf("two workers: %v", err)
	}
	if err := errors.Join(s.Workload.CheckAnswers(3), s.Workload.CheckSharable(3)); err != nil {
		t.Errorf("three workers: %v", err)
	}
	if err := s.Workload.CheckSharable(4); err == nil || !strings.Contains(err.Error(), "use --workers 3 or fewer") {
		t.Errorf("four workers: %v", err)
	}
}

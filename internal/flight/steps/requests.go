package steps

import (
	"context"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// Requests sends any calls, in a weighted mix.
type Requests struct {
	Step string
	Spec *scenario.Requests
}

// Do sends them.
func (x Requests) Do(ctx context.Context, s *Session) error {
	p, err := x.plan(ctx, s)
	if err != nil {
		return err
	}
	return s.send(ctx, p)
}

// plan is what the step sends.
func (x Requests) plan(ctx context.Context, s *Session) (load.Plan, error) {
	var kinds []*mixed
	var ops []record.Op
	var weights []float64
	for i := range x.Spec.Mix {
		k, err := s.newMixed(ctx, x.Step, &x.Spec.Mix[i])
		if err != nil {
			return load.Plan{}, err
		}
		k.op, k.seed, k.rounds = len(ops), s.Workload.seed(fmt.Sprint(x.Step, i)), x.Spec.Rounds > 0
		ops = append(ops, k.form.Op(x.Step))
		if k.get != nil {
			ops = append(ops, k.get.Op(x.Step))
		}
		kinds, weights = append(kinds, k), append(weights, x.Spec.Mix[i].Weight)
	}
	choose := chooser(kinds, load.NewMix(weights, s.Workload.seed(x.Step)), x.Spec.Rounds > 0)
	p := load.Plan{Step: x.Step, Ops: ops, Count: x.Spec.Count, For: time.Duration(x.Spec.For), Retry: retries(x.Spec.Retry)}
	if x.Spec.Rounds > 0 {
		for _, k := range kinds {
			p.Count += x.Spec.Rounds * len(k.found)
		}
	}
	pace := s.Workload.pace(x.Step, x.Spec.Pace, p.Count)
	if n := pace.Count(); n > 0 && (p.Count == 0 || n < p.Count) {
		p.Count = n
	}
	p.Pace = pace
	p.Build = func(i int, req *load.Request) (bool, error) {
		k, n := choose(i)
		req.Timeout = time.Duration(x.Spec.Timeout)
		return kinds[k].build(n, req)
	}
	p.Then = func(a load.Result, req *load.Request) (bool, error) {
		k, n := choose(a.Index)
		if kinds[k].get == nil || a.Chain > 0 {
			return false, nil
		}
		req.Timeout = time.Duration(x.Spec.Timeout)
		return true, kinds[k].put(n, a, req)
	}
	p.Done = func(a load.Result) {
		k, n := choose(a.Index)
		kinds[k].done(n, a)
	}
	return p, nil
}

// chooser returns what says which kind the i-th call is, and its number there.
// In rounds each round goes through all that the kinds have found.
func chooser(kinds []*mixed, m load.Mix, rounds bool) func(i int) (kind, n int) {
	if !rounds {
		return func(i int) (int, int) { return m.Pick(i), i }
	}
	all := 0
	for _, k := range kinds {
		all += len(k.found)
	}
	return func(i int) (int, int) {
		round, rest := i/max(1, all), i%max(1, all)
		for k := range kinds {
			n := len(kinds[k].found)
			if rest < n {
				return k, round*n + rest
			}
			rest -= n
		}
		return 0, 0
	}
}

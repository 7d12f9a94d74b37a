package steps

import (
	"context"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// Requests sends any calls, in a weighted mix.
type Requests struct {
	Step string
	Spec *scenario.Requests
}

// Do sends them.
func (x Requests) Do(ctx context.Context, s *Session) error { return s.sendPlanned(ctx, x) }

func (x Requests) paceOf() scenario.Pace { return x.Spec.Pace }

func (x Requests) planCalls(ctx context.Context, s *Session) (planned, error) {
	var entries []*mixEntry
	var ops []record.Op
	var weights []float64
	var found [][][2]string
	var lacks []string
	for i := range x.Spec.Mix {
		e, err := s.newMixEntry(ctx, x.Step, &x.Spec.Mix[i], i)
		if err != nil {
			return planned{}, err
		}
		if why := e.whyLacking(); why != "" {
			lacks, e.lacking = append(lacks, why), true
		}
		e.op, e.seed, e.rounds = len(ops), s.Workload.SeedOf(fmt.Sprint(x.Step, i)), x.Spec.Rounds > 0
		ops = append(ops, e.form.Op(x.Step))
		if e.get != nil {
			ops = append(ops, e.get.Op(x.Step))
		}
		if x.Spec.Mix[i].Informer != "" {
			ops = append(ops, e.form.ListOp(x.Step))
		}
		if clients := s.Workload.ClientsOf(x.Step); clients != nil && x.Spec.Mix[i].NamesClient() {
			e.clients = clients.Count
		}
		entries, weights, found = append(entries, e), append(weights, x.Spec.Mix[i].Weight), append(found, e.found)
	}
	choose := newChooser(entries, load.NewMix(weights, s.Workload.SeedOf(x.Step)), x.Spec.Rounds > 0)
	p := load.Plan{Step: x.Step, Ops: ops, Count: x.Spec.Count, For: time.Duration(x.Spec.For), Retry: workload.RetryOf(x.Spec.Retry), Anew: x.Spec.Connection == scenario.NewConnections}
	if x.Spec.Rounds > 0 {
		for _, e := range entries {
			p.Count += x.Spec.Rounds * len(e.found)
		}
	}
	pace := s.Workload.PaceOf(x.Step, x.Spec.Pace, p.Count)
	if n := pace.Count(); n > 0 && (p.Count == 0 || n < p.Count) {
		p.Count = n
	}
	p.Pace = pace
	p.Build = func(i int, req *load.Request) (bool, error) {
		e, n := choose(i)
		req.Timeout = time.Duration(x.Spec.Timeout)
		return e.buildCall(n, req)
	}
	p.Then = func(a load.Result, req *load.Request) (bool, error) {
		e, n := choose(a.Index)
		if e.get == nil || a.Chain > 0 {
			return false, nil
		}
		req.Timeout = time.Duration(x.Spec.Timeout)
		return true, e.fillPut(n, a, req)
	}
	p.Object = func(i int) string {
		e, n := choose(i)
		return e.describeTarget(n)
	}
	p.Done = func(a load.Result) {
		e, n := choose(a.Index)
		e.noteDeleted(n, a)
	}
	return planned{Plan: p, part: Part{Found: found}, lacks: lacks, after: func(_ context.Context, sent error) error {
		for _, e := range entries {
			if why := e.whyLeftOut(); why != "" {
				s.noteLacks(x.Step, []string{why})
			}
		}
		return sent
	}}, nil
}

// newChooser returns what says which entry the i-th call is of, and its number there.
// In rounds each round goes through all that the entries have found.
func newChooser(entries []*mixEntry, m load.Mix, rounds bool) func(i int) (e *mixEntry, n int) {
	if !rounds {
		return func(i int) (*mixEntry, int) { return entries[m.Pick(i)], i }
	}
	all := 0
	for _, e := range entries {
		all += len(e.found)
	}
	return func(i int) (*mixEntry, int) {
		round, rest := i/max(1, all), i%max(1, all)
		for _, e := range entries {
			n := len(e.found)
			if rest < n {
				return e, round*n + rest
			}
			rest -= n
		}
		return entries[0], 0
	}
}

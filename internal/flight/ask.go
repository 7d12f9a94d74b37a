package flight

import (
	"context"
	"slices"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/series"
	"github.com/windtunnel/windtunnel/internal/series/promql"
	"github.com/windtunnel/windtunnel/internal/slo"
	"github.com/windtunnel/windtunnel/scenario"
)

// ask lets the scenario's PromQL be answered from the run's own series.
func ask(sc *scenario.Scenario, m record.Manifest, facts *slo.Facts) error {
	if !asks(sc) {
		return nil
	}
	db, err := promql.Open(facts.Series, optionsFor(m))
	if err != nil {
		return err
	}
	facts.Ask(sc, func(q slo.Question) slo.Answer {
		r, err := db.Instant(context.Background(), q.Expr, q.At)
		out := slo.Answer{Err: err, Warnings: r.Warnings}
		for _, s := range r.Series {
			labels := slices.DeleteFunc(slices.Clone(s.Labels), func(l record.Label) bool { return l.Name == "__name__" })
			if n := len(s.Points); n > 0 && s.Points[n-1].Histogram == nil {
				out.Values = append(out.Values, slo.Value{Labels: labels, Value: s.Points[n-1].Value})
			}
		}
		return out
	})
	return nil
}

// asks says that a scenario has queries.
func asks(sc *scenario.Scenario) bool {
	return slices.ContainsFunc(sc.Objectives, func(o scenario.Objective) bool { return o.Query != "" }) ||
		slices.ContainsFunc(sc.Measures, func(m scenario.Measure) bool { return m.Query != "" })
}

// Series opens the series of a run directory for PromQL.
func Series(path string) (*promql.DB, error) {
	dir, manifest, err := record.OpenDir(path)
	if err != nil {
		return nil, err
	}
	store, err := series.Read(dir.File(record.StreamFile))
	if err != nil {
		return nil, err
	}
	return promql.Open(store, optionsFor(manifest))
}

// optionsFor says by which labels the series of a run are known.
func optionsFor(m record.Manifest) promql.Options {
	o := promql.Default(m.Started)
	if m.Imported == "kube-burner" {
		o.Labels = series.OpenShift // what its profiles ask for
	}
	return o
}

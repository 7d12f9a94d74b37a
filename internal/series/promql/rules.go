package promql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/series"
)

// Rule is a recording rule: what its expression gives becomes a series of its
// own.
type Rule struct {
	Record string
	Expr   string
	Labels []record.Label // added to those of the expression
}

// ClusterLoader2Rules are the recording rules that the measurements of
// ClusterLoader2 on API latency ask for: quantiles of the server's request
// durations by resource, subresource, verb and scope, over the last 5 minutes,
// 1 minute and 30 seconds.
func ClusterLoader2Rules() []Rule {
	var out []Rule
	for _, w := range []struct{ suffix, window string }{{"", "5m"}, {"_1m", "1m"}, {"_30s", "30s"}} {
		for _, quantile := range []string{"0.99", "0.90", "0.50"} {
			out = append(out, Rule{
				Record: "apiserver:apiserver_request_latency" + w.suffix + ":histogram_quantile",
				Expr: fmt.Sprintf("histogram_quantile(%s, sum by (resource, subresource, verb, scope, le) (rate(apiserver_request_duration_seconds_bucket[%s])))",
					quantile, w.window),
				Labels: []record.Label{{Name: "quantile", Value: quantile}},
			})
		}
	}
	return out
}

// Record evaluates rules at every interval from the first sample to the last
// and adds what they give. It is for runs that are done; a rule may use those
// before it.
func (d *DB) Record(ctx context.Context, rules []Rule, every time.Duration) error {
	first, last, any := d.Span()
	if !any {
		return nil
	}
	for _, rule := range rules {
		r, err := d.Range(ctx, rule.Expr, first, last, every)
		if err != nil {
			return fmt.Errorf("rule %s: %w", rule.Record, err)
		}
		d.Update(func(store *series.Store) {
			for _, s := range r.Series {
				store.Compute(record.Series{Name: rule.Record, Labels: recorded(s.Labels, rule.Labels)}, stretches(s.Points, every))
			}
		})
	}
	return nil
}

// recorded are the labels of a rule's series: the rule's own win.
func recorded(labels, added []record.Label) []record.Label {
	out := slices.Clone(added)
	for _, l := range labels {
		named := func(a record.Label) bool { return a.Name == l.Name }
		if l.Name != "__name__" && !slices.ContainsFunc(added, named) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b record.Label) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// stretches says where points stand close to each other, and where not. Native
// histograms are left out.
func stretches(points []Point, every time.Duration) (out series.Samples) {
	for i, p := range points {
		if p.Histogram != nil {
			continue
		}
		out.At, out.Values = append(out.At, p.At), append(out.Values, p.Value)
		if next := p.At.Add(every); i+1 == len(points) || points[i+1].At > next {
			out.Ends = append(out.Ends, next)
		}
	}
	return out
}

package content

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/text"
)

// MemberRow is the calls to one member, of all operations.
type MemberRow struct {
	Name, Labels  string
	N, Bad        int     // Bad: failed, or not answered
	P50, P99, Max float64 // latency, seconds from due to done
	Cluster       *run.Cluster
}

// memberRows summarises the members, the slowest first.
func memberRows(in *run.Run) []MemberRow {
	latencies, bad := map[string][]*stats.Durations{}, map[string]int{}
	for _, c := range in.Facts.Calls {
		if c.Cluster != "" && c.Count() > 0 {
			latencies[c.Cluster] = append(latencies[c.Cluster], &c.Latency)
			bad[c.Cluster] += c.Count() - c.Outcomes[record.OK]
		}
	}
	labels := memberLabels(in.Manifest.Members)
	var out []MemberRow
	for _, x := range in.Facts.Clusters {
		all, ok := latencies[x.Name]
		if !ok {
			continue
		}
		l := stats.Merged(all)
		out = append(out, MemberRow{
			Name: x.Name, Labels: labels[x.Name], N: l.Len(), Bad: bad[x.Name],
			P50: l.Quantile(0.5).Value, P99: l.Quantile(0.99).Value, Max: l.Quantile(1).Value, Cluster: x,
		})
	}
	slices.SortStableFunc(out, func(a, b MemberRow) int { return cmp.Or(cmp.Compare(b.P99, a.P99), cmp.Compare(b.Max, a.Max)) })
	return out
}

// memberLabels are the labels of each member as text.
func memberLabels(groups []record.MembersFact) map[string]string {
	out := map[string]string{}
	for _, g := range groups {
		for i := range g.Count {
			labels := maps.Clone(g.Labels)
			if labels == nil {
				labels = map[string]string{}
			}
			for name, values := range g.Spread {
				if _, own := labels[name]; !own {
					labels[name] = fmt.Sprintf("%s-%d", name[strings.LastIndexByte(name, '/')+1:], i%max(1, values))
				}
			}
			out[fmt.Sprintf("%s-%d", g.Name, i+1)] = strings.Join(text.Pairs(labels), " ")
		}
	}
	return out
}

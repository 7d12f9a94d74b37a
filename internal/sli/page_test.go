package sli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Page returns the table as a page of Markdown; docs/reference/slis.md holds it.
func Page() []byte {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Service level indicators")
	line("")
	line("After reading this page you can choose the `sli` of an objective. This page is generated from the table of package sli")
	line("(`go test ./internal/sli -update`).")
	line("")
	line("```yaml")
	line("objectives:")
	line("  - {sli: etcd-fsync, statistic: p99, max: 0.01}")
	line("  - {sli: workqueue-latency, labels: {component: kube-controller-manager}, per: [name], statistic: p99, max: 5}")
	line("  - {sli: api-availability, min: 0.999}")
	line("```")
	line("")
	line("`labels` narrows an indicator, `per` gives one result for each value of a label; the last column has what it is")
	line("split by when nothing is said. A statistic of a histogram is known to within a bucket, which stands as its interval:")
	line("where the bound lies inside the bucket the verdict is unknown. What was not measured is unknown, too.")
	line("")
	line("Windtunnel computes these from the values that it read, without extrapolation. The PromQL below asks nearly the same of")
	line("`windtunnel serve` or of a Prometheus, over `%%v`, the length of the run; indicators without one are made of windtunnel's")
	line("own records. Those with a measure stand in every `verdict.json` whose run has data of them.")
	line("")
	line("| sli | is | unit | statistics | labels | split by | measure |\n|---|---|---|---|---|---|---|")
	for _, x := range All() {
		line("| `%s` | %s | %s | %s | %s | %s | %s |", x.Name, x.Text, x.units(), strings.Join(x.Statistics, ", "),
			strings.Join(slices.Sorted(maps.Keys(x.Labels)), ", "), strings.Join(x.Per, ", "), strings.Join(x.Shown, ", "))
	}
	line("\nEvery other quantile (p95, p99.95) stands where p99 does.")
	line("\n## Where they come from\n")
	for _, x := range All() {
		line("* `%s`: %s", x.Name, x.Source)
		if query := x.PromQL(x.Statistics[0]); query != "" {
			line("  `%s`", query)
		}
	}
	return []byte(b.String())
}

// units names the unit, and that of a rate where it is another.
func (x Indicator) units() string {
	if rate := x.UnitOf("rate"); x.Kind == Counter {
		return x.Unit + "; " + rate
	}
	return x.Unit
}

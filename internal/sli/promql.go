package sli

import (
	"fmt"
	"strings"
)

// PromQL returns an expression that asks a Prometheus, or `windtunnel serve`,
// for a statistic of the indicator over a run of length %v; empty for what is
// made of records. Windtunnel computes the same from the values that it read,
// without extrapolation.
func (x Indicator) PromQL(statistic string) string {
	scale := ""
	if x.Scale != 0 {
		scale = fmt.Sprintf("%g * ", x.Scale)
	}
	switch x.Kind {
	case Histogram:
		if statistic == "max" || strings.HasPrefix(statistic, "p") {
			return scale + "histogram_quantile(" + quantileShare(statistic) + ", " + x.sumQuery("increase", "_bucket", "le") + ")"
		}
		return scale + x.countedQuery(statistic)
	case Summary:
		return scale + x.countedQuery(statistic)
	case Counter:
		switch statistic {
		case "rate":
			return scale + x.sumQuery("rate", "")
		case "sum":
			return scale + x.sumQuery("increase", "")
		}
		return scale + overTimeQuery(statistic, strings.ReplaceAll(x.sumQuery("rate", ""), "%v", "30s"))
	case Gauge:
		across := "sum"
		if x.Most {
			across = "max"
		}
		return scale + overTimeQuery(statistic, across+x.groupingClause()+" ("+x.Family+x.labelMatchers()+")")
	case Share:
		return x.sumQuery("increase", "") + " / sum (increase(" + x.Family + "[%v]))"
	}
	return ""
}

// countedQuery asks for a statistic of values of which sum and number are known.
func (x Indicator) countedQuery(statistic string) string {
	switch statistic {
	case "rate":
		return x.sumQuery("rate", "_count")
	case "sum":
		return x.sumQuery("increase", "_sum")
	}
	return x.sumQuery("increase", "_sum") + " / " + x.sumQuery("increase", "_count")
}

// sumQuery adds up rates or increases of the family's series with a suffix.
func (x Indicator) sumQuery(function, suffix string, more ...string) string {
	return "sum" + x.groupingClause(more...) + " (" + function + "(" + x.Family + suffix + x.labelMatchers() + "[%v]))"
}

// groupingClause is the grouping of what the indicator is split by.
func (x Indicator) groupingClause(more ...string) string {
	if names := append(more, x.Per...); len(names) > 0 {
		return " by (" + strings.Join(names, ", ") + ")"
	}
	return ""
}

// overTimeQuery asks for a statistic of an expression's values in the run.
func overTimeQuery(statistic, expr string) string {
	switch statistic {
	case "max":
		return "max_over_time((" + expr + ")[%v:])"
	case "mean":
		return "avg_over_time((" + expr + ")[%v:])"
	}
	return "quantile_over_time(" + quantileShare(statistic) + ", (" + expr + ")[%v:])"
}

// quantileShare is a quantile's share: 0.999 of p99.9.
func quantileShare(statistic string) string {
	if statistic == "max" {
		return "1"
	}
	return "0." + strings.ReplaceAll(strings.TrimPrefix(statistic, "p"), ".", "")
}

// labelMatchers writes Where as PromQL's label matchers.
func (x Indicator) labelMatchers() string {
	var parts []string
	for _, m := range x.Where {
		operator := "=~"
		if m.Not {
			operator = "!~"
		}
		parts = append(parts, fmt.Sprintf("%s%s%q", m.Label, operator, m.Pattern))
	}
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

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
			return scale + "histogram_quantile(" + share(statistic) + ", " + x.sum("increase", "_bucket", "le") + ")"
		}
		return scale + x.counted(statistic)
	case Summary:
		return scale + x.counted(statistic)
	case Counter:
		switch statistic {
		case "rate":
			return scale + x.sum("rate", "")
		case "sum":
			return scale + x.sum("increase", "")
		}
		return scale + over(statistic, strings.ReplaceAll(x.sum("rate", ""), "%v", "30s"))
	case Gauge:
		across := "sum"
		if x.Most {
			across = "max"
		}
		return scale + over(statistic, across+x.by()+" ("+x.Family+x.matchers()+")")
	case Share:
		return x.sum("increase", "") + " / sum (increase(" + x.Family + "[%v]))"
	}
	return ""
}

// counted asks for a statistic of values of which sum and number are known.
func (x Indicator) counted(statistic string) string {
	switch statistic {
	case "rate":
		return x.sum("rate", "_count")
	case "sum":
		return x.sum("increase", "_sum")
	}
	return x.sum("increase", "_sum") + " / " + x.sum("increase", "_count")
}

// sum adds up rates or increases of the family's series with a suffix.
func (x Indicator) sum(function, suffix string, more ...string) string {
	return "sum" + x.by(more...) + " (" + function + "(" + x.Family + suffix + x.matchers() + "[%v]))"
}

// by is the grouping of what the indicator is split by.
func (x Indicator) by(more ...string) string {
	if names := append(more, x.Per...); len(names) > 0 {
		return " by (" + strings.Join(names, ", ") + ")"
	}
	return ""
}

// over asks for a statistic of an expression's values in the run.
func over(statistic, expr string) string {
	switch statistic {
	case "max":
		return "max_over_time((" + expr + ")[%v:])"
	case "mean":
		return "avg_over_time((" + expr + ")[%v:])"
	}
	return "quantile_over_time(" + share(statistic) + ", (" + expr + ")[%v:])"
}

// share is a quantile's share: 0.999 of p99.9.
func share(statistic string) string {
	if statistic == "max" {
		return "1"
	}
	return "0." + strings.ReplaceAll(strings.TrimPrefix(statistic, "p"), ".", "")
}

// matchers writes Where as PromQL's label matchers.
func (x Indicator) matchers() string {
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

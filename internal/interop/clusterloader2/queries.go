package clusterloader2

import (
	"fmt"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
	"github.com/windtunnel/windtunnel/internal/text/linemap"
	"github.com/windtunnel/windtunnel/scenario"
)

// The queries are those of ClusterLoader2 over the histogram that the official
// objectives are about, which leaves out the time in webhooks and queues.
const (
	durations  = "apiserver_request_sli_duration_seconds"
	callFilter = `verb!="WATCH",subresource!~"log|exec|portforward|attach|proxy"`
	callLabels = "resource, subresource, verb, scope"
)

// Bounds of API calls by ClusterLoader2: one second for calls about one object,
// thirty for those about many.
const (
	oneObject   = time.Second
	manyObjects = 30 * time.Second
)

// apiResponsiveness bounds the 99th percentile of each kind of call. Without
// enableViolations ClusterLoader2 only reports it, and so do we, in every run.
func apiResponsiveness(l *lowering, c call, since int) []scenario.Step {
	if !c.givesResult() || !c.readTruth("enableViolations", false) {
		return nil
	}
	simple, slow := c.readTruth("useSimpleLatencyQuery", false), c.readInt("allowedSlowCalls", 0)
	custom := c.readThresholds()
	for _, group := range []struct {
		name, scope string
		most        time.Duration
	}{
		{"calls about one object", `scope="resource"`, c.readDuration("singleResourceThreshold", oneObject)},
		{"calls about many objects", `scope!="resource"`, c.readDuration("multipleResourcesThreshold", manyObjects)},
	} {
		query := latencyQuery(group.scope, simple)
		for _, t := range custom {
			query += fmt.Sprintf(" unless on (%s) %s_count{%s}", callLabels, durations, t.labelMatchers())
		}
		l.addObjective(scenario.Objective{
			Name: c.identifier + ": " + group.name, Query: toleratingQuery(query, slow, group.most), Unit: "seconds", Max: new(group.most.Seconds()),
		}, since)
	}
	for _, t := range custom {
		l.addObjective(scenario.Objective{
			Name: c.identifier + ": " + t.displayText(), Query: toleratingQuery(latencyQuery(t.labelMatchers(), simple), slow, t.max),
			Unit: "seconds", Max: new(t.max.Seconds()),
		}, since)
	}
	return nil
}

// latencyQuery is the 99th percentile of calls: of all of them together, or the
// 99th percentile of what each five minutes gave, which is the official SLI.
func latencyQuery(matchers string, simple bool) string {
	quantile := func(window string) string {
		return fmt.Sprintf("histogram_quantile(0.99, sum by (%s, le) (rate(%s_bucket{%s,%s}[%s])))", callLabels, durations, callFilter, matchers, window)
	}
	if simple {
		return quantile("%v")
	}
	return fmt.Sprintf("(quantile_over_time(0.99, %s[%%v:30s]) or %[1]s)", quantile("5m")) // a short time may have no step of 30 s
}

// toleratingQuery judges only the kinds of calls of which more than some were slow.
// Where there are none, the answer is the worst of all kinds, which is within the
// bound by definition: no answer would mean that nothing was measured.
func toleratingQuery(query string, slow int, most time.Duration) string {
	if slow <= 0 {
		return query
	}
	sum := func(suffix, matchers string) string {
		return fmt.Sprintf("sum by (%s) (increase(%s_%s{%s}[%%v]))", callLabels, durations, suffix, matchers)
	}
	fast := strings.Join([]string{
		sum("bucket", callFilter+`,verb!="LIST",le="1"`),
		sum("bucket", callFilter+`,verb="LIST",scope!="cluster",le="5"`),
		sum("bucket", callFilter+`,verb="LIST",scope="cluster",le="30"`),
	}, " or ")
	judged := fmt.Sprintf("((%s) and on (%s) (%s - (%s) > %d))", query, callLabels, sum("count", callFilter), fast, slow)
	return fmt.Sprintf("%s or on () clamp_max(max(%s), %v)", judged, query, most.Seconds())
}

// threshold is an entry of customThresholds.
type threshold struct {
	resource, subresource, verb, scope string
	max                                time.Duration
}

func (t threshold) labelMatchers() string {
	return fmt.Sprintf("resource=%q,subresource=%q,verb=%q,scope=%q", t.resource, t.subresource, t.verb, t.scope)
}

func (t threshold) displayText() string {
	return strings.Join(strings.Fields(strings.Join([]string{t.verb, t.resource, t.subresource, t.scope}, " ")), " ")
}

// readThresholds reads customThresholds, a list in YAML inside a text.
func (c call) readThresholds() []threshold {
	text := c.readText("customThresholds", "")
	if strings.TrimSpace(text) == "" {
		return nil
	}
	var entries []struct {
		Resource, Subresource, Verb, Scope string
		Threshold                          config.Duration
	}
	at := c.paramPosition("customThresholds")
	if _, err := c.im.decodeFile(at.File, linemap.Inside([]byte(text), at.Line), &entries); err != nil {
		c.addFault("customThresholds", "%s", err.Text)
		return nil
	}
	var out []threshold
	for _, e := range entries {
		if e.Threshold <= 0 {
			c.addFault("customThresholds", "threshold of %s %s: %s is not above 0s", e.Verb, e.Resource, e.Threshold)
		}
		out = append(out, threshold{e.Resource, e.Subresource, e.Verb, e.Scope, time.Duration(e.Threshold)})
	}
	return out
}

// genericQuery is any PromQL, asked of the run's own series.
func genericQuery(l *lowering, c call, since int) []scenario.Step {
	if !c.givesResult() {
		return nil
	}
	name, unit := c.needText("metricName"), c.readText("unit", "")
	enforced := c.readTruth("enableViolations", false)
	managed := c.readText("prometheusClient", "inCluster") == "managed"
	for _, q := range c.readList("queries") {
		full := name + ": " + q.needText("name")
		query := strings.TrimSpace(q.needText("query"))
		bounded := enforced && q.has("threshold")
		switch {
		case managed && bounded:
			l.addUnsupported(full, needsCloud)
			fallthrough
		case managed:
		case bounded:
			o := scenario.Objective{Name: full, Query: query, Unit: unit, Max: new(q.readNumber("threshold", 0))}
			if q.readTruth("lowerBound", false) {
				o.Min, o.Max = o.Max, nil
			}
			l.addObjective(o, since)
		default:
			l.addMeasure(scenario.Measure{Name: full, Query: query, Unit: unit, Optional: !q.readTruth("requireSamples", false)}, since)
		}
	}
	return nil
}

// apiAvailability is the share of reads of the API server's metrics that were
// answered, in percent.
func apiAvailability(l *lowering, c call, since int) []scenario.Step {
	begun, ok := l.started[c.measurementKey()]
	switch c.actionOf() {
	case "pause":
		if !ok || begun.paused || begun.mark == l.nextStep() {
			return nil
		}
		c.addNote("each stretch between pauses is judged on its own; ClusterLoader2 judges them together")
		begun.paused = true
	case "unpause":
		begun.paused, begun.mark = false, l.nextStep()
	case gather:
		if begun.paused {
			return nil
		}
	default:
		return nil
	}
	if ok {
		l.started[c.measurementKey()] = begun
	}
	if c.actionOf() == "unpause" {
		return nil
	}
	const query = `100 * avg_over_time(up{job="kube-apiserver"}[%v])`
	if minShare := c.readNumber("threshold", 0); minShare > 0 {
		l.addObjective(scenario.Objective{Name: c.identifier, Query: query, Unit: "%", Min: new(minShare)}, since)
	} else {
		l.addMeasure(scenario.Measure{Name: c.identifier, Query: query, Unit: "%", Optional: true}, since)
	}
	return nil
}

// bindings is the highest rate of bindings, as SchedulingThroughputPrometheus has it.
const bindings = `max_over_time(sum(irate(apiserver_request_total{verb="POST",resource="pods",subresource="binding",code="201"}[1m]))[%v:5s])`

func schedulingPrometheus(l *lowering, c call, since int) []scenario.Step {
	if !c.givesResult() {
		return nil
	}
	if minRate := c.readNumber("threshold", 0); minRate > 0 && c.readTruth("enableViolations", false) {
		l.addObjective(scenario.Objective{Name: c.identifier, Query: bindings, Unit: "1/s", Min: new(minRate)}, since)
	} else {
		l.addMeasure(scenario.Measure{Name: c.identifier, Query: bindings, Unit: "1/s", Optional: true}, since)
	}
	return nil
}

// schedulingMetrics are quantiles of the scheduler's own histograms.
func schedulingMetrics(l *lowering, c call, since int) []scenario.Step {
	if !c.givesResult() {
		return nil
	}
	for _, m := range []struct{ name, family, by string }{
		{"e2e scheduling latency", "scheduler_scheduling_attempt_duration_seconds", "le"},
		{"scheduling algorithm latency", "scheduler_scheduling_algorithm_duration_seconds", "le"},
		{"framework extension point duration", "scheduler_framework_extension_point_duration_seconds", "extension_point, le"},
	} {
		for _, q := range []string{"0.5", "0.9", "0.99"} {
			l.addMeasure(scenario.Measure{
				Name: fmt.Sprintf("%s %s p%s", c.identifier, m.name, strings.TrimPrefix(q+"0", "0.")[:2]), Unit: "seconds", Optional: true,
				Query: fmt.Sprintf("histogram_quantile(%s, sum by (%s) (rate(%s_bucket[%%v])))", q, m.by, m.family),
			}, since)
		}
	}
	return nil
}

// sloMeasurement is a bundle of two; one of them needs pods.
func sloMeasurement(l *lowering, c call, since int) []scenario.Step {
	c.addNote("DnsLookupLatency, which is part of it, is left out: %s", needsPods)
	if own, ok := c.params.Values["overrides"].(map[string]any); ok {
		if values, ok := own["SchedulingThroughputPrometheus"].(map[string]any); ok {
			c.params = config.Params{Values: values}.Over(c.params)
		}
	}
	return schedulingPrometheus(l, c, since)
}

// lowerTimer is the time between two steps.
func lowerTimer(l *lowering, c call, since int) []scenario.Step {
	if c.actionOf() == "stop" {
		name := c.readText("label", c.identifier)
		if _, ok := l.started[c.measurementKey()]; !ok {
			c.im.faults.addAt(c.where, "Timer: %q is stopped and was not started", c.identifier)
			return nil
		}
		l.addMeasure(scenario.Measure{Name: name}, since)
	}
	return nil
}

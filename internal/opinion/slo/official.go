package slo

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/scenario"
)

// The official Kubernetes SLOs and their bounds in seconds, from
// https://github.com/kubernetes/community/tree/master/sig-scalability/slos
// (slos.md and one file for each SLI).
const (
	MutatingBound = 1.0  // calls that change one object, for every resource and verb
	ReadBound     = 1.0  // reads of one object, for every resource
	ListBound     = 30.0 // lists of a namespace or of the cluster, for every resource
	StartupBound  = 5.0  // stateless, schedulable pods
)

// Where the server's own latencies are found. The histogram leaves out webhooks
// and the queues of API priority and fairness, as the definitions want it.
const (
	apiServer   = "kube-apiserver"
	sliFamily   = "apiserver_request_sli_duration_seconds"
	officialQ   = 0.99
	officialP99 = "p99"
)

// class is one of the official SLOs on API calls.
type class struct {
	name  string
	verbs []string
	scope string
	bound float64
	// needed classes are unknown where no such call was made; the others are
	// then left out, since a run without lists is no worse for it.
	needed bool
}

// callClasses returns the official SLOs on API calls. A call that changes a collection
// (DELETECOLLECTION) is not one for a single object, and WATCH and CONNECT are
// streams: no objective speaks of them.
func callClasses() []class {
	mutating := []string{"POST", "PUT", "PATCH", "APPLY", "DELETE"}
	return []class{
		{"mutating calls", mutating, "resource", MutatingBound, true},
		{"reads of one object", []string{"GET", "LIST"}, "resource", ReadBound, false},
		{"lists of a namespace", []string{"LIST"}, "namespace", ListBound, false},
		{"lists of the cluster", []string{"LIST"}, "cluster", ListBound, false},
	}
}

// streamedSubresources returns the subresources that are streams even where a verb does not
// say so.
func streamedSubresources() []string {
	return []string{"log", "exec", "portforward", "attach", "proxy"}
}

// isBuiltin reports whether the objectives speak of a resource: neither one that
// is defined by a CustomResourceDefinition or served by an aggregated API
// server, nor a virtual one, which is computed for each call and stored
// nowhere. The metric does not say which is which; the groups of Kubernetes
// itself end in .k8s.io or have no dot, and a project's own group under
// k8s.io (as snapshot.storage.k8s.io) is not in this list.
func isBuiltin(group, resource string) bool {
	switch group {
	case "", "admissionregistration.k8s.io", "apps", "autoscaling", "batch", "certificates.k8s.io",
		"coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io",
		"internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io",
		"resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io":
		return resource != "" && resource != "componentstatuses"
	}
	return false
}

// official judges the official SLOs.
type official struct {
	server server
	pods   pods
}

// judgeOfficial gives the results of all of them: calls by the server's own histograms over
// the whole run as one window, pod startup by windtunnel's watch.
func (k *official) judgeOfficial(o *scenario.Objective) []Result {
	out := k.judgeCalls(o)
	return append(out, k.judgeStartup(o))
}

// judgeCalls gives a result for each verb and resource that was called
// within the run. The definitions ask for the 99th percentile of five minutes,
// over a day; a run is one window, however long it lasts.
func (k *official) judgeCalls(o *scenario.Objective) []Result {
	var out []Result
	for _, c := range callClasses() {
		blank := Result{Name: partName(o, c.name), SLI: "server-latency", Statistic: officialP99, Unit: "seconds", Threshold: c.bound}
		groups, known := k.server.latencyIncrease(c.includes)
		if trouble := k.server.whyUnusable(known); trouble != "" {
			blank.Name = partName(o, "API calls")
			setUnmeasured(&blank, trouble)
			return []Result{blank}
		}
		for _, g := range groups {
			r := blank
			r.Labels = callLabels(g.Labels)
			holdAgainstThreshold(&r, histogramOf(&r, g).Quantile(officialQ), true)
			out = append(out, r)
		}
		if len(groups) == 0 && c.needed {
			setUnmeasured(&blank, "no such call was made")
			out = append(out, blank)
		}
	}
	return out
}

// includes reports whether a series of the server's histogram is of this class.
func (c class) includes(s *series.Series) bool {
	return slices.Contains(c.verbs, s.Label("verb")) && s.Label("scope") == c.scope &&
		isBuiltin(s.Label("group"), s.Label("resource")) && !slices.Contains(streamedSubresources(), s.Label("subresource"))
}

// setUnmeasured makes a result unknown for want of anything measured.
func setUnmeasured(r *Result, why string) {
	r.Verdict = Unknown
	r.Warnings = append(r.Warnings, why)
}

// partName is an objective's own name before the name of one of its parts.
func partName(o *scenario.Objective, part string) string {
	if o.Name == "" {
		return part
	}
	return o.Name + ": " + part
}

// callLabels turns a histogram's labels into a result's.
func callLabels(labels []record.Label) map[string]string {
	out := map[string]string{}
	for _, l := range labels {
		if l.Value != "" {
			out[l.Name] = l.Value
		}
	}
	if g := out["group"]; g != "" {
		out["resource"] += "." + g
	}
	delete(out, "group") // it would be taken for a group of pods
	return out
}

// histogramOf turns an increase into a histogram, and notes in r what it had to
// fix.
func histogramOf(r *Result, b series.Buckets) stats.Histogram {
	h := make(stats.Histogram, len(b.UpTo))
	for i := range h {
		h[i] = stats.Bucket{UpTo: b.UpTo[i], Count: b.Counts[i]}
	}
	h, raised := h.Mended()
	if raised > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("buckets were read while they changed: up to %.0f samples may be misplaced", raised))
	}
	return h
}

// judgeStartup judges the startup of pods, from the receipt of their
// creation to the receipt of the state that shows all their containers
// started, both on windtunnel's own watch. The definition begins at the
// creation timestamp, which has whole seconds only and is used for nothing
// here; it leaves out image pulls and init containers, which simulated pods do
// not have, and pods with volumes or without room, which is up to the scenario.
//
// A pod that never ran in the run is not left out: it took longer than from its
// creation to the run's end, and so did one that a wait asks for and nobody saw.
func (k *official) judgeStartup(o *scenario.Objective) Result {
	r := Result{Name: partName(o, "pod startup"), SLI: "pod-startup", Statistic: officialP99, Unit: "seconds",
		Threshold: StartupBound, Labels: map[string]string{"phase": "startup"}}
	if len(o.Pods) > 0 {
		r.Labels["group"] = strings.Join(o.Pods, ",")
	}
	d := k.pods.collectDurations(&r, map[string]string{"cluster": ""}, o.Pods, "created", "running") // members have no official SLOs
	holdAgainstThreshold(&r, d.Quantile(officialQ), false)
	return r
}

// holdAgainstThreshold holds an estimate against a result's threshold. Where the estimate is
// known only within bounds (a histogram's bucket, pods that did not run yet)
// and the threshold lies between them, the verdict is unknown.
func holdAgainstThreshold(r *Result, e stats.Estimate, bucket bool) {
	r.Samples = e.Samples
	r.Warnings = append(r.Warnings, e.Warnings...)
	if e.Samples == 0 {
		setUnmeasured(r, "nothing was measured")
		return
	}
	if !isFinite(e.Value) {
		setUnmeasured(r, "the server's own count is not a number")
		return
	}
	value := e.Value
	r.Value = &value
	switch {
	case bucket && !math.IsInf(e.High, 0):
		r.Interval = &[2]float64{e.Low, e.High}
	case !bucket && e.Bounded():
		r.Interval = &[2]float64{e.Interval[0], e.Interval[1]}
	}
	r.Verdict = sideOfThreshold(e, r.Threshold, r.AtLeast)
	switch {
	case r.Verdict == Unknown && bucket:
		r.Warnings = append(r.Warnings, fmt.Sprintf("the histogram only says that it lies between %.4g and %.4g", e.Low, e.High))
	case !bucket && r.Interval != nil && r.Interval[0] < r.Threshold && r.Threshold < r.Interval[1]:
		r.Warnings = append(r.Warnings, "the bound lies inside the 95 % interval: another run may fall on its other side")
	}
}

// sideOfThreshold is on which side of a threshold an estimate lies. A bucket does not
// hold its lower end, so that one that begins at the threshold lies above it.
func sideOfThreshold(e stats.Estimate, threshold float64, atLeast bool) Verdict {
	switch {
	case atLeast && e.Low >= threshold, !atLeast && e.High <= threshold:
		return Pass
	case atLeast && e.High < threshold, !atLeast && e.Low >= threshold:
		return Fail
	}
	return Unknown
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/machine/usage"
)

// measures are what one turn of a side has shown, by key.
type measures map[string]float64

// measure says how a key is shown and compared.
type measure struct {
	key    string
	better int // -1: less is better, 1: more is better, 0: not compared
	what   string
}

// tableRows are the table's, in order. Keys end in their unit.
func tableRows() []measure {
	return []measure{
		{"nodes_ready_per_second", 1, "nodes Ready, from the first request on"},
		{"cpu_ms_per_node", -1, "CPU, a node brought up and its lease made"},
		{"apiserver_cpu_ms_per_node", -1, "  the same of kube-apiserver"},
		{"cpu_ms_per_renewal", -1, "CPU, a renewal"},
		{"apiserver_cpu_ms_per_renewal", -1, "  the same of kube-apiserver"},
		{"renewals_per_second", 0, "renewals"},
		{"renewal_lateness_p50_seconds", 0, "renewal after the one before, over a quarter of the lease, p50"},
		{"renewal_lateness_p99_seconds", -1, "  p99"},
		{"renewal_lateness_max_seconds", -1, "  the longest"},
		{"leases_expired", 0, "leases that ran out meanwhile"},
		{"direct_bound_to_running_p50_seconds", -1, "bound to Running, bound by the bench, p50"},
		{"direct_bound_to_running_p99_seconds", -1, "  p99"},
		{"direct_cpu_ms_per_pod", -1, "  CPU, a pod bound to Running"},
		{"direct_cpu_ms_per_pod_life", -1, "  CPU, a pod's life"},
		{"bound_to_running_p50_seconds", -1, "bound to Running, bound by the scheduler, p50"},
		{"bound_to_running_p99_seconds", -1, "  p99"},
		{"created_to_running_p99_seconds", -1, "  created to Running, p99"},
		{"scheduled_cpu_ms_per_pod", -1, "  CPU, a pod bound to Running"},
		{"cpu_ms_per_pod_life", -1, "  CPU, a pod's life"},
		{"pods_running_per_second", 1, "pods Running, as fast as it goes"},
		{"cpu_ms_per_pod", -1, "  CPU, a pod bound to Running"},
		{"cpu_ms_per_pod_without_renewals", -1, "  the same without the renewals meanwhile"},
		{"apiserver_cpu_ms_per_pod", -1, "  CPU of kube-apiserver, a pod"},
		{"peak_rss_bytes", -1, "memory, resident at most"},
		{"rss_bytes", -1, "  resident at rest with all nodes and pods"},
		{"live_bytes", -1, "  live then, after a collection"},
		{"rss_bytes_per_node", -1, "  resident, one more node"},
		{"live_bytes_per_node", -1, "  live, one more node"},
		{"rss_bytes_per_pod", -1, "  resident, one more pod"},
		{"live_bytes_per_pod", -1, "  live, one more pod"},
		{"stage_ns_per_object", -1, "stage engine: choose the stage, sets that our fleet plays on messages"},
		{"stage_play_ns_per_object", -1, "  choose it and write its bodies"},
		{"stage_wire_ns_per_object", -1, "  the same from bytes"},
		{"stage_general_ns_per_object", -1, "  choose the stage, all sets, ours on JSON"},
		{"stage_general_play_ns_per_object", -1, "  choose it and write its bodies"},
		{"pods_that_never_ran", 0, "pods that never ran"},
		{"pods_never_gone", 0, "pods that never went"},
		{"others_cores", 0, "cores that others kept busy meanwhile"},
		{"watch_gaps", 0, "gaps in the bench's own watches"},
	}
}

// report gathers what the sides have shown.
type report struct {
	sizes   map[string]any
	turns   map[string][]measures
	figures map[string][]figure
}

func newReport(o options) *report {
	return &report{
		sizes: map[string]any{
			"nodes": o.nodes, "pods": o.pods, "pods_per_second": o.rate, "many_pods": o.many, "turns": o.turns, "clients_calls_per_second": o.calls,
			"lease_seconds": o.lease.Seconds(), "window_seconds": o.window.Seconds(),
		},
		turns: map[string][]measures{}, figures: map[string][]figure{},
	}
}

func (r *report) addTurn(side string, m measures) { r.turns[side] = append(r.turns[side], m) }

// timeEngines times both stage engines.
func (r *report) timeEngines(ctx context.Context, o options) error {
	printProgress("stage engines")
	cmd := exec.CommandContext(ctx, o.engine, "-stages", o.stages, "-inputs", o.inputs, "-time", o.each.String())
	raw, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("time kwok's stage engine: %w", err)
	}
	var theirs []figure
	if err := json.Unmarshal(raw, &theirs); err != nil {
		return fmt.Errorf("time kwok's stage engine: %w", err)
	}
	onJSON, onMessages, err := ownFigures(o)
	if err != nil {
		return fmt.Errorf("time the stage engine: %w", err)
	}
	r.figures = map[string][]figure{kwokName: theirs, ourName: onJSON, ourName + ", on messages": onMessages}
	kwok, ours, err := engineMeasures(theirs, onJSON, onMessages)
	if err != nil {
		return err
	}
	r.addTurn(kwokName, kwok)
	r.addTurn(ourName, ours)
	return nil
}

// engineMeasures returns the means over the objects: on messages over those that
// the fleet plays itself, on JSON over all.
func engineMeasures(theirs, onJSON, onMessages []figure) (kwok, ours measures, err error) {
	kwok, ours = measures{}, measures{}
	for _, c := range []struct {
		key string
		own []figure
		of  func(figure) float64
	}{
		{"stage_ns_per_object", onMessages, func(f figure) float64 { return f.Match }},
		{"stage_play_ns_per_object", onMessages, func(f figure) float64 { return f.Play }},
		{"stage_wire_ns_per_object", onMessages, func(f figure) float64 { return f.Wire }},
		{"stage_general_ns_per_object", onJSON, func(f figure) float64 { return f.Match }},
		{"stage_general_play_ns_per_object", onJSON, func(f figure) float64 { return f.Play }},
	} {
		for _, own := range c.own {
			at := slices.IndexFunc(theirs, func(f figure) bool { return f.Name == own.Name })
			if at < 0 || theirs[at].Stage != own.Stage {
				return nil, nil, fmt.Errorf("%s: our engine plays %s, kwok's does not", own.Name, own.Stage)
			}
			kwok[c.key] += c.of(theirs[at]) / float64(len(c.own))
			ours[c.key] += c.of(own) / float64(len(c.own))
		}
	}
	return kwok, ours, nil
}

// mediansOf returns a side's medians over its turns.
func mediansOf(turns []measures) measures {
	all := map[string][]float64{}
	for _, m := range turns {
		for key, v := range m {
			all[key] = append(all[key], v)
		}
	}
	out := measures{}
	for key, values := range all {
		out[key] = quantileOf(values, 0.5)
	}
	return out
}

// ratiosOf compares two sides: above 1, ours is better. What is not above 0 on
// both sides has no ratio.
func ratiosOf(kwok, ours measures) measures {
	out := measures{}
	for _, row := range tableRows() {
		a, b := kwok[row.key], ours[row.key]
		switch {
		case row.better == 0 || a <= 0 || b <= 0:
		case row.better < 0:
			out[row.key] = a / b
		default:
			out[row.key] = b / a
		}
	}
	return out
}

// printTable writes the table.
func (r *report) printTable(w io.Writer) {
	kwok, ours := mediansOf(r.turns[kwokName]), mediansOf(r.turns[ourName])
	ratio := ratiosOf(kwok, ours)
	m := usage.Machine()
	fmt.Fprintf(w, "%d cores (%s); %v nodes, %v pods at %v/s, %v pods as fast as it goes; medians of %v turns\n\n",
		m.Cores, strings.TrimSpace(m.CPU), r.sizes["nodes"], r.sizes["pods"], r.sizes["pods_per_second"], r.sizes["many_pods"], r.sizes["turns"])
	fmt.Fprintf(w, "| %-66s | %12s | %12s | %6s |\n|%s|%s:|%s:|%s:|\n", "what", kwokName, ourName, "ratio",
		strings.Repeat("-", 68), strings.Repeat("-", 13), strings.Repeat("-", 13), strings.Repeat("-", 7))
	for _, row := range tableRows() {
		a, haveA := kwok[row.key]
		b, haveB := ours[row.key]
		if !haveA && !haveB {
			continue
		}
		times := ""
		if v, ok := ratio[row.key]; ok {
			times = fmt.Sprintf("%.2f", v)
		}
		fmt.Fprintf(w, "| %-66s | %12s | %12s | %6s |\n", row.what, formatMeasure(row.key, a, haveA), formatMeasure(row.key, b, haveB), times)
	}
}

// formatMeasure writes a value with the unit that its key ends in.
func formatMeasure(key string, v float64, have bool) string {
	switch {
	case !have:
		return "-"
	case strings.HasSuffix(key, "_per_second"):
		return fmt.Sprintf("%.1f /s", v)
	case strings.HasSuffix(key, "_seconds"):
		return fmt.Sprintf("%.3f s", v)
	case strings.Contains(key, "_ns_"):
		return fmt.Sprintf("%.0f ns", v)
	case strings.Contains(key, "_ms_"):
		return fmt.Sprintf("%.4f ms", v)
	case strings.Contains(key, "_bytes_per_"):
		return fmt.Sprintf("%.0f B", v)
	case strings.HasSuffix(key, "_bytes"):
		return fmt.Sprintf("%.1f MB", v/1e6)
	}
	return strconv.FormatFloat(math.Round(100*v)/100, 'f', -1, 64)
}

// writeJSON keeps everything as JSON.
func (r *report) writeJSON(path string) error {
	kwok, ours := mediansOf(r.turns[kwokName]), mediansOf(r.turns[ourName])
	raw, err := json.MarshalIndent(map[string]any{
		"machine": usage.Machine(), "sizes": r.sizes,
		"sides":  map[string]measures{kwokName: kwok, ourName: ours},
		"ratios": ratiosOf(kwok, ours),
		"turns":  r.turns, "stages": r.figures,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode figures: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("keep figures: %w", err)
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

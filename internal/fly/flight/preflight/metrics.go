package preflight

import (
	"math"
	"strconv"
	"strings"
)

// Counted is what a component's metrics say that a state is made of.
type Counted struct {
	Depth, Retries, Longest map[string]float64 // by queue; retries since the component's start
	Heap                    float64            // bytes at which the collector starts next; 0: not known
	Store                   float64            // bytes in use of etcd's database; 0: not known
	Objects                 map[string]float64 // stored objects by resource, such as deployments.apps
}

// ReadMetrics reads a component's metrics in Prometheus' text form.
func ReadMetrics(metrics string) Counted {
	c := Counted{Depth: map[string]float64{}, Retries: map[string]float64{}, Longest: map[string]float64{}, Objects: map[string]float64{}}
	for line := range strings.Lines(metrics) {
		name, labels, value := splitLine(line)
		queue := labelValue(labels, "name")
		if strings.HasPrefix(name, "workqueue_") && queue == "" {
			continue
		}
		switch name {
		case "workqueue_depth":
			c.Depth[queue] += value
		case "workqueue_retries_total":
			c.Retries[queue] += value
		case "workqueue_longest_running_processor_seconds":
			c.Longest[queue] = max(c.Longest[queue], value)
		case "go_memstats_next_gc_bytes":
			c.Heap = value
		case "etcd_mvcc_db_total_size_in_use_in_bytes":
			c.Store = value
		case "apiserver_resource_objects":
			c.Objects[strings.TrimSuffix(labelValue(labels, "resource")+"."+labelValue(labels, "group"), ".")] = value
		}
	}
	return c
}

// splitLine takes a line apart into the metric, its labels and its value; a line
// that is none has no metric.
func splitLine(line string) (metric, labels string, value float64) {
	end := strings.IndexAny(line, "{ ")
	if end <= 0 || line[0] == '#' {
		return "", "", 0
	}
	metric, rest := line[:end], line[end:]
	if rest[0] == '{' {
		var ok bool
		if labels, rest, ok = strings.Cut(rest[1:], "} "); !ok {
			return "", "", 0
		}
	}
	value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
	if err != nil || math.IsNaN(value) {
		return "", "", 0
	}
	return metric, labels, value
}

// labelValue returns the value of a label, not of another whose name ends so.
func labelValue(labels, name string) string {
	name += `="`
	for rest := labels; ; {
		i := strings.Index(rest, name)
		if i < 0 {
			return ""
		}
		value, _, closed := strings.Cut(rest[i+len(name):], `"`)
		if closed && (i == 0 || rest[i-1] == ',') {
			return value
		}
		rest = rest[i+len(name):]
	}
}

package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/stage/expression"
)

func resourceMetrics(t testing.TB) string {
	t.Helper()
	text := repotest.Must(os.ReadFile(filepath.Join("testdata", "metrics.yaml")))(t)
	return string(text)
}

// idle returns a server that listens nowhere.
func idle(t testing.TB, text string, w World) *Server {
	t.Helper()
	c := repotest.Must(configuration.Read(strings.NewReader(text), "-"))(t)
	formulas := repotest.Must(expression.NewFormulas())(t)
	log := discard()
	s := &Server{options: Options{World: w, Clock: clock.Start(), Log: log}, log: log, formulas: formulas}
	repotest.NoError(t, s.Configure(c.Objects))
	return s
}

// values are the lines of a reading that begin with a name.
func values(t testing.TB, s *Server, node, name string) string {
	t.Helper()
	text := repotest.Must(s.scrapeNode(t.Context(), s.rules.Load().metrics[0], node))(t)
	var out []string
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, name) {
			out = append(out, strings.TrimPrefix(line, name))
		}
	}
	return strings.Join(out, " ")
}

// TestResourceMetrics reads what metrics-server reads, over time.
func TestResourceMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.pods[0].Annotations = map[string]string{"kwok.x-k8s.io/usage-cpu": "500m", "kwok.x-k8s.io/usage-memory": "2Mi"}
		s := idle(t, resourceMetrics(t), w)
		for i, want := range []map[string]string{
			{
				"scrape_error ":                       "0",
				"container_memory_working_set_bytes":  `{container="c",namespace="a",pod="web"} 2.097152e+06 {container="d",namespace="a",pod="web"} 2.097152e+06 {container="c",namespace="a",pod="db"} 1.048576e+06`,
				"pod_memory_working_set_bytes":        `{namespace="a",pod="web"} 4.194304e+06 {namespace="a",pod="db"} 1.048576e+06`,
				"node_memory_working_set_bytes ":      "5.24288e+06",
				"pod_cpu_usage_seconds_total":         `{namespace="a",pod="web"} 0 {namespace="a",pod="db"} 0`,
				"node_cpu_usage_seconds_total ":       "0",
				"# TYPE node_cpu_usage_seconds_total": " counter",
				"# HELP node_cpu_usage_seconds_total": " Core-seconds of a node.",
			},
			{
				"pod_cpu_usage_seconds_total":       `{namespace="a",pod="web"} 10 {namespace="a",pod="db"} 0.01`,
				"container_cpu_usage_seconds_total": `{container="c",namespace="a",pod="web"} 5 {container="d",namespace="a",pod="web"} 5 {container="c",namespace="a",pod="db"} 0.01`,
				"node_cpu_usage_seconds_total ":     "10.009999999999998",
			},
		} {
			got := map[string]string{}
			for name := range want {
				got[name] = values(t, s, "n1", name) // several readings of one moment give the same
			}
			for name := range want {
				if got[name] != want[name] {
					t.Errorf("reading %d: %s%s, want %s", i, name, got[name], want[name])
				}
			}
			time.Sleep(10 * time.Second)
		}
		// A pod goes: its totals go, the node's stays.
		w.pods = w.pods[1:]
		if got := values(t, s, "n1", "node_cpu_usage_seconds_total "); got != "10.019999999999998" {
			t.Error(got)
		}
		if n := len(s.totals.nodes["n1"].sums); n != 2 {
			t.Errorf("%d totals: %v", n, s.totals.nodes["n1"].sums)
		}
	})
}

func TestMetricPaths(t *testing.T) {
	s, _ := start(t, resourceMetrics(t)+`---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Metric
metadata: {name: n2}
spec:
  path: /metrics/one
  metrics:
  - {name: a, kind: gauge, value: StartedContainersTotal(node), help: "two\nlines \\ of it\n"}
  - {name: b, kind: gauge, value: 'duration("2s")', labels: [{name: x, value: '"q\"\\n"'}, {name: a, value: node.metadata.name}]}
  - {name: c, kind: gauge, value: 1.0 / 0.0}
  - {name: d, kind: gauge, value: 'pod.metadata.annotations["none"]', dimension: pod}
  - {name: e, kind: gauge, value: '1', dimension: pod}
  - {name: h, kind: histogram, buckets: [{le: 2.5, value: '4'}, {le: 0.5, value: '1'}, {le: 1, value: '2', hidden: true}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Metric
metadata: {name: own}
spec: {path: /metrics, metrics: [{name: m, kind: gauge, value: '7'}]}
`, nil)
	base := "http://" + s.Addr().String()
	const one = "200 # HELP a two\\nlines \\\\ of it\n# TYPE a gauge\na 2\n" +
		"# TYPE b gauge\nb{a=\"n2\",x=\"q\\\"\\\\n\"} 2e+09\n" +
		"# TYPE c gauge\nc +Inf\n" +
		"# TYPE e gauge\ne 1\n" +
		"# TYPE h histogram\nh_bucket{le=\"0.5\"} 1\nh_bucket{le=\"2.5\"} 7\nh_bucket{le=\"+Inf\"} 7\nh_sum 12.5\nh_count 7\n"
	for path, want := range map[string]string{
		"/metrics/one":                         one,
		"/metrics/nodes/none/metrics/resource": "404 there is no node none\n",
		"/metrics/nodes//metrics/resource":     "404 no Metric object has this path\n",
		"/metrics/nodes/n1/metrics/resource/":  "",
		"/metrics/nodes/n1/metrics":            "404 no Metric object has this path\n",
		"/metrics":                             "404 there is no node own\n",
	} {
		code, body := get(t, base+path)
		if got := fmt.Sprintf("%d %s", code, body); got != want && want != "" {
			t.Errorf("%s:\n%s\nwant\n%s", path, got, want)
		}
	}
	targets := `200 [{"targets":["H"],"labels":{"__metrics_path__":"/metrics/nodes/n1/metrics/resource","__scheme__":"http","metrics_name":"resource"}},` +
		`{"targets":["H"],"labels":{"__metrics_path__":"/metrics/nodes/n2/metrics/resource","__scheme__":"http","metrics_name":"resource"}},` +
		`{"targets":["H"],"labels":{"__metrics_path__":"/metrics/one","__scheme__":"http","metrics_name":"n2"}},` +
		`{"targets":["H"],"labels":{"__metrics_path__":"/metrics","__scheme__":"http","metrics_name":"own"}}]`
	code, body := get(t, base+"/discovery/prometheus")
	if got := strings.ReplaceAll(fmt.Sprintf("%d %s", code, body), s.Addr().String(), "H"); got != targets {
		t.Errorf("%s, want %s", got, targets)
	}
}

// TestMetricWarnings shows what is said, once, of values that cannot be told.
func TestMetricWarnings(t *testing.T) {
	const text = `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Metric
metadata: {name: n1}
spec:
  path: /metrics/x
  metrics:
  - {name: twice, kind: gauge, dimension: pod, value: '1'}
  - {name: absent, kind: gauge, dimension: pod, value: 'pod.metadata.annotations["none"]'}
  - {name: round, kind: gauge, dimension: pod, value: 'pod.Usage("cpu")'}
  - {name: label, kind: gauge, labels: [{name: l, value: '1'}], value: '1'}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterResourceUsage
metadata: {name: all}
spec: {usages: [{usage: {cpu: {expression: pod.Usage("cpu")}}}]}
`
	s, log := start(t, text, nil)
	for range 2 {
		if code, body := get(t, "http://"+s.Addr().String()+"/metrics/x"); code != 200 || body != "# TYPE twice gauge\ntwice 1\n" {
			t.Errorf("%d %s", code, body)
		}
	}
	for _, want := range []string{
		`metric=twice node=n1 err="two values have the same labels"`,
		`metric=absent node=n1 err="cel: no such key: none"`,
		`metric=round node=n1 err="cel: cel: cel: cel: cel: cel: cel: cel: cel: a usage that depends on itself"`,
		`metric=label node=n1 err="cel: gives int, want a string"`,
	} {
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("%d times %s in\n%s", n, want, log.String())
		}
	}
}

func TestMetricFaults(t *testing.T) {
	c, err := configuration.Read(strings.NewReader(`apiVersion: kwok.x-k8s.io/v1alpha1
kind: Metric
metadata: {name: m}
spec:
  path: /metrics/x
  metrics:
  - {name: a, kind: gauge, value: 'node.metadata.title'}
  - {name: b, kind: gauge, value: 'pod.metadata.name'}
  - {name: c, kind: gauge, value: 'nod.name'}
  - name: a
    kind: counter
    value: '1'
    labels:
    - {name: l, value: container.name}
  - {name: h, kind: histogram, buckets: [{le: 1, value: 1 +}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ResourceUsage
metadata: {name: u}
spec: {usages: [{usage: {cpu: {expression: pod.spec.container}}}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Metric
metadata: {name: good}
spec: {path: /metrics/good, metrics: [{name: a, kind: gauge, value: '1'}]}
`), "-")
	repotest.NoError(t, err)
	_, err = Start(t.Context(), Options{Objects: c.Objects, Clock: clock.Start()})
	want := `standard input:7: Metric m: spec.metrics[0].value: cel: no such field in a ObjectMeta: title
standard input:8: Metric m: spec.metrics[1].value: cel: pod has no value here: mind the metric's dimension
standard input:9: Metric m: spec.metrics[2].value: cel: undeclared reference to 'nod' (in container '') (column 1)
standard input:11: Metric m: spec.metrics[3].kind: a is a gauge already
standard input:14: Metric m: spec.metrics[3].labels[0].value: cel: container has no value here: mind the metric's dimension
standard input:15: Metric m: spec.metrics[4].buckets[0].value: cel: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER} (column 4)
standard input:20: ResourceUsage u: spec.usages[0].usage["cpu"].expression: cel: no such field in a PodSpec: container`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
	// A server that runs leaves out what has faults and goes on with the rest.
	s, _ := start(t, "", nil)
	if err := s.Configure(c.Objects); err == nil {
		t.Error("no faults")
	}
	w := s.options.World.(*world)
	if len(s.rules.Load().metrics) != 1 || w.words == nil {
		t.Errorf("%d metrics, words %v", len(s.rules.Load().metrics), w.words)
	}
	if err := s.Configure(&configuration.Objects{}); err != nil || w.words != nil {
		t.Error(err, w.words)
	}
}

func BenchmarkScrape(b *testing.B) {
	w := &world{}
	for i := range 30 {
		w.pods = append(w.pods, pod("n1", "a", fmt.Sprintf("p%d", i), "c"))
		w.pods[i].Annotations = map[string]string{"kwok.x-k8s.io/usage-cpu": "500m"}
	}
	s := idle(b, resourceMetrics(b), w)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.scrapeNode(b.Context(), s.rules.Load().metrics[0], "n1"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/30, "µs/pod")
}

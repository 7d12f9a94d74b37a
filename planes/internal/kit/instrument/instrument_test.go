package instrument

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/metrics"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestPathsAndVerbs(t *testing.T) {
	for _, c := range []struct{ method, url, resource, verb string }{
		{"GET", "/api/v1/nodes", "nodes", "LIST"},
		{"GET", "/api/v1/pods?watch=true", "pods", "WATCH"},
		{"PATCH", "/api/v1/nodes/n1/status", "nodes/status", "PATCH"},
		{"POST", "/api/v1/namespaces/a/pods", "pods", "CREATE"},
		{"PUT", "/apis/kubevirt.io/v1/namespaces/a/virtualmachineinstances/v", "virtualmachineinstances", "UPDATE"},
		{"DELETE", "/apis/kubevirt.io/v1/namespaces/a/virtualmachines/v", "virtualmachines", "DELETE"},
		{"GET", "/api/v1/namespaces/a", "namespaces", "GET"},
		{"GET", "/version", "", "LIST"},
	} {
		u := repotest.Must(url.Parse(c.url))(t)
		p := splitPath(u.Path)
		if got := p.verbOf(&http.Request{Method: c.method, URL: u}); p.resource != c.resource || got != c.verb {
			t.Errorf("%s %s: got %+v %s", c.method, c.url, p, got)
		}
	}
}

func TestMetricsOfQueuesAndCalls(t *testing.T) {
	r := New("kubevirt")
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	r.Watch(config)
	client := repotest.Must(rest.HTTPClientFor(config))(t)
	answer := repotest.Must(client.Get(server.URL + "/api/v1/nodes/n"))(t)
	_ = answer.Body.Close()
	// Where Kubernetes is linked, its registry is the first to have the place.
	before := [2]metrics.LatencyMetric{metrics.RateLimiterLatency, metrics.RequestLatency}
	t.Cleanup(func() { metrics.RateLimiterLatency, metrics.RequestLatency = before[0], before[1] })
	metrics.Register(metrics.RegisterOpts{RateLimiterLatency: nowhere{}, RequestLatency: nowhere{}})
	r.Times()
	for _, into := range []metrics.LatencyMetric{metrics.RateLimiterLatency, metrics.RequestLatency} {
		into.Observe(t.Context(), "get", url.URL{Path: "/api/v1/nodes/{name}"}, 90*time.Second)
	}
	r.Waited("leases", 2)
	a, b := r.Queues().NewUnfinishedWorkSecondsMetric("q"), r.Queues().NewUnfinishedWorkSecondsMetric("q")
	a.Set(1)
	b.Set(2)
	c, d := r.Queues().NewLongestRunningProcessorSecondsMetric("q"), r.Queues().NewLongestRunningProcessorSecondsMetric("q")
	c.Set(1)
	d.Set(2)
	text := page(t, r)
	for _, want := range []string{
		`kubevirt_rest_client_requests_total{code="404",host="` + strings.TrimPrefix(server.URL, "http://") + `",method="GET",resource="nodes",verb="GET"} 1`,
		`kubevirt_rest_client_rate_limiter_duration_seconds_sum{url="/api/v1/nodes/{name}",verb="GET"} 90`,
		`kubevirt_rest_client_rate_limiter_duration_seconds_sum{url="leases",verb=""} 2`,
		`kubevirt_rest_client_request_latency_seconds_count{url="/api/v1/nodes/{name}",verb="GET"} 1`,
		`kubevirt_workqueue_unfinished_work_seconds{name="q"} 3`,
		`kubevirt_workqueue_longest_running_processor_seconds{name="q"} 2`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("missing: %s", want)
		}
	}
	if strings.Contains(text, `rate_limiter_duration_seconds_bucket{url="/api/v1/nodes/{name}",verb="GET",le="85`) {
		t.Error("a wait of 90 s is in a bucket below")
	}
}

// nowhere stands for another registry.
type nowhere struct{}

func (nowhere) Observe(context.Context, string, url.URL, time.Duration) {}

func page(t *testing.T, r *Registry) string {
	t.Helper()
	s := repotest.Must(r.Serve(context.Background(), "127.0.0.1:0"))(t)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	get := func(path string) (int, string) {
		answer := repotest.Must(http.Get("http://" + s.Address + path))(t)
		defer func() { _ = answer.Body.Close() }()
		body := repotest.Must(io.ReadAll(answer.Body))(t)
		return answer.StatusCode, string(body)
	}
	if code, _ := get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz before Ready: %d", code)
	}
	r.Ready()
	for _, path := range []string{"/readyz", "/healthz"} {
		if code, _ := get(path); code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, body := get("/debug/pprof/goroutine?debug=1"); code != http.StatusOK || !strings.Contains(body, "goroutine profile") {
		t.Errorf("/debug/pprof/goroutine: %d", code)
	}
	_, text := get("/metrics")
	return text
}

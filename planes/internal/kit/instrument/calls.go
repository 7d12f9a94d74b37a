package instrument

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/metrics"
)

// calls are the metrics of clients of the API server.
type calls struct {
	total   *prometheus.CounterVec
	latency *prometheus.HistogramVec
	waited  *prometheus.HistogramVec
}

func (c *calls) registerMetrics(r *Registry) {
	c.total = r.CounterVec(r.prefix+"rest_client_requests_total", "Requests sent to the API server.", "code", "method", "host", "resource", "verb")
	latency := r.prefix + "rest_client_request_latency_seconds"
	if r.prefix == "" {
		latency = "rest_client_request_duration_seconds" // client-go's own name
	}
	c.latency = r.Histogram(latency, "From a call to its answer, the wait for the client's own rate limiter included.", "verb", "url")
	c.waited = r.Histogram(r.prefix+"rest_client_rate_limiter_duration_seconds", "Time that requests waited for the client's own rate limiter.", "verb", "url")
}

// Watch counts what a client with this configuration sends.
func (r *Registry) Watch(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counted{calls: &r.calls, next: next} })
}

// Times lets this registry have the times of every client of the process; call
// it before the first client. client-go has one place for them, which its
// Register gives to whoever comes first: where Kubernetes is linked, that is
// Kubernetes' own registry, before main begins. So they are set, once: in a test that
// runs several processes of a plane as one, clients of the first read them already.
func (r *Registry) Times() {
	if _, set := metrics.RateLimiterLatency.(times); set {
		return
	}
	metrics.RateLimiterLatency, metrics.RequestLatency = times{r.calls.waited}, times{r.calls.latency}
}

// Waited adds the wait, in seconds, of a call for a limiter that client-go does not know
// of, because the caller asks it itself. The limiter's name stands in the place of a URL.
func (r *Registry) Waited(limiter string, seconds float64) {
	r.calls.waited.WithLabelValues("", limiter).Observe(seconds)
}

type times struct{ into *prometheus.HistogramVec }

// Observe is called by client-go.
func (t times) Observe(_ context.Context, verb string, u url.URL, d time.Duration) {
	t.into.WithLabelValues(strings.ToUpper(verb), u.Path).Observe(d.Seconds())
}

type counted struct {
	*calls
	next http.RoundTripper
}

// RoundTrip sends a request and counts it.
func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(r)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(answer.StatusCode)
	}
	p := splitPath(r.URL.Path)
	c.total.WithLabelValues(code, r.Method, r.URL.Host, p.resource, p.verbOf(r)).Inc()
	return answer, err
}

// path is what a request's URL says.
type path struct{ resource, name string }

// splitPath reads a path of the API, such as /apis/GROUP/VERSION/namespaces/NS/RESOURCE/NAME/SUB.
func splitPath(p string) path {
	parts := strings.Split(strings.Trim(p, "/"), "/")
	rest := 3
	if parts[0] == "api" {
		rest = 2
	}
	if len(parts) <= rest {
		return path{}
	}
	if parts[rest] == "namespaces" && len(parts) > rest+2 {
		rest += 2
	}
	out := path{resource: parts[rest]}
	if len(parts) > rest+1 {
		out.name = parts[rest+1]
	}
	if len(parts) > rest+2 {
		out.resource += "/" + parts[rest+2]
	}
	return out
}

// verbOf names what a request does, in the words of KubeVirt's metrics.
func (p path) verbOf(r *http.Request) string {
	switch r.Method {
	case http.MethodPost:
		return "CREATE"
	case http.MethodPut:
		return "UPDATE"
	case http.MethodGet:
		switch {
		case r.URL.Query().Get("watch") != "":
			return "WATCH"
		case p.name == "":
			return "LIST"
		}
	}
	return r.Method
}

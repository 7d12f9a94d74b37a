package assess

import (
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
)

// Observation is what an assessment needs to know of a run.
type Observation struct {
	Arm      int // in the plan
	Run      compare.Run
	Requests map[string]float64 // that components counted themselves: "operator: PUT"
	Webhooks Webhooks
}

// Webhooks is the time that admission webhooks took of a run's writes.
type Webhooks struct {
	Calls   float64 // of webhooks
	Seconds float64 // of those calls
	Writes  float64 // seconds of all requests that write
}

// Observe takes what it needs of a run; r is what a comparison knows of it.
func Observe(arm int, r compare.Run, f *run.Facts) Observation {
	o := Observation{Arm: arm, Run: r, Requests: map[string]float64{}}
	for _, s := range f.Series.Named("rest_client_requests_total") {
		if rise, ok := s.Increase(f.Begin, f.End); ok && rise > 0 && s.Target != run.Instrument {
			program, _ := component.Of(s.Target)
			o.Requests[program+": "+strings.ToUpper(s.Label("method"))] += rise
		}
	}
	sum := func(metric string, verbs ...string) (sum float64) {
		for _, s := range f.Series.Select(component.APIServer, metric, nil) {
			if rise, ok := s.Increase(f.Begin, f.End); ok && (len(verbs) == 0 || slices.Contains(verbs, s.Label("verb"))) {
				sum += rise
			}
		}
		return sum
	}
	o.Webhooks = Webhooks{
		Calls:   sum("apiserver_admission_webhook_admission_duration_seconds_count"),
		Seconds: sum("apiserver_admission_webhook_admission_duration_seconds_sum"),
		Writes:  sum("apiserver_request_duration_seconds_sum", "POST", "PUT", "PATCH", "DELETE"),
	}
	return o
}

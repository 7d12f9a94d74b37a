package inventory

import (
	"encoding/json"
	"time"
)

// freshFor is how long after its definition was established a custom resource is not
// created at once: an API server has each such creation sleep for two seconds, so that
// other servers hear of the definition before (apiextensions-apiserver,
// customresource_handler.go). To measure that would be to measure when the run began.
const freshFor = 2 * time.Second

// FreshTime returns for how long a definition, in JSON, is still fresh: freshFor at most,
// since the server's clock may be ahead of ours.
func FreshTime(definition []byte, now time.Time) time.Duration {
	var d struct {
		Status struct {
			Conditions []struct {
				Type, Status       string
				LastTransitionTime time.Time
			}
		}
	}
	if json.Unmarshal(definition, &d) != nil {
		return 0
	}
	for _, c := range d.Status.Conditions {
		if c.Type == "Established" && c.Status == "True" {
			return min(freshFor, max(0, freshFor-now.Sub(c.LastTransitionTime)))
		}
	}
	return 0
}

package plane_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/scenario"
)

// Whoever may scrape a component may have its profiles too; etcd has some when it
// is told to.
func TestProfilesAreServed(t *testing.T) {
	p := real(t, scenario.Plane{Components: map[string]scenario.Component{"etcd": {Flags: map[string]string{"enable-pprof": "true"}}}})
	for _, c := range p.Components() {
		url := strings.TrimSuffix(c.MetricsURL, "/metrics") + "/debug/pprof/goroutine"
		if code, body := get(t, c.Scrape, url); code != http.StatusOK || !strings.HasPrefix(body, "\x1f\x8b") {
			t.Errorf("%s: %d %.100q", c.Name, code, body)
		}
		block := strings.TrimSuffix(url, "goroutine") + "block?debug=1"
		if code, body := get(t, c.Scrape, block); code != http.StatusOK || c.Name != "kube-scheduler" && strings.Contains(body, "sync.") {
			t.Errorf("%s counts blocking, unasked: %d %.200q", c.Name, code, body)
		}
	}
}

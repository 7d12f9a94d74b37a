package workload_test

import (
	"reflect"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/load"
)

// TestClientsOf: what a scenario says of clients, for the load generator.
func TestClientsOf(t *testing.T) {
	const text = `
scenario: x
steps:
- name: own
  requests: &r {count: 1, pace: {burst: true}, mix: [{verb: list, resource: pods}]}
- name: many
  clients: {count: 7, connections: 2, as: {user: "agent-{{.Client}}", groups: [agents, "zone-{{.Client}}"]}, limiter: {qps: 0.7}, userAgent: "agent/{{.Client}}", contentType: json}
  requests: *r
- name: plain
  clients: {name: agents, count: 3}
  requests: *r
`
	w := compileText(t, text)
	if got := w.ClientsOf("own"); got != nil {
		t.Errorf("own: %+v", got)
	}
	for name, want := range map[string]struct {
		load.Clients
		fifth load.Identity
	}{
		"many": {load.Clients{Name: "many", Count: 7, Connections: 2, QPS: 0.7, Burst: 2, Accept: load.JSON},
			load.Identity{User: "agent-5", UserAgent: "agent/5", Groups: []string{"agents", "zone-5"}}},
		"plain": {Clients: load.Clients{Name: "agents", Count: 3, Connections: 3}},
	} {
		got := w.ClientsOf(name)
		if fifth := got.Identity(5); !reflect.DeepEqual(fifth, want.fifth) {
			t.Errorf("%s: client 5 is %+v, want %+v", name, fifth, want.fifth)
		}
		if got.Seed == 0 {
			t.Errorf("%s: no seed", name)
		}
		got.Identity, got.Seed = nil, 0
		if !reflect.DeepEqual(*got, want.Clients) {
			t.Errorf("%s: %+v, want %+v", name, *got, want.Clients)
		}
	}
	if w.CheckSharable(2) == nil {
		t.Error("clients can be shared among workers")
	}
}

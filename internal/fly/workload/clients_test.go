package workload_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
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

// Each client reads by itself, as the scenario says.
func TestReadersOfClients(t *testing.T) {
	w := compileText(t, `
scenario: x
steps:
- name: slow
  clients: {count: 2, reader: {rate: 1Ki, stall: {after: 10s, for: 5s}}}
  requests: {count: 2, pace: {constant: 1}, mix: [{verb: watch, resource: pods}]}
- name: fast
  clients: {count: 2}
  requests: {count: 2, pace: {constant: 1}, mix: [{verb: watch, resource: pods}]}
`)
	if w.ClientsOf("fast").Reader != nil {
		t.Error("clients without a reader do not read at once")
	}
	c := w.ClientsOf("slow")
	a, b := c.Reader(), c.Reader()
	at := func(d time.Duration) clock.Time { return clock.Time(d) }
	a.Begin(at(0))
	b.Begin(at(100 * time.Second))
	if n, _ := a.Read(at(2*time.Second), 10_000); n != 2048 {
		t.Errorf("%d bytes are read in 2 s", n)
	}
	if n, next := a.Read(at(12*time.Second), 10_000); n != 8*1024 || next != at(15*time.Second) {
		t.Errorf("%d bytes are read before the stall, which ends at %v", n, time.Duration(next))
	}
	if n, next := b.Read(at(103*time.Second), 10_000); n != 3*1024 || next != at(103*time.Second) {
		t.Errorf("%d bytes are read by the other client", n)
	}
}

// Clients who have certificates need a plane whose authority windtunnel has.
func TestCertificatesNeedOwnPlane(t *testing.T) {
	const text = `
scenario: x
steps:
- name: agents
  clients: {count: 7, as: {user: "agent-{{.Client}}", method: METHOD}}
  requests: {count: 1, pace: {burst: true}, mix: [{verb: list, resource: pods}]}
`
	const want = `step "agents": clients.as.method: windtunnel cannot issue certificates for a cluster that it did not start`
	w := compileText(t, strings.Replace(text, "METHOD", "certificate", 1))
	if err := w.CheckFaults(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("in a cluster of others: %v", err)
	}
	if !w.ClientsOf("agents").Certificates {
		t.Error("the clients have no certificates")
	}
	w = compileText(t, strings.Replace(text, "METHOD", "impersonation", 1))
	if err := w.CheckFaults(); err != nil || w.ClientsOf("agents").Certificates {
		t.Errorf("impersonation in a cluster of others: %v", err)
	}
}

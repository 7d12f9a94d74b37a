package content

import (
	"fmt"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/scenario"
)

// mapped is the map of members and of a path that two steps measured.
func mapped(t *testing.T, members int) *Map {
	t.Helper()
	calls := &run.Calls{Op: record.Op{Step: "idle", Source: sli.Network}, Lost: 1}
	for i := range 10 {
		calls.Service.Add(time.Duration(i+1) * time.Millisecond)
	}
	calls.Service.Sort()
	calls.Outcomes[record.OK], calls.Outcomes[record.Failed] = 9, 1
	end := func(name, address string) scenario.NetworkEnd {
		return scenario.NetworkEnd{Namespace: name, Address: address}
	}
	path := &scenario.Network{From: end("/run/netns/pod-a", "198.18.1.1"), To: end("", "198.18.2.1")}
	turn := &scenario.Network{From: path.From, To: path.To, Path: "p2p"}
	s := &scenario.Scenario{Steps: []scenario.Step{{Name: "idle", Network: path}, {Name: "full-1", Network: path}, {Name: "skipped", Network: path},
		{Name: "p2p-1", Network: turn}, {Name: "p2p-2", Network: turn}}}
	m := record.Manifest{Members: []record.MembersFact{
		{Name: "far", Count: members - 1, Kind: "hollow", Spread: map[string]int{"region": 2}, Nodes: 5000, RoundTripSeconds: 0.02},
		{Name: "near", Count: 1, Kind: "real", Nodes: 1},
	}}
	m.Fleet.Nodes = 1
	in := &run.Run{Facts: &run.Facts{Calls: []*run.Calls{calls}}, Manifest: m, Scenario: s}
	return newMap(in, slo.Judgement{Measures: slo.Measures{"network_throughput_full_1": {Value: 19.6e9, Unit: "bit/s"},
		"network_turns_round_trip_p50_seconds_p2p": {Value: 53e-6, Unit: "seconds"}}})
}

func TestMap(t *testing.T) {
	m := mapped(t, 3)
	if got := fmt.Sprint(m.Members); got != "[{far-1 [hollow region=region-0 5,000 nodes 20 ms away]} {far-2 [hollow region=region-1 5,000 nodes 20 ms away]} {near-1 [real 1 node]}]" {
		t.Error(got)
	}
	if got := fmt.Sprint(m.Plane, m.Paths); got != "[1 node of its own] [{pod-a 198.18.1.1 198.18.2.1 [idle: 5 ms p50, 10 ms p99, 10 % lost full-1: 19.6 Gbit/s p2p in turns: 53 µs]}]" {
		t.Error(got)
	}
	if newMap(&run.Run{Facts: &run.Facts{}}, slo.Judgement{}) != nil {
		t.Error("a map of nothing")
	}
}

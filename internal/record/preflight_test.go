package record_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/windtunnel/windtunnel/internal/record"
)

// Manifests of kept runs have former words for what the preflight found.
func TestFormerWordsOfPreflight(t *testing.T) {
	want := &record.PreflightFacts{Waited: 1.5, Cluster: "c", ProbeWrites: []float64{0.1, 0.2},
		Findings: []record.PreflightFinding{{Kind: "queues", Text: "3 items wait"}}}
	for name, text := range map[string]string{
		"former": `{"format": 1, "gate": {"clean": false, "waited_seconds": 1.5, "cluster": "c", "canary_seconds": [0.1, 0.2], "faults": [{"kind": "queues", "text": "3 items wait"}]}}`,
		"today":  `{"format": 1, "preflight": {"clean": false, "waited_seconds": 1.5, "cluster": "c", "probe_write_seconds": [0.1, 0.2], "findings": [{"kind": "queues", "text": "3 items wait"}]}}`,
	} {
		var m record.Manifest
		if err := json.Unmarshal([]byte(text), &m); err != nil || m.Format != 1 || !reflect.DeepEqual(m.Preflight, want) {
			t.Errorf("%s: %+v, %v", name, m.Preflight, err)
		}
	}
}

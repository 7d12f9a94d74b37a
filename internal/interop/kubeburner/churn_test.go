package kubeburner

import (
	"fmt"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/scenario"
)

// imported is what becomes of a config whose templates are in testdata.
func imported(t *testing.T, config string) (*scenario.Scenario, []kit.Note) {
	t.Helper()
	s, notes, err := convertConfig("testdata/c.yml", []byte(config), Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, config)
	}
	return s, notes
}

// found returns the step of a name, wherever it is.
func found(t *testing.T, s *scenario.Scenario, name string) *scenario.Step {
	t.Helper()
	for step := range s.AllSteps() {
		if step.Name == name {
			return step
		}
	}
	t.Fatalf("no step %q", name)
	return nil
}

// TestChurn: kube-burner's limiter counts objects, its shares are rounded down but never
// none, and it sleeps after the last cycle too.
func TestChurn(t *testing.T) {
	for _, tt := range []struct {
		job, churn string
		want       string // percent, bodies, waits, the namespaces' step
	}{
		{"", "mode: objects, percent: 100", `100 [] 0 ""`},
		{"", "mode: objects", `0.001 [] 0 ""`}, // one object of each template
		{"", "mode: objects, percent: 33", `33 [] 0 ""`},
		{"", "percent: 50", `50 [] 0 "a-namespaces"`},
		{"", "percent: 45", `25 [] 0 "a-namespaces"`}, // 1.8 of 4
		{"", "percent: 10", `25 [] 0 "a-namespaces"`}, // 0.4 of 4
		{"iterationsPerNamespace: 2", "{}", `50 [] 0 "a-namespaces"`},
		{"namespacedIterations: false", "percent: 10", `100 [] 0 "a-namespaces"`},
	} {
		if tt.churn == "{}" {
			tt.churn = "percent: 0"
		}
		s, _ := imported(t, "jobs:\n- name: a\n  namespace: n\n  jobIterations: 4\n  qps: 5\n  "+tt.job+"\n  churnConfig: {cycles: 2, delay: 3s, "+tt.churn+
			"}\n  objects: [{objectTemplate: templates/config.yml, replicas: 25, inputVars: {size: 1}}]\n")
		x := found(t, s, "a-churn").Churn
		got := fmt.Sprintf("%g %v %d %q", x.Percent, x.Objects, len(x.Wait), x.Namespaces)
		if got != tt.want || !x.PerObject || x.Pace.Constant != 5 || x.Cycles != 2 || found(t, s, "a-pause").Pause != x.Rest {
			t.Errorf("%s, %s: got %s, want %s (%+v)", tt.job, tt.churn, got, tt.want, x)
		}
	}
}

package kubeburner

import (
	"fmt"
	"testing"
	"time"

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

// TestDeletionStrategy: with gvr the objects are deleted before their namespaces, by the job's
// own strategy or by the global one.
func TestDeletionStrategy(t *testing.T) {
	for _, tt := range []struct {
		global, job, churn string
		contents           bool
	}{
		{"default", "", "", false},
		{"gvr", "", "", true},
		{"gvr", "", ", deletionStrategy: default", false},
		{"default", "", ", deletionStrategy: gvr", true},
		{"default", "churn: true\n  churnDeletionStrategy: gvr\n  ", "", true},
	} {
		s, notes := imported(t, "global: {deletionStrategy: "+tt.global+"}\njobs:\n- name: a\n  namespace: n\n  jobIterations: 4\n  qps: 5\n  "+tt.job+
			"churnConfig: {cycles: 2"+tt.churn+"}\n  objects: [{objectTemplate: templates/config.yml, inputVars: {size: 1}}]\n")
		if got := found(t, s, "a-churn").Churn.Contents; got != tt.contents {
			t.Errorf("%+v: contents %t, %v", tt, got, notes)
		}
	}
}

// TestNamespaceDelay: it stands between namespaces, however the job's objects are made.
func TestNamespaceDelay(t *testing.T) {
	const head = "jobs:\n- name: a\n  namespace: n\n  jobIterations: 5\n  iterationsPerNamespace: 2\n  namespaceDelay: 7s\n  qps: 5\n  objects: [{objectTemplate: templates/config.yml, inputVars: {size: 1}}]\n"
	s, _ := imported(t, head)
	if r := found(t, s, "a").Create.Namespaces; time.Duration(r.Pause) != 7*time.Second || r.Each != 2 {
		t.Errorf("%+v", r)
	}
	s, _ = imported(t, head+"  hooks: [{when: onEachIteration, cmd: [\"true\"]}]\n")
	var before []string // a pause
	for i, step := range s.Steps {
		if time.Duration(step.Pause) == 7*time.Second {
			before = append(before, s.Steps[i+2].Name)
		}
	}
	if got := fmt.Sprint(before); got != "[a-2 a-4]" {
		t.Errorf("pauses before %s", got)
	}
	s, _ = imported(t, head+"  namespacedIterations: false\n")
	if r := found(t, s, "a").Create; r.Namespaces != nil || r.Namespace != "n" {
		t.Errorf("%+v", r)
	}
}

// TestBackgroundHooks: they run beside all steps that follow, of later jobs too, and end with
// them. What nothing follows is waited for.
func TestBackgroundHooks(t *testing.T) {
	const object = "  objects: [{objectTemplate: templates/config.yml, inputVars: {size: 1}}]\n"
	s, notes := imported(t, "jobs:\n- name: a\n  namespace: n\n  qps: 5\n"+object+"  hooks: [{when: beforeJobExecution, cmd: [x], background: true}, {when: afterJobExecution, cmd: [y], background: true}]\n"+
		"- name: b\n  namespace: n\n  qps: 5\n"+object+"  hooks: [{when: afterJobExecution, cmd: [z], background: true}]\n")
	outer := found(t, s, "a-before-job-execution-background").Parallel
	if hook := outer[0]; !hook.Beside || hook.Exec.Command[0] != "x" || time.Duration(hook.Exec.Timeout) != held || outer[1].Beside {
		t.Errorf("%+v", outer)
	}
	inner := found(t, s, "a-after-job-execution-background").Parallel
	rest := inner[1].Sequence
	if last := rest[len(rest)-1]; !inner[0].Beside || rest[0].Name != "b-cleanup-namespaces" || last.Exec.Command[0] != "z" || last.Beside || time.Duration(last.Exec.Timeout) != hookWithin {
		t.Errorf("%+v", rest)
	}
	if m := s.Measures[0]; m.Until != "a-verify-config" {
		t.Errorf("job a lasts until %s", m.Until)
	}
	for _, n := range notes {
		if n.Changes {
			t.Errorf("%s", n)
		}
	}
}

package scenario_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestKnownLifecycles checks that every lifecycle that use can name is one that a file
// may declare in full.
func TestKnownLifecycles(t *testing.T) {
	for _, l := range scenario.KnownLifecycles() {
		s := scenario.Default()
		s.Name, s.Namespaces.Prefix = "x", "x"
		s.Lifecycles = []scenario.Lifecycle{l, {Use: l.Name, Name: "again"}}
		s.Steps = []scenario.Step{{Name: "a", OnFailure: "stop", Pause: 1}}
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", l.Name, err)
		}
		if a, b := s.Observed()[0], s.Observed()[1]; fmt.Sprint(a.AllPhases()) != fmt.Sprint(b.AllPhases()) || a.Of != b.Of || len(a.Phases) == 0 {
			t.Errorf("%s: %v is not %v", l.Name, b, a)
		}
	}
}

// TestKnownPhases holds the phases of known lifecycles against objects as the
// plane's own controllers leave them.
func TestKnownPhases(t *testing.T) {
	ready := `"conditions":[{"type":"Complete","status":"True"},{"type":"Ready","status":"True"},{"type":"Failed","status":"False"}]`
	for _, tt := range []struct{ lifecycle, object, want string }{
		{"node", `{"status":{}}`, ""},
		{"node", `{"status":{` + ready + `}}`, "ready"},
		{"job", `{"status":{"startTime":"2026-01-01T00:00:00Z","active":1}}`, "started"},
		{"job", `{"status":{"startTime":"x",` + ready + `}}`, "started complete"},
		{"pvc", `{"status":{"phase":"Pending"}}`, "pending"},
		{"pvc", `{"status":{"phase":"Bound"}}`, "pending bound"},
		{"deployment", `{"metadata":{"generation":1},"spec":{"replicas":2},"status":{}}`, ""},
		{"deployment", `{"metadata":{"generation":1},"spec":{"replicas":2},"status":{"observedGeneration":1,"updatedReplicas":2,"replicas":2,"readyReplicas":1}}`, "updated"},
		{"deployment", `{"metadata":{"generation":2},"spec":{"replicas":2},"status":{"observedGeneration":1,"updatedReplicas":2,"readyReplicas":2}}`, ""},
		{"deployment", `{"metadata":{"generation":1},"spec":{"replicas":0},"status":{"observedGeneration":1}}`, "updated ready available"},
		{"statefulset", `{"metadata":{"generation":1},"spec":{"replicas":2},"status":{"observedGeneration":1,"updatedReplicas":2,"readyReplicas":2}}`, "updated ready"},
		{"daemonset", `{"metadata":{"generation":1},"status":{"observedGeneration":1,"desiredNumberScheduled":3,"currentNumberScheduled":3,"numberReady":2}}`, "scheduled"},
		{"namespace", `{"status":{"phase":"Terminating"}}`, "terminating"},
		{"resourceclaim", `{"status":{"allocation":{},"reservedFor":[{"name":"p"}]}}`, "allocated reserved"},
		{"vmi", `{"status":{"phase":"Scheduled"}}`, "pending scheduling scheduled"},
		{"vmi", `{"status":{"phase":"Running",` + ready + `}}`, "pending scheduling scheduled running ready"},
		{"vmi", `{"status":{"phase":"Failed"}}`, "failed"},
		{"vmim", `{"status":{"phase":"TargetReady"}}`, "pending scheduling scheduled preparingTarget targetReady"},
		{"app", `{"metadata":{"finalizers":["app.oam.dev/resource-tracker-finalizer"]}}`, "finalized"},
		{"app", `{"metadata":{"finalizers":["app.oam.dev/resource-tracker-finalizer"]},"status":{"latestRevision":{},"status":"rendering"}}`, "finalized revised"},
		{"app", `{"metadata":{"finalizers":["app.oam.dev/resource-tracker-finalizer"]},"status":{"latestRevision":{},"status":"running"}}`, "finalized revised runningWorkflow running"},
		{"app", `{"status":{"status":"workflowFailed"}}`, "failed"},
		{"edgepod", `{"spec":{},"status":{"phase":"Pending"}}`, ""},
		{"edgepod", `{"spec":{"nodeName":"edge-0"},"status":{"phase":"Pending"}}`, "bound"},
		{"edgepod", `{"spec":{"nodeName":"edge-0"},"status":{"phase":"Running",` + ready + `}}`, "bound running ready"},
		{"volumesnapshot", `{"status":{"readyToUse":true}}`, "ready"},
	} {
		var got []string
		for _, p := range (scenario.Lifecycle{Use: tt.lifecycle}).Resolved().Phases {
			if p.On != "" {
				continue
			}
			c := repotest.Must(scenario.ParseCondition(p.When))(t)
			if holds, err := c.Holds([]byte(tt.object)); err != nil {
				t.Errorf("%s %s: %v", tt.lifecycle, p.Name, err)
			} else if holds {
				got = append(got, p.Name)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s %s: %v, want %s", tt.lifecycle, tt.object, got, tt.want)
		}
	}
}

func TestKeys(t *testing.T) {
	object := repotest.Must(scenario.DecodeObject([]byte(`{"metadata":{"name":"a","namespace":"n","labels":{"app":"x"}},"spec":{"n":3}}`)))(t)
	for _, tt := range []struct{ text, want string }{
		{`self.metadata.namespace + "/" + object.metadata.labels.app`, "n/x"},
		{`self.metadata.labels.none`, ""},
		{`self.spec.n`, "key: the result is a int; a text is wanted"},
		{`"n-" + string(self.spec.n)`, "n-3"},
	} {
		k := repotest.Must(scenario.ParseKey(tt.text))(t)
		got, err := k.Of(object)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.text, got, tt.want)
		}
	}
}

// TestTheGuideIsValid reads the scenario in docs/how-to/lifecycles.md.
func TestTheGuideIsValid(t *testing.T) {
	raw := repotest.Must(os.ReadFile("../docs/how-to/lifecycles.md"))(t)
	_, text, _ := strings.Cut(string(raw), "```yaml\n")
	text, _, ok := strings.Cut(text, "```")
	s, err := scenario.Parse("docs/how-to/lifecycles.md", []byte("scenario: guide\nsteps: [{pause: 1s}]\n"+text), nil)
	if !ok || err != nil || len(s.Lifecycles) != 3 || len(s.Objectives) != 3 {
		t.Fatalf("%v %v", ok, err)
	}
	for _, l := range scenario.KnownLifecycles() {
		if !strings.Contains(text, l.Name) {
			t.Errorf("the known lifecycle %s is not named", l.Name)
		}
	}
}

package plan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/definitions"
	"github.com/windtunnel/windtunnel/planes/app/internal/plan"
	"github.com/windtunnel/windtunnel/planes/app/internal/workflow"
)

// tools find the definitions of the plane.
func tools(t *testing.T) plan.Tools {
	t.Helper()
	all := repotest.Must(definitions.All())(t)
	return plan.Tools{
		Namespaced: func(schema.GroupVersionKind) (bool, error) { return true, nil },
		Find: func(kind, _, name string) (*api.Definition, error) {
			for _, d := range all {
				if d.Kind == kind && d.Name == name {
					return d, nil
				}
			}
			return nil, fmt.Errorf("%s %q: %w", kind, name, errors.ErrUnsupported)
		},
	}
}

// parse returns the plan of an application and its steps.
func parse(t *testing.T, spec string) (*plan.Plan, *workflow.Graph, error) {
	t.Helper()
	app := &api.Application{}
	app.Name, app.Namespace = "app", "n"
	repotest.NoError(t, json.Unmarshal([]byte(spec), &app.Spec))
	p, err := plan.New(app, app.Spec.Workflow, tools(t))
	if err != nil {
		return nil, nil, err
	}
	if err := p.ReadPolicies(); err != nil {
		return nil, nil, err
	}
	g, err := p.Graph()
	return p, g, err
}

const (
	componentC = `"components":[{"name":"c","type":"k8s-objects"}]`
	applyC     = `{"name":"c","type":"apply-component","properties":{"component":"c"}`
)

// TestRefusals holds what is said of applications that cannot be carried out.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct{ rest, want string }{
		{`"workflow":{"steps":[` + applyC + `,"timeout":"soon"}]}`, `step c: timeout "soon": want a duration above 0`},
		{`"workflow":{"steps":[` + applyC + `,"dependsOn":["d"]}]}`, "step c depends on d, which is not there"},
		{`"workflow":{"steps":[` + applyC + `,"dependsOn":["w"]},{"name":"w","type":"suspend"}]}`, "waits for itself, by way of others"},
		{`"workflow":{"steps":[` + applyC + `,"inputs":[{"from":"x"}]}]}`, "step c: input x: no step gives it"},
		{`"workflow":{"steps":[` + applyC + `},` + applyC + `}]}`, "step c is there twice"},
		{`"workflow":{"steps":[` + applyC + `,"subSteps":[` + applyC + `}]}]}`, "only one of type step-group has them"},
		{`"workflow":{"steps":[{"name":"g","type":"step-group","subSteps":[{"name":"h","type":"step-group"}]}]}`, "step g: a group within a group"},
		{`"workflow":{"mode":{"steps":"Random"},"steps":[` + applyC + `}]}`, `mode "Random": want DAG or StepByStep`},
		{`"workflow":{"steps":[{"name":"w","type":"suspend","properties":{"duration":"-1s"}}]}`, `step w: duration "-1s"`},
		{`"workflow":{"steps":[{"name":"c","type":"apply-component","properties":{"component":"d"}}]}`, `step c: no component "d"`},
		{`"workflow":{"steps":[{"name":"d","type":"deploy","properties":{"policies":["p"]}}]}`, `step d: no policy "p" of type topology or override`},
		{`"workflow":{"steps":[{"name":"n","type":"notify"}]}`, `step n: WorkflowStepDefinition "notify": `},
		{`"policies":[{"name":"o","type":"override","properties":{"components":[{"name":"d"}]}}]`, `policy o: no component has the name "d" or the type ""`},
		{`"policies":[{"name":"o","type":"override","properties":{"components":[{"name":"c","type":"webservise"}]}}]`, `policy o: component c: ComponentDefinition "webservise": `},
		{`"policies":[{"name":"o","type":"override","properties":{"selector":["d"]}}]`, `policy o: selector: no component "d"`},
	} {
		if _, _, err := parse(t, `{`+componentC+`,`+tt.rest+`}`); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.rest, err, tt.want)
		}
	}
}

// TestConditions holds what the condition of a step can ask, and what is said of one
// that cannot be evaluated.
func TestConditions(t *testing.T) {
	statuses := map[string]api.StepStatus{
		"u-1": {Phase: api.StepFailed, Reason: workflow.ReasonTimeout}, "u-2": {Phase: api.StepSkipped, Reason: workflow.ReasonSkip},
		"u-3": {Phase: api.StepSucceeded}, "u-4": {Phase: api.StepFailed, Reason: workflow.ReasonRetries},
	}
	p, _, err := parse(t, `{"components":[
		{"name":"u-1","type":"worker"},{"name":"u-2","type":"worker"},{"name":"u-3","type":"worker","outputs":[{"name":"word","valueFrom":"1"}]},{"name":"u-4","type":"worker"}]}`)
	repotest.NoError(t, err)
	for _, tt := range []struct {
		condition string
		runs      bool
		fails     string
	}{
		{`status["u-1"].failed`, true, ""},
		{`status.u_1.timeout && !status.u_1.succeeded`, true, ""},
		{`status.u_2.skipped && context.appName == "app"`, true, ""},
		{`status.u_3.failed`, false, ""},
		{`status.u_4.failedAfterRetries && status.u_4.phase == "failed"`, true, ""},
		{`inputs.word == "hello"`, true, ""},
		{`status.nobody.failed`, false, `if "status.nobody.failed": template: `},
		{`1`, false, `if "1": it is 1: want true or false`},
	} {
		s := &workflow.Step{Step: api.Step{Name: "s", If: tt.condition, Inputs: []api.StepInput{{From: "word"}}}}
		runs, err := p.Condition(s, statuses, map[string]json.RawMessage{"word": json.RawMessage(`"hello"`)})
		if runs != tt.runs || (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%s: %v, %v; want %v %s", tt.condition, runs, err, tt.runs, tt.fails)
		}
	}
	s := &workflow.Step{Step: api.Step{Name: "s", If: "true", Inputs: []api.StepInput{{From: "word"}}}}
	if _, err := p.Condition(s, statuses, nil); err == nil || err.Error() != "if: input word: no step gave it" {
		t.Errorf("without its input: %v", err)
	}
}

// TestOutputs holds what a step gives to others, and where another takes it.
func TestOutputs(t *testing.T) {
	p, g, err := parse(t, `{"components":[
		{"name":"giver","type":"k8s-objects","properties":{"objects":[]},"outputs":[{"name":"word","valueFrom":"output.data.word + \" \" + context.appName"}]},
		{"name":"taker","type":"k8s-objects","properties":{"objects":[{}]},"inputs":[
			{"from":"word","parameterKey":"objects[0].data.word"},{"from":"context.namespace","parameterKey":"objects[0].metadata.annotations[\"a/b\"]"}]},
		{"name":"wrong","type":"k8s-objects","outputs":[{"name":"none","valueFrom":"output.data.nothing"}]}]}`)
	repotest.NoError(t, err)
	giver, taker, wrong := g.All()[0], g.All()[1], g.All()[2]
	made := plan.Objects{Output: map[string]any{"data": map[string]any{"word": "hello"}}}
	task := func(s *workflow.Step, outputs map[string]json.RawMessage) plan.Task {
		t.Helper()
		return repotest.Must(p.Fill(s, outputs))(t)
	}
	outputs, err := p.Outputs(giver, task(giver, nil), made)
	if err != nil || string(outputs["word"]) != `"hello app"` {
		t.Fatalf("%s, %v", outputs["word"], err)
	}
	repotest.Equal(t, string(task(taker, outputs).Component.Properties), `{"objects":[{"data":{"word":"hello app"},"metadata":{"annotations":{"a/b":"n"}}}]}`, "taken")
	if _, err := p.Fill(taker, nil); err == nil || err.Error() != "input word: no step gave it" {
		t.Errorf("without the value: %v", err)
	}
	if _, err := p.Outputs(wrong, task(wrong, nil), made); err == nil || !strings.Contains(err.Error(), "output none: template: ") {
		t.Errorf("of what is not there: %v", err)
	}
	if len(taker.DependsOn) != 1 || taker.DependsOn[0] != "giver" {
		t.Errorf("taker depends on %v", taker.DependsOn)
	}
}

// TestRenderNothing holds that a definition that renders no object is an error.
func TestRenderNothing(t *testing.T) {
	p, g, err := parse(t, `{"components":[{"name":"c","type":"worker"}]}`)
	repotest.NoError(t, err)
	task := repotest.Must(p.Fill(g.All()[0], nil))(t)
	p.Definitions[api.KindComponent]["worker"] = &api.Definition{}
	if got, err := p.Render(*task.Component, task.At); err == nil || err.Error() != "component c: definition worker renders no object" {
		t.Errorf("%d objects, %v", len(got), err)
	}
}

// joined are clusters by name, with their label region.
type joined map[string]string

// Has says whether a cluster is among them.
func (j joined) Has(name string) bool { return j[name] != "" }

// Matching returns those of a region.
func (j joined) Matching(labels map[string]string) (out []string) {
	for _, name := range []string{"m-1", "m-2"} {
		if j[name] == labels["region"] {
			out = append(out, name)
		}
	}
	return out
}

// TestTargets holds where the components of an application go.
func TestTargets(t *testing.T) {
	clusters := joined{"m-1": "north", "m-2": "south"}
	for _, tt := range []struct{ policies, want, fails string }{
		{``, "[{ }]", ""},
		{`{"name":"t","type":"topology","properties":{"clusters":["m-1","local","m-1"]}}`, "[{m-1 } { }]", ""},
		{`{"name":"t","type":"topology","properties":{"clusterLabelSelector":{"region":"south"},"namespace":"x"}}`, "[{m-2 x}]", ""},
		{`{"name":"t","type":"topology","properties":{"namespace":"x"}}`, "[{ x}]", ""},
		{`{"name":"t","type":"topology","properties":{"clusterLabelSelector":{"region":"west"},"allowEmpty":true}}`, "[]", ""},
		{`{"name":"t","type":"topology","properties":{"clusterLabelSelector":{"region":"west"}}}`, "", "policy t: no cluster matches labels region=west"},
		{`{"name":"t","type":"topology","properties":{"clusters":["m-9"]}}`, "", `policy t: cluster "m-9": no such cluster has joined`},
	} {
		p, g, err := parse(t, `{`+componentC+`,"policies":[{"name":"o","type":"override"}`+strings.TrimSuffix(","+tt.policies, ",")+`]}`)
		repotest.NoError(t, err)
		task := repotest.Must(p.Fill(g.All()[0], nil))(t)
		all, err := p.Targets(*task.Deploy, clusters)
		places := []plan.Place{}
		for _, target := range all {
			places = append(places, target.At)
		}
		if tt.fails != "" && (err == nil || err.Error() != tt.fails) || tt.fails == "" && (err != nil || fmt.Sprint(places) != tt.want) {
			t.Errorf("%s: %v, %v; want %s%s", tt.policies, places, err, tt.want, tt.fails)
		}
	}
}

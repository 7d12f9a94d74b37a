package app_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
)

// holding returns a component that is one ConfigMap of its name. It has what
// properties say beside id.
func holding(name string, data ...string) api.Component {
	fields := map[string]any{"id": name}
	for i := 0; i+1 < len(data); i += 2 {
		fields[data[i]] = data[i+1]
	}
	raw, _ := json.Marshal(map[string]any{"objects": []any{map[string]any{ // maps of strings always have JSON
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": fields,
	}}})
	return api.Component{Name: name, Type: "k8s-objects", Properties: raw}
}

// barred returns a component that the API server refuses.
func barred(name string) api.Component {
	c := holding(name)
	c.Properties = json.RawMessage(strings.Replace(string(c.Properties), `"name":"`+name, `"name":"No-`+name, 1))
	return c
}

// apply returns the step that delivers a component of its name.
func apply(name string) api.Step {
	return api.Step{Name: name, Type: "apply-component", Properties: json.RawMessage(`{"component":"` + name + `"}`)}
}

func suspend(name, properties string) api.Step {
	return api.Step{Name: name, Type: "suspend", Properties: json.RawMessage(properties)}
}

// flown is an application with a workflow and what it comes to.
type flown struct {
	name       string
	components []api.Component
	policies   []api.Policy
	workflow   *api.Workflow
	phase      api.Phase
	message    string   // in the status of the workflow
	steps      []string // NAME PHASE REASON, those within groups behind their group
	made       []string // ConfigMaps that there are
}

func (f flown) application() *api.Application {
	o := &api.Application{TypeMeta: api.TypeOf(api.KindApplication)}
	o.Namespace, o.Name = "default", f.name
	o.Spec = api.ApplicationSpec{Components: f.components, Policies: f.policies, Workflow: f.workflow}
	return o
}

func stepsOf(all []api.StepStatus) (out []string) {
	for _, s := range all {
		out = append(out, strings.TrimSpace(s.Name+" "+s.Phase+" "+s.Reason))
		out = append(out, stepsOf(s.SubSteps)...)
	}
	return out
}

// configMaps returns the names of an application's.
func (r *rig) configMaps(name string) (out []string) {
	r.t.Helper()
	all := repotest.Must(r.client.Core.ConfigMaps("default").List(r.t.Context(), metav1.ListOptions{LabelSelector: api.LabelName + "=" + name}))(r.t)
	for _, cm := range all.Items {
		out = append(out, cm.Name)
	}
	slices.Sort(out)
	return out
}

// comesTo waits for what an application is to come to.
func (r *rig) comesTo(f flown) {
	r.t.Helper()
	var o *api.Application
	repotest.Eventually(r.t, f.name+" is "+string(f.phase), func() bool {
		o = r.get(f.name)
		return o.Status.Phase == f.phase && o.Status.ObservedGeneration == o.Generation
	}, func() any { return fmt.Sprintf("%+v", o.Status) })
	if f.steps != nil && !slices.Equal(stepsOf(o.Status.Workflow.Steps), f.steps) {
		r.t.Errorf("%s: steps are %q, want %q", f.name, stepsOf(o.Status.Workflow.Steps), f.steps)
	}
	if w := o.Status.Workflow; w != nil && !strings.Contains(w.Message, f.message) {
		r.t.Errorf("%s: the workflow says %q, want %q", f.name, w.Message, f.message)
	}
	repotest.Equal(r.t, r.configMaps(f.name), f.made, "%s made", f.name)
}

// TestValues holds that what a step gives comes where another takes it, from a
// workflow's steps and groups, from components, in the order of what they need, and after the
// state of the workflow was lost.
func TestValues(t *testing.T) {
	t.Parallel()
	r, _ := hollowRig(t)
	c := r.run(func(*controller.Options) {})
	give := holding("giver", "word", "hello")
	give.Outputs = []api.StepOutput{{Name: "word", ValueFrom: `output.data.word + " " + context.appName`}, {Name: "uid", ValueFrom: "output.metadata.uid"}}
	take := holding("taker")
	take.Inputs = []api.StepInput{
		{From: "word", ParameterKey: "objects[0].data.word"}, {From: "uid", ParameterKey: `objects[0].metadata.annotations["giver/uid"]`},
		{From: "context.namespace", ParameterKey: "objects[0].data.where"},
	}
	taken := func(app, name string) {
		t.Helper()
		cm, err := r.client.Core.ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || cm.Data["word"] != "hello "+app || cm.Data["where"] != "default" || cm.Annotations["giver/uid"] == "" {
			t.Errorf("%s took %v %v (%v)", name, cm.Data, cm.Annotations, err)
		}
	}
	f := flown{name: "values", components: []api.Component{take, give}, phase: api.Running, made: []string{"giver", "taker"}, steps: []string{"taker succeeded", "giver succeeded"}}
	r.make(f.application())
	r.comesTo(f)
	taken("values", "taker")
	r.delete("values")

	f.name = "lost"
	f.workflow = &api.Workflow{Steps: []api.Step{apply("giver"), suspend("wait", `{}`), apply("taker")}}
	f.workflow.Steps[2].If = `inputs.word == "hello lost"`
	f.steps = []string{"giver succeeded", "wait succeeded", "taker succeeded"}
	r.make(f.application())
	r.becomes("lost", api.WorkflowSuspending)
	repotest.NoError(t, r.client.Core.ConfigMaps("default").Delete(t.Context(), "workflow-lost-context", metav1.DeleteOptions{}))
	r.patch("lost", []byte(`{"status":{"workflow":{"suspend":false}}}`), "status")
	r.comesTo(f)
	taken("lost", "taker")
	r.delete("lost")
	c.stop()

	r.run(func(o *controller.Options) { o.Features.InMemoryContext = true })
	f.name, f.workflow.Steps[2].If = "memory", ""
	f.workflow.Steps[0] = api.Step{Name: "group", Type: "step-group", SubSteps: []api.Step{apply("giver")}}
	f.steps = append([]string{"group succeeded"}, f.steps...)
	r.make(f.application())
	r.becomes("memory", api.WorkflowSuspending)
	r.patch("memory", []byte(`{"status":{"workflow":{"suspend":false}}}`), "status")
	r.comesTo(f)
	taken("memory", "taker")
}

// TestSuspension holds that a suspended workflow goes on when somebody resumes it or
// its time is over, ends when somebody ends it, and that what it made is kept meanwhile.
func TestSuspension(t *testing.T) {
	t.Parallel()
	r, _ := hollowRig(t)
	r.run(func(o *controller.Options) { o.Resync = time.Second })
	make := func(name, properties string) flown {
		f := flown{name: name, components: []api.Component{holding(name + "-1"), holding(name + "-2")}, workflow: &api.Workflow{
			Steps: []api.Step{apply(name + "-1"), suspend("wait", properties), apply(name + "-2")},
		}}
		r.make(f.application())
		return f
	}
	resumed, ended, lasting := make("resumed", `{}`), make("ended", `{}`), make("lasting", `{"duration":"2s"}`)
	for _, f := range []*flown{&resumed, &ended} {
		f.phase, f.made, f.steps = api.WorkflowSuspending, []string{f.name + "-1"}, []string{f.name + "-1 succeeded", "wait running Suspend"}
		r.comesTo(*f)
	}
	repotest.NoError(t, r.client.Core.ConfigMaps("default").Delete(t.Context(), "resumed-1", metav1.DeleteOptions{}))
	repotest.Eventually(t, "what a suspended application made comes back", func() bool { return slices.Equal(r.configMaps("resumed"), []string{"resumed-1"}) })
	r.patch("resumed", []byte(`{"status":{"workflow":{"suspend":false}}}`), "status")
	r.patch("ended", []byte(`{"status":{"workflow":{"suspend":false,"terminated":true}}}`), "status")
	for _, f := range []*flown{&resumed, &lasting} {
		f.phase, f.made = api.Running, []string{f.name + "-1", f.name + "-2"}
		f.steps = []string{f.name + "-1 succeeded", "wait succeeded", f.name + "-2 succeeded"}
		r.comesTo(*f)
	}
	ended.phase, ended.message, ended.steps = api.WorkflowTerminated, "somebody ended it", []string{"ended-1 succeeded", "wait failed Terminate"}
	r.comesTo(ended)
}

// TestReference holds that an application takes the steps of the Workflow that it
// refers to, into its revision too, and follows a change of it.
func TestReference(t *testing.T) {
	t.Parallel()
	r, _ := hollowRig(t)
	r.run(func(o *controller.Options) { o.Resync = time.Second })
	f := flown{name: "refers", components: []api.Component{holding("r-1"), holding("r-2")}, workflow: &api.Workflow{Ref: "steps"}}
	r.make(f.application())
	repotest.Eventually(t, "it says what it misses", func() bool {
		return slices.ContainsFunc(r.get("refers").Status.Conditions, func(c api.Condition) bool {
			return c.Type == "Parsed" && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, `workflow: ref steps: workflows.core.oam.dev "steps" not found`)
		})
	})
	c := repotest.Must(dynamic.NewForConfig(r.config))(t)
	workflows := c.Resource(api.ExternalVersion().WithResource("workflows")).Namespace("default")
	steps := func(names ...string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "core.oam.dev/v1alpha1", "kind": "Workflow", "metadata": map[string]any{"name": "steps"}}}
		var all []any
		for _, name := range names {
			all = append(all, map[string]any{"name": name, "type": "apply-component", "properties": map[string]any{"component": name}})
		}
		o.Object["steps"] = all
		return o
	}
	made := repotest.Must(workflows.Create(t.Context(), steps("r-1"), metav1.CreateOptions{}))(t)
	f.phase, f.made, f.steps = api.Running, []string{"r-1"}, []string{"r-1 succeeded"}
	r.comesTo(f)
	rev, err := r.client.Revisions.Get(t.Context(), "default", "refers-v1")
	if err != nil || rev.Spec.Workflow == nil || len(rev.Spec.Workflow.Steps) != 1 {
		t.Errorf("%v: the revision holds %+v", err, rev.Spec.Workflow)
	}
	more := steps("r-2", "r-1")
	more.SetResourceVersion(made.GetResourceVersion())
	repotest.Must(workflows.Update(t.Context(), more, metav1.UpdateOptions{}))(t)
	repotest.Eventually(t, "it follows", func() bool {
		w := r.get("refers").Status.Workflow
		return w != nil && w.AppRevision == "refers-v2" && w.Finished
	})
	f.made, f.steps = []string{"r-1", "r-2"}, []string{"r-2 succeeded", "r-1 succeeded"}
	r.comesTo(f)
}

// TestOverrides holds that a deploy step delivers components as its overrides want
// them, elsewhere than at home too.
func TestOverrides(t *testing.T) {
	t.Parallel()
	r, members := hollowRig(t, "m-1")
	r.join(members, nil)
	r.gateway(false)
	r.run(direct)
	policy := func(name, kind, properties string) api.Policy {
		return api.Policy{Name: name, Type: kind, Properties: json.RawMessage(properties)}
	}
	replicas := func(in string, name string) int32 {
		t.Helper()
		client := r.hub()
		if in != "" {
			client = members[in]
		}
		d := repotest.Must(client.AppsV1().Deployments("default").Get(t.Context(), name, metav1.GetOptions{}))(t)
		return *d.Spec.Replicas
	}
	o := application(t, "over", "light", 1)
	o.Spec.Policies = []api.Policy{
		policy("here", "topology", `{"clusters":["local"]}`), policy("there", "topology", `{"clusters":["m-1"]}`),
		policy("none", "override", `{"components":[{"type":"webservice","traits":[{"type":"scaler","disable":true}]}]}`),
		policy("more", "override", `{"components":[{"name":"over-.*","properties":{"image":"busybox"},"traits":[{"type":"scaler","properties":{"replicas":3}}]},
			{"name":"added","type":"worker","properties":{"image":"busybox","cmd":["sleep","1"]},"traits":[{"type":"scaler","properties":{"replicas":0}}]}],"selector":["over-v1","added"]}`),
	}
	o.Spec.Workflow = &api.Workflow{Steps: []api.Step{
		{Name: "first", Type: "deploy", Properties: json.RawMessage(`{"policies":["here"]}`)},
		{Name: "second", Type: "deploy", Properties: json.RawMessage(`{"policies":["more","there"]}`)},
	}}
	r.make(o)
	r.becomes("over", api.Running)
	if got := [3]int32{replicas("", "over-v1"), replicas("m-1", "over-v1"), replicas("m-1", "added")}; got != [3]int32{0, 3, 0} {
		t.Errorf("they have %v replicas", got)
	}
	if got := holds(t, members["m-1"], "default", "over"); got != [3]int{2, 0, 0} {
		t.Errorf("in the member there are %v", got)
	}
	if got := holds(t, r.hub(), "default", "over"); got != [3]int{1, 1, 1} {
		t.Errorf("at home there are %v", got)
	}
	o = application(t, "home", "light", 1)
	o.Spec.Policies = []api.Policy{policy("more", "override", `{"components":[{"name":"home-v1","traits":[{"type":"scaler","properties":{"replicas":2}}]}]}`)}
	r.make(o)
	r.becomes("home", api.Running)
	if got := replicas("", "home-v1"); got != 2 {
		t.Errorf("at home it has %d replicas", got)
	}
}

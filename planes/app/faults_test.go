package app_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// hospital is a controller with healthy applications, beside which bad ones are put.
type hospital struct {
	*rig
	log    *planetest.Lines
	others []string
}

func newHospital(t *testing.T, r *rig, change func(*controller.Options)) *hospital {
	t.Helper()
	h := &hospital{rig: r, log: &planetest.Lines{Also: t.Output()}}
	r.run(func(o *controller.Options) {
		o.NoEvents, o.Log = false, slog.New(slog.NewTextHandler(h.log, nil))
		change(o)
	})
	for i := range 5 {
		h.others = append(h.others, fmt.Sprint("other-", i))
		r.create(h.others[i], "light")
	}
	for _, name := range h.others {
		r.becomes(name, api.Running)
	}
	return h
}

// pace deletes what each of the others made, three times, brings them into the queue
// and returns how long it takes until all of it is back.
func (h *hospital) pace() (took time.Duration) {
	h.t.Helper()
	for range 3 {
		took += h.round()
	}
	return took
}

// round does so once.
func (h *hospital) round() time.Duration {
	h.t.Helper()
	begin := time.Now()
	for _, name := range h.others {
		// Not its ConfigMap: an application that wants the same one must find it there.
		if err := h.client.Core.Secrets("default").Delete(h.t.Context(), "secret-"+name, metav1.DeleteOptions{}); err != nil {
			h.t.Fatal(err)
		}
		h.touch(name)
	}
	for _, name := range h.others {
		repotest.Eventually(h.t, "drift of "+name+" is repaired", func() bool {
			_, err := h.client.Core.Secrets("default").Get(h.t.Context(), "secret-"+name, metav1.GetOptions{})
			return err == nil
		})
	}
	return time.Since(begin)
}

// symptom is what is to be seen of a bad application: where it is not said, nothing is asked.
type symptom struct {
	phase     api.Phase
	condition string // type of a condition that is False and has the message
	step      string // name of a step that has the message
	message   string
	event     string   // reason of an event that has the message
	log       string   // what a line with the message says, too
	tracked   []string // names of all objects that resource trackers hold
}

func (h *hospital) shows(name string, s symptom) {
	h.t.Helper()
	var o *api.Application
	repotest.Eventually(h.t, name+" says "+s.message, func() bool {
		o = h.get(name)
		said := s.condition == "" || slices.ContainsFunc(o.Status.Conditions, func(c api.Condition) bool {
			return c.Type == s.condition && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, s.message)
		})
		if s.step != "" {
			said = said && o.Status.Workflow != nil && slices.ContainsFunc(o.Status.Workflow.Steps, func(t api.StepStatus) bool {
				return t.Name == s.step && strings.Contains(t.Message, s.message)
			})
		}
		return said && (s.phase == "" || o.Status.Phase == s.phase)
	})
	h.tells(name, s)
	h.round() // the others are looked after meanwhile
}

// tells waits for the event of a symptom and for its line of the log.
func (h *hospital) tells(name string, s symptom) {
	h.t.Helper()
	if s.event != "" {
		repotest.Eventually(h.t, "event "+s.event+" of "+name, func() bool {
			all, err := h.client.Core.Events("default").List(h.t.Context(), metav1.ListOptions{})
			return err == nil && slices.ContainsFunc(all.Items, func(e corev1.Event) bool {
				return e.InvolvedObject.Name == name && e.Reason == s.event && e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, s.message)
			})
		})
	}
	if s.log != "" {
		quoted := strings.ReplaceAll(s.message, `"`, `\"`)
		repotest.Eventually(h.t, "a line of the log", func() bool { return h.log.Has(name, s.log, quoted) })
	}
}

// tracked returns the names of what the resource tracker of an application holds.
func (r *rig) tracked(name string) (out []string) {
	r.t.Helper()
	tracker, err := r.client.Trackers.Get(r.t.Context(), "", name+"-v1-default")
	if err != nil && !apierrors.IsNotFound(err) {
		r.t.Fatal(err)
	}
	if err == nil {
		for _, m := range tracker.Spec.ManagedResources {
			out = append(out, m.Name)
		}
	}
	return out
}

// bad are applications with which something is wrong from the beginning.
func bad(t testing.TB) map[string]struct {
	app  *api.Application
	says symptom
} {
	light := func(name string, change func(*api.Application)) *api.Application {
		o := application(t, name, "light", 1)
		change(o)
		return o
	}
	one := func(name string, all ...api.Component) *api.Application {
		return flown{name: name, components: all}.application()
	}
	under := func(name, policy string) *api.Application {
		return flown{name: name, components: []api.Component{holding(name)}, policies: []api.Policy{{Name: "p", Type: policy}}}.application()
	}
	typed := func(kind, properties string) api.Component {
		return api.Component{Name: "c", Type: kind, Properties: json.RawMessage(properties)}
	}
	late := flown{name: "slow", components: []api.Component{typed("never", `{}`)}, workflow: &api.Workflow{Steps: []api.Step{
		{Name: "c", Type: "apply-component", Properties: json.RawMessage(`{"component":"c"}`), Timeout: "2s"},
	}}}.application()
	rests := flown{name: "rests", components: []api.Component{holding("rests")}, workflow: &api.Workflow{Steps: []api.Step{
		suspend("wait", `{}`), apply("rests"),
	}}}.application()
	return map[string]struct {
		app  *api.Application
		says symptom
	}{
		"component": {light("component", func(o *api.Application) { o.Spec.Components[0].Type = "webservise" }), symptom{
			phase: api.Rendering, condition: "Parsed", message: `ComponentDefinition "webservise": not found`, event: "FailedParse", log: "level=WARN",
		}},
		"trait": {light("trait", func(o *api.Application) { o.Spec.Components[0].Traits[0].Type = "scalar" }), symptom{
			phase: api.Rendering, condition: "Parsed", message: `TraitDefinition "scalar": not found`, event: "FailedParse", log: "level=WARN",
		}},
		"step": {light("step", func(o *api.Application) {
			o.Spec.Workflow = &api.Workflow{Steps: []api.Step{{Name: "s", Type: "resume"}}}
		}), symptom{
			phase: api.Rendering, condition: "Parsed", message: `step s: WorkflowStepDefinition "resume": not found`, event: "FailedParse", log: "level=WARN",
		}},
		"policy": {under("policy", "apply-twice"), symptom{
			phase: api.Rendering, condition: "Parsed", message: `policy p: PolicyDefinition "apply-twice": not found`, event: "FailedParse", log: "level=WARN",
		}},
		"undone": {under("undone", "replication"), symptom{
			phase: api.Rendering, condition: "Parsed", message: "policy p: type replication is not one that the plane carries out", event: "FailedParse", log: "level=WARN",
		}},
		"template":  {one("template", typed("broken", `{}`)), symptom{step: "c", message: "component c: template: expected", event: "FailedWorkflow", log: "step failed and is tried again"}},
		"parameter": {one("parameter", typed("webservice", `{"image":5}`)), symptom{step: "c", message: "component c: template: parameter.image: ", event: "FailedWorkflow", log: "step failed and is tried again"}},
		"refused": {one("refused", barred("c"), holding("taken")), symptom{
			step: "c", message: "component c: apply ConfigMap No-c: ", event: "FailedWorkflow", log: "step failed and is tried again", tracked: []string{"taken"},
		}},
		"foreign": {one("foreign", holding("cm-other-0")), symptom{step: "cm-other-0", message: "ConfigMap default/cm-other-0 is managed by application default/other-0", event: "FailedWorkflow", log: "step failed and is tried again"}},
		"unhealthy": {one("unhealthy", typed("never", `{}`)), symptom{
			phase: api.RunningWorkflow, step: "c", message: "it never is", event: "FailedHealthCheck", log: "step waits for health", tracked: []string{"unhealthy"},
		}},
		"slow": {late, symptom{
			phase: api.WorkflowFailed, condition: "Workflow", message: "not done within 2s: it never is", event: "FailedWorkflow", log: "step failed", tracked: []string{"slow"},
		}},
		"rests": {rests, symptom{
			phase: api.WorkflowSuspending, step: "wait", message: "suspends the workflow until somebody resumes it", event: "WorkflowSuspended", log: "workflow is suspended",
		}},
		"nowhere": {to(t, "nowhere", `{"clusters":["m-9"]}`), symptom{
			step: "deploy-where", message: `policy where: cluster "m-9": no such cluster has joined`, event: "FailedWorkflow", log: "step failed and is tried again",
		}},
	}
}

// define puts definitions into the namespace of the applications: a component that is
// no CUE, one whose objects are never healthy, and a policy that nobody carries out.
func (r *rig) define() {
	r.t.Helper()
	var all []*api.Definition
	add := func(kind, name, template string, status *api.DefinitionStatus) {
		spec := api.DefinitionSpec{Schematic: &api.Schematic{CUE: &api.CUE{Template: template}}, Status: status}
		if kind == api.KindComponent {
			spec.Workload = &api.Workload{Type: "autodetects.k8s.io"}
		}
		all = append(all, &api.Definition{TypeMeta: api.TypeOf(kind), ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: spec})
	}
	add(api.KindComponent, "broken", "output: {", nil)
	add(api.KindComponent, "never", `output: {apiVersion: "v1", kind: "ConfigMap", metadata: name: context.appName}`+"\nparameter: {}",
		&api.DefinitionStatus{HealthPolicy: "isHealth: false", CustomStatus: `message: "it never is"`})
	add(api.KindPolicy, "replication", "parameter: {}", nil)
	if err := api.Install(r.t.Context(), r.config, all); err != nil {
		r.t.Fatal(err)
	}
}

// TestFaults holds what a user sees of applications with which something is wrong, in
// status, events and log, that others are looked after meanwhile, that resource
// trackers hold nothing that was not made, and that a bad one leaves nothing behind.
func TestFaults(t *testing.T) {
	t.Parallel()
	r, _ := hollowRig(t)
	r.define()
	h := newHospital(t, r, func(*controller.Options) {})
	for name, tt := range bad(t) {
		r.make(tt.app)
		h.shows(name, tt.says)
		if got := r.tracked(name); !slices.Equal(got, tt.says.tracked) {
			t.Errorf("the resource tracker of %s holds %q, want %q", name, got, tt.says.tracked)
		}
		r.delete(name)
		r.remains(name, left{})
	}
	h.drifts()
	if got := r.left("other-0"); got != (left{configMaps: 1, secrets: 1, revisions: 1, trackers: 1}) {
		t.Errorf("of the one whose object another wanted there is %+v", got)
	}
}

// drifts holds that what somebody changes or deletes is put right in the next pass,
// which says what it was, and nothing of a Secret whose patch is never empty.
func (h *hospital) drifts() {
	h.t.Helper()
	h.create("drift", "light")
	h.becomes("drift", api.Running)
	maps, secrets := h.client.Core.ConfigMaps("default"), h.client.Core.Secrets("default")
	if _, err := maps.Patch(h.t.Context(), "cm-drift", types.MergePatchType, []byte(`{"data":{"version":"x"}}`), metav1.PatchOptions{}); err != nil {
		h.t.Fatal(err)
	}
	if _, err := secrets.Patch(h.t.Context(), "secret-drift", types.MergePatchType, []byte(`{"data":{"id":"eA=="}}`), metav1.PatchOptions{}); err != nil {
		h.t.Fatal(err)
	}
	h.touch("drift")
	for _, changed := range []string{"ConfigMap cm-drift was changed", "Secret secret-drift was changed"} {
		h.tells("drift", symptom{message: changed, event: "Repaired", log: "drift is repaired"})
	}
	if err := maps.Delete(h.t.Context(), "cm-drift", metav1.DeleteOptions{}); err != nil {
		h.t.Fatal(err)
	}
	h.touch("drift")
	h.tells("drift", symptom{message: "ConfigMap cm-drift was gone", event: "Repaired", log: `objects="ConfigMap cm-drift was gone"`})
	cm, err := maps.Get(h.t.Context(), "cm-drift", metav1.GetOptions{})
	if err != nil || cm.Data["version"] != "1" {
		h.t.Errorf("%v: it is %v", err, cm.Data)
	}
}

// outage is something that keeps a member from being reached, and what is said then of
// an application that is kept there.
type outage struct {
	name       string
	begin, end func()
	message    string
	silent     bool // each request waits 10 s: nothing is published or deleted meanwhile
}

// TestFaultyMembers holds the same of members that cannot be reached, answer nothing,
// or take the credential no more, and of a gateway that is down, while applications are
// published, kept and deleted, and that what was to be done is done when they are back.
func TestFaultyMembers(t *testing.T) {
	t.Parallel()
	th, h := guarded(t)
	link := th.links["m-1"]
	secret, err := h.hub().CoreV1().Secrets(api.SystemNamespace).Get(t.Context(), "m-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	credential := func(token []byte) func() {
		body, err := json.Marshal(map[string]any{"data": map[string][]byte{"token": token}})
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if _, err := h.hub().CoreV1().Secrets(api.SystemNamespace).Patch(t.Context(), "m-1", types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, o := range []outage{
		{"cut", func() { cut(t, link, true) }, func() { cut(t, link, false) }, "cluster m-1 cannot be reached: ", false},
		{"down", func() { _ = th.running["app-gateway"].Kill() }, func() { th.start("app-gateway", "--aggregated=false") }, "cluster m-1: the gateway cannot be reached: ", false},
		{"expired", credential([]byte("expired")), credential(secret.Data["token"]), "cluster m-1: Unauthorized", false},
		{"silent", func() { link.Stall(true) }, func() { link.Stall(false) }, "cluster m-1 does not answer: ", true},
	} {
		h.outlasts(o, th.members["m-1"].CoreV1().ConfigMaps("default"))
	}
}

// outlasts plays an outage with an application that loses a ConfigMap in the member
// meanwhile, one that is published, and one that is deleted.
func (h *hospital) outlasts(o outage, maps typedcore.ConfigMapInterface) {
	h.t.Helper()
	is, comes, goes := o.name, o.name+"-new", o.name+"-old"
	before := []string{is, goes}
	if o.silent {
		before = before[:1]
	}
	for _, name := range before {
		h.make(to(h.t, name, `{"clusters":["m-1"]}`))
		h.becomes(name, api.Running)
	}
	o.begin()
	if err := maps.Delete(h.t.Context(), "cm-"+is, metav1.DeleteOptions{}); err != nil {
		h.t.Fatal(err)
	}
	h.touch(is)
	h.shows(is, symptom{condition: "StateKeep", message: o.message, event: "FailedStateKeep", log: "level=WARN"})
	if !o.silent {
		if err := h.client.Applications.Delete(h.t.Context(), h.get(goes)); err != nil {
			h.t.Fatal(err)
		}
		h.shows(goes, symptom{phase: api.Deleting, condition: "GarbageCollection", message: o.message, event: "FailedGC", log: "level=WARN"})
		h.make(to(h.t, comes, `{"clusters":["m-1"]}`))
		h.shows(comes, symptom{
			step: "deploy-where", message: fmt.Sprintf("component %s-v1: apply Deployment %s-v1: %s", comes, comes, o.message), event: "FailedWorkflow", log: "step failed and is tried again",
		})
	}
	o.end()
	h.tells(is, symptom{message: "ConfigMap cm-" + is + " in cluster m-1 was gone", event: "Repaired", log: "drift is repaired"})
	repotest.Eventually(h.t, "what was lost there is back, and the condition as well", func() bool {
		_, err := maps.Get(h.t.Context(), "cm-"+is, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(h.get(is).Status.Conditions, func(c api.Condition) bool {
			return c.Type == "StateKeep" && c.Status == corev1.ConditionTrue
		})
	})
	if !o.silent {
		h.becomes(comes, api.Running)
		h.vanishes(goes)
		h.delete(comes)
	}
	h.delete(is)
	for _, name := range []string{is, comes, goes} {
		if _, err := maps.Get(h.t.Context(), "cm-"+name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			h.t.Errorf("something of %s is left in the member: %v", name, err)
		}
	}
}

// guarded is a member that takes one token only, and a controller that delivers to it.
func guarded(t *testing.T) (*theatre, *hospital) {
	t.Helper()
	r, _ := hollowRig(t)
	m := planetest.Cluster(t, "m-1", available())
	m.SetToken("secret")
	th := newTheatre(t, r, map[string]outpost{"m-1": newOutpost(t, m)}, true)
	return th, newHospital(t, r, func(o *controller.Options) {
		direct(o)
		o.Resync = time.Second
	})
}

// TestProofASilentMemberTakesWorkers measures what others lose beside twice as many
// applications of a member that answers nothing as there are workers: each keeps a
// worker for the 10 s of a read, so that others wait two of those, and no more than
// twice that. With its return they have their pace again.
func TestProofASilentMemberTakesWorkers(t *testing.T) {
	repotest.Proof(t)
	th, h := guarded(t)
	const silent, workers, read = 8, 4, 10 * time.Second
	for i := range silent {
		h.make(to(t, fmt.Sprint("far-", i), `{"clusters":["m-1"]}`))
	}
	for i := range silent {
		h.becomes(fmt.Sprint("far-", i), api.Running)
	}
	before := h.round()
	th.links["m-1"].Stall(true)
	for i := range silent {
		h.touch(fmt.Sprint("far-", i))
	}
	took := h.round()
	th.links["m-1"].Stall(false)
	for i := range silent {
		h.becomes(fmt.Sprint("far-", i), api.Running)
	}
	after := h.round()
	t.Logf("a round of the others took %v, %v beside %d applications of a member that answers nothing, and %v when it was back", before, took, silent, after)
	if took > 2*silent/workers*read {
		t.Errorf("a round of the others took %v", took)
	}
	if after > read/2 {
		t.Errorf("a round of the others takes %v after it is back", after)
	}
}

// cut closes the way to a member, or opens it again.
func cut(t *testing.T, link *proxy.Proxy, closed bool) {
	t.Helper()
	if err := link.Refuse(closed); err != nil {
		t.Fatal(err)
	}
	link.Cut()
}

// TestProofOthersKeepTheirPace holds that beside each bad application, on a quiet
// machine, the others take no more than half as long again.
func TestProofOthersKeepTheirPace(t *testing.T) {
	repotest.Proof(t)
	r, _ := hollowRig(t)
	r.define()
	h := newHospital(t, r, func(*controller.Options) {})
	h.pace() // the first time is slower
	calm := h.pace()
	for name, tt := range bad(t) {
		r.make(tt.app)
		h.shows(name, tt.says)
		if took := h.pace(); took > calm*3/2+100*time.Millisecond {
			t.Errorf("beside %s the others took %v, %v without it", name, took, calm)
		}
		r.delete(name)
	}
}

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

// faultyApps is a controller with healthy applications, beside which bad ones are put.
type faultyApps struct {
	*running
	log    *planetest.Lines
	others []string
}

func newFaultyApps(t *testing.T, r *rig, change func(*controller.Options)) *faultyApps {
	t.Helper()
	apps := &faultyApps{log: &planetest.Lines{Also: t.Output()}}
	apps.running = r.run(func(o *controller.Options) {
		o.Events, o.Log = true, slog.New(slog.NewTextHandler(apps.log, nil))
		change(o)
	})
	for i := range 5 {
		apps.others = append(apps.others, fmt.Sprint("other-", i))
		r.create(apps.others[i], "light")
	}
	for _, name := range apps.others {
		r.becomes(name, api.Running)
	}
	return apps
}

// timeThreeRounds deletes what each of the others made, three times, brings them into the queue
// and returns how long it takes until all of it is back.
func (apps *faultyApps) timeThreeRounds() (took time.Duration) {
	apps.t.Helper()
	for range 3 {
		took += apps.timeRound()
	}
	return took
}

// timeRound does so once.
func (apps *faultyApps) timeRound() time.Duration {
	apps.t.Helper()
	begin := time.Now()
	for _, name := range apps.others {
		// Not its ConfigMap: an application that wants the same one must find it there.
		repotest.NoError(apps.t, apps.client.Core.Secrets("default").Delete(apps.t.Context(), "secret-"+name, metav1.DeleteOptions{}))
		apps.touch(name)
	}
	for _, name := range apps.others {
		repotest.Eventually(apps.t, "drift of "+name+" is repaired", func() bool {
			_, err := apps.client.Core.Secrets("default").Get(apps.t.Context(), "secret-"+name, metav1.GetOptions{})
			return err == nil
		})
	}
	return time.Since(begin)
}

// expectation is what is to be seen of a bad application: where it is not said, nothing is asked.
type expectation struct {
	phase     api.Phase
	condition string // type of a condition that is False and has the message
	step      string // name of a step that has the message
	message   string
	event     string   // reason of an event that has the message
	log       string   // what a line with the message says, too
	tracked   []string // names of all objects that resource trackers hold
}

func (apps *faultyApps) awaitExpected(name string, s expectation) {
	apps.t.Helper()
	var o *api.Application
	repotest.Eventually(apps.t, name+" says "+s.message, func() bool {
		o = apps.get(name)
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
	apps.awaitEvent(name, s)
	apps.timeRound() // the others are looked after meanwhile
}

// awaitEvent waits for the event of an expectation and for its line of the log.
func (apps *faultyApps) awaitEvent(name string, s expectation) {
	apps.t.Helper()
	if s.event != "" {
		repotest.Eventually(apps.t, "event "+s.event+" of "+name, func() bool {
			all, err := apps.client.Core.Events("default").List(apps.t.Context(), metav1.ListOptions{})
			return err == nil && slices.ContainsFunc(all.Items, func(e corev1.Event) bool {
				return e.InvolvedObject.Name == name && e.Reason == s.event && e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, s.message)
			})
		})
	}
	if s.log != "" {
		quoted := strings.ReplaceAll(s.message, `"`, `\"`)
		repotest.Eventually(apps.t, "a line of the log", func() bool { return apps.log.Has(name, s.log, quoted) })
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
	says expectation
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
		says expectation
	}{
		"component": {light("component", func(o *api.Application) { o.Spec.Components[0].Type = "webservise" }), expectation{
			phase: api.Rendering, condition: "Parsed", message: `ComponentDefinition "webservise": not found`, event: "FailedParse", log: "level=WARN",
		}},
		"trait": {light("trait", func(o *api.Application) { o.Spec.Components[0].Traits[0].Type = "scalar" }), expectation{
			phase: api.Rendering, condition: "Parsed", message: `TraitDefinition "scalar": not found`, event: "FailedParse", log: "level=WARN",
		}},
		"step": {light("step", func(o *api.Application) {
			o.Spec.Workflow = &api.Workflow{Steps: []api.Step{{Name: "s", Type: "resume"}}}
		}), expectation{
			phase: api.Rendering, condition: "Parsed", message: `step s: WorkflowStepDefinition "resume": not found`, event: "FailedParse", log: "level=WARN",
		}},
		"policy": {under("policy", "apply-twice"), expectation{
			phase: api.Rendering, condition: "Parsed", message: `policy p: PolicyDefinition "apply-twice": not found`, event: "FailedParse", log: "level=WARN",
		}},
		"undone": {under("undone", "replication"), expectation{
			phase: api.Rendering, condition: "Parsed", message: "policy p: type replication is not one that the plane carries out", event: "FailedParse", log: "level=WARN",
		}},
		"template":  {one("template", typed("broken", `{}`)), expectation{step: "c", message: "component c: template: expected", event: "FailedWorkflow", log: "step failed and is tried again"}},
		"parameter": {one("parameter", typed("webservice", `{"image":5}`)), expectation{step: "c", message: "component c: template: parameter.image: ", event: "FailedWorkflow", log: "step failed and is tried again"}},
		"refused": {one("refused", barred("c"), holding("taken")), expectation{
			step: "c", message: "component c: apply ConfigMap No-c: ", event: "FailedWorkflow", log: "step failed and is tried again", tracked: []string{"taken"},
		}},
		"foreign": {one("foreign", holding("cm-other-0")), expectation{step: "cm-other-0", message: "ConfigMap default/cm-other-0 is managed by application default/other-0", event: "FailedWorkflow", log: "step failed and is tried again"}},
		"unhealthy": {one("unhealthy", typed("never", `{}`)), expectation{
			phase: api.RunningWorkflow, step: "c", message: "it never is", event: "FailedHealthCheck", log: "step waits for health", tracked: []string{"unhealthy"},
		}},
		"slow": {late, expectation{
			phase: api.WorkflowFailed, condition: "Workflow", message: "not done within 2s: it never is", event: "FailedWorkflow", log: "step failed", tracked: []string{"slow"},
		}},
		"rests": {rests, expectation{
			phase: api.WorkflowSuspending, step: "wait", message: "suspends the workflow until somebody resumes it", event: "WorkflowSuspended", log: "workflow is suspended",
		}},
		"nowhere": {to(t, "nowhere", `{"clusters":["m-9"]}`), expectation{
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
	repotest.NoError(r.t, api.Install(r.t.Context(), r.config, all))
}

// TestFaults holds what a user sees of applications with which something is wrong, in
// status, events and log, that others are looked after meanwhile, that resource
// trackers hold nothing that was not made, and that a bad one leaves nothing behind.
func TestFaults(t *testing.T) {
	t.Parallel()
	r, _ := hollowRig(t)
	r.define()
	apps := newFaultyApps(t, r, func(*controller.Options) {})
	for name, tt := range bad(t) {
		r.make(tt.app)
		apps.awaitExpected(name, tt.says)
		repotest.Equal(t, r.tracked(name), tt.says.tracked, "the resource tracker of %s holds", name)
		r.delete(name)
		r.remains(name, left{})
	}
	apps.checkDrift()
	if got := r.left("other-0"); got != (left{configMaps: 1, secrets: 1, revisions: 1, trackers: 1}) {
		t.Errorf("of the one whose object another wanted there is %+v", got)
	}
}

// checkDrift holds that what somebody changes or deletes is put right in the next pass,
// which says what it was, and nothing of a Secret whose patch is never empty.
func (apps *faultyApps) checkDrift() {
	apps.t.Helper()
	apps.create("drift", "light")
	apps.becomes("drift", api.Running)
	apps.awaitRest() // a pass that has read the Secret before would put it right unseen
	maps, secrets := apps.client.Core.ConfigMaps("default"), apps.client.Core.Secrets("default")
	repotest.Must(maps.Patch(apps.t.Context(), "cm-drift", types.MergePatchType, []byte(`{"data":{"version":"x"}}`), metav1.PatchOptions{}))(apps.t)
	repotest.Must(secrets.Patch(apps.t.Context(), "secret-drift", types.MergePatchType, []byte(`{"data":{"id":"eA=="}}`), metav1.PatchOptions{}))(apps.t)
	apps.touch("drift")
	for _, changed := range []string{"ConfigMap cm-drift was changed", "Secret secret-drift was changed"} {
		apps.awaitEvent("drift", expectation{message: changed, event: "Repaired", log: "drift is repaired"})
	}
	repotest.NoError(apps.t, maps.Delete(apps.t.Context(), "cm-drift", metav1.DeleteOptions{}))
	apps.touch("drift")
	apps.awaitEvent("drift", expectation{message: "ConfigMap cm-drift was gone", event: "Repaired", log: `objects="ConfigMap cm-drift was gone"`})
	cm, err := maps.Get(apps.t.Context(), "cm-drift", metav1.GetOptions{})
	if err != nil || cm.Data["version"] != "1" {
		apps.t.Errorf("%v: it is %v", err, cm.Data)
	}
}

// outage is something that keeps a member from being reached, and what is said then of
// an application that is kept there.
type outage struct {
	name       string
	begin, end func()
	message    string
	silent     bool // each read waits until it is given up: nothing is published or deleted meanwhile
}

// TestFaultyMembers holds the same of members that cannot be reached, answer nothing,
// or take the credential no more, and of a gateway that is down, while applications are
// published, kept and deleted, and that what was to be done is done when they are back.
func TestFaultyMembers(t *testing.T) {
	t.Parallel()
	rig, apps := newGuardedRig(t, 2*time.Second)
	link := rig.links["m-1"]
	secret := repotest.Must(apps.hub().CoreV1().Secrets(api.SystemNamespace).Get(t.Context(), "m-1", metav1.GetOptions{}))(t)
	credential := func(token []byte) func() {
		body := repotest.Must(json.Marshal(map[string]any{"data": map[string][]byte{"token": token}}))(t)
		return func() {
			repotest.Must(apps.hub().CoreV1().Secrets(api.SystemNamespace).Patch(t.Context(), "m-1", types.MergePatchType, body, metav1.PatchOptions{}))(t)
		}
	}
	for _, o := range []outage{
		{"cut", func() { cut(t, link, true) }, func() { cut(t, link, false) }, "cluster m-1 cannot be reached: ", false},
		{"down", func() { _ = rig.running["app-gateway"].Kill() }, func() { rig.startProcess("app-gateway", "--aggregated=false") }, "cluster m-1: the gateway cannot be reached: ", false},
		{"expired", credential([]byte("expired")), credential(secret.Data["token"]), "cluster m-1: Unauthorized", false},
		{"silent", func() { link.Stall(true) }, func() { link.Stall(false) }, "cluster m-1 does not answer: ", true},
	} {
		apps.outlastOutage(o, rig.members["m-1"].CoreV1().ConfigMaps("default"))
	}
}

// outlastOutage plays an outage with an application that loses a ConfigMap in the member
// meanwhile, one that is published, and one that is deleted.
func (apps *faultyApps) outlastOutage(o outage, maps typedcore.ConfigMapInterface) {
	apps.t.Helper()
	is, comes, goes := o.name, o.name+"-new", o.name+"-old"
	before := []string{is, goes}
	if o.silent {
		before = before[:1]
	}
	for _, name := range before {
		apps.make(to(apps.t, name, `{"clusters":["m-1"]}`))
		apps.becomes(name, api.Running)
	}
	o.begin()
	repotest.NoError(apps.t, maps.Delete(apps.t.Context(), "cm-"+is, metav1.DeleteOptions{}))
	if !o.silent { // first: see below
		repotest.NoError(apps.t, apps.client.Applications.Delete(apps.t.Context(), apps.get(goes)))
		apps.awaitExpected(goes, expectation{phase: api.Deleting, condition: "GarbageCollection", message: o.message, event: "FailedGC", log: "level=WARN"})
	}
	apps.touch(is)
	apps.awaitExpected(is, expectation{condition: "StateKeep", message: o.message, event: "FailedStateKeep", log: "level=WARN"})
	if !o.silent {
		apps.make(to(apps.t, comes, `{"clusters":["m-1"]}`))
		apps.awaitExpected(comes, expectation{
			step: "deploy-where", message: fmt.Sprintf("component %s-v1: apply Deployment %s-v1: %s", comes, comes, o.message), event: "FailedWorkflow", log: "step failed and is tried again",
		})
	}
	o.end()
	// Its event may be left out: of one object the recorder takes 25 at once, no more than a long outage has passes.
	apps.awaitEvent(is, expectation{message: "ConfigMap cm-" + is + " in cluster m-1 was gone", log: "drift is repaired"})
	repotest.Eventually(apps.t, "what was lost there is back, and the condition as well", func() bool {
		_, err := maps.Get(apps.t.Context(), "cm-"+is, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(apps.get(is).Status.Conditions, func(c api.Condition) bool {
			return c.Type == "StateKeep" && c.Status == corev1.ConditionTrue
		})
	})
	if !o.silent {
		apps.becomes(comes, api.Running)
		apps.vanishes(goes)
		apps.delete(comes)
	}
	apps.delete(is)
	for _, name := range []string{is, comes, goes} {
		if _, err := maps.Get(apps.t.Context(), "cm-"+name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			apps.t.Errorf("something of %s is left in the member: %v", name, err)
		}
	}
}

// newGuardedRig is a member that takes one token only, and a controller that delivers to it
// and gives up a read after a time.
func newGuardedRig(t *testing.T, read time.Duration) (*killRig, *faultyApps) {
	t.Helper()
	r, _ := hollowRig(t)
	m := planetest.Cluster(t, "m-1", available())
	m.SetToken("secret")
	rig := newKillRig(t, r, map[string]memberEndpoint{"m-1": newMemberEndpoint(t, m)}, true)
	return rig, newFaultyApps(t, r, func(o *controller.Options) {
		direct(o)
		o.Resync, o.ReadTimeout = time.Second, read
	})
}

// TestProofASilentMemberTakesWorkers measures what others lose beside twice as many
// applications of a member that answers nothing as there are workers: each keeps a
// worker for the 10 s of a read, so that others wait two of those, and no more than
// twice that. With its return they have their pace again.
func TestProofASilentMemberTakesWorkers(t *testing.T) {
	repotest.Proof(t)
	const silent, workers, read = 8, 4, 10 * time.Second
	rig, apps := newGuardedRig(t, read)
	for i := range silent {
		apps.make(to(t, fmt.Sprint("far-", i), `{"clusters":["m-1"]}`))
	}
	for i := range silent {
		apps.becomes(fmt.Sprint("far-", i), api.Running)
	}
	before := apps.timeRound()
	rig.links["m-1"].Stall(true)
	for i := range silent {
		apps.touch(fmt.Sprint("far-", i))
	}
	took := apps.timeRound()
	rig.links["m-1"].Stall(false)
	for i := range silent {
		apps.becomes(fmt.Sprint("far-", i), api.Running)
	}
	after := apps.timeRound()
	t.Logf("a round of the others took %v, %v beside %d applications of a member that answers nothing, and %v when it was back", before, took, silent, after)
	if took > 2*silent/workers*read {
		t.Errorf("a round of the others took %v", took)
	}
	if after > read/2 {
		t.Errorf("a round of the others takes %v after it is back", after)
	}
}

// cut closes the way to a member, or opens it again.
func cut(t testing.TB, link *proxy.Proxy, closed bool) {
	t.Helper()
	repotest.NoError(t, link.Refuse(closed))
	link.Cut()
}

// TestProofOthersKeepTheirPace holds that beside each bad application, on a quiet
// machine, the others take no more than half as long again.
func TestProofOthersKeepTheirPace(t *testing.T) {
	repotest.Proof(t)
	r, _ := hollowRig(t)
	r.define()
	apps := newFaultyApps(t, r, func(*controller.Options) {})
	apps.timeThreeRounds() // the first time is slower
	calm := apps.timeThreeRounds()
	for name, tt := range bad(t) {
		r.make(tt.app)
		apps.awaitExpected(name, tt.says)
		if took := apps.timeThreeRounds(); took > calm*3/2+100*time.Millisecond {
			t.Errorf("beside %s the others took %v, %v without it", name, took, calm)
		}
		r.delete(name)
	}
}

package controller

import (
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

func at(seconds int) time.Time { return time.Date(2026, 1, 2, 3, 4, seconds, 123456789, time.UTC) }

// instance is one in a phase; "-" before the phase means that it is being deleted.
func instance(phase string) *api.Instance {
	vmi := &api.Instance{ObjectMeta: metav1.ObjectMeta{Name: "v", Namespace: "n", UID: "u", Finalizers: []string{api.FinalizerInstance}}}
	if rest, deleting := strings.CutPrefix(phase, "-"); deleting {
		phase, vmi.DeletionTimestamp = rest, &metav1.Time{Time: at(0)}
	}
	vmi.Status.Phase = api.Phase(phase)
	if vmi.Status.Phase.OnNode() {
		vmi.Status.NodeName = "node"
		vmi.Labels = map[string]string{api.LabelNode: "node"}
	}
	return vmi
}

// pods are "pending", "running" (containers run), "ready", "deleted", "failed",
// "target" (of a migration, running elsewhere).
func pods(kinds ...string) []*corev1.Pod {
	var out []*corev1.Pod
	for i, kind := range kinds {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p" + kind, UID: typesUID("pod-" + kind), CreationTimestamp: metav1.NewTime(at(i)), Labels: map[string]string{}},
			Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "compute", Image: "image"}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
				{Name: "compute", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			}},
		}
		switch kind {
		case "pending":
			p.Spec.NodeName, p.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
		case "ready":
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: api.ConditionUnpaused, Status: corev1.ConditionTrue}}
		case "deleted":
			p.DeletionTimestamp = &metav1.Time{Time: at(9)}
		case "failed":
			p.Status.Phase = corev1.PodFailed
		case "target":
			p.Spec.NodeName, p.Labels[api.LabelMigrationJob] = "other", "m"
		}
		out = append(out, p)
	}
	return out
}

func TestLifecycle(t *testing.T) {
	for _, c := range []struct {
		phase   string
		pods    []string
		want    string // the next phase
		creates bool
		deletes int
		ungates bool
		lets    bool // the finalizer goes
		ready   string
	}{
		{phase: "", want: "Pending", creates: true},
		{phase: "Pending", want: "Pending", creates: true},
		{phase: "Pending", pods: []string{"pending"}, want: "Scheduling", ready: "False"},
		{phase: "-Pending", want: "Failed"},
		{phase: "-Pending", pods: []string{"pending"}, want: "Scheduling", deletes: 1, ready: "False"},
		{phase: "Scheduling", pods: []string{"pending"}, want: "Scheduling"},
		{phase: "Scheduling", pods: []string{"running"}, want: "Scheduled", ungates: true},
		{phase: "Scheduling", pods: []string{"failed"}, want: "Failed"},
		{phase: "Scheduling", want: "Failed"},
		{phase: "-Scheduling", pods: []string{"running"}, want: "Scheduling", deletes: 1},
		{phase: "-Scheduling", pods: []string{"deleted"}, want: "Failed"},
		{phase: "Scheduled", pods: []string{"running"}, want: "Scheduled", ungates: true},
		{phase: "Scheduled", pods: []string{"ready"}, want: "Scheduled"},
		{phase: "Scheduled", want: "Failed"},
		{phase: "Running", pods: []string{"ready"}, want: "Running", ready: "True"},
		{phase: "Running", pods: []string{"running"}, want: "Running", ready: "False", ungates: true},
		{phase: "Running", pods: []string{"ready", "target"}, want: "Running", ready: "True"},
		{phase: "-Running", pods: []string{"ready"}, want: "Running", deletes: 1, ready: "True"},
		{phase: "-Running", pods: []string{"deleted"}, want: "Running", ready: "False"},
		{phase: "Running", want: "Failed"},
		{phase: "Succeeded", pods: []string{"ready"}, want: "Succeeded", deletes: 1},
		{phase: "-Succeeded", pods: []string{"deleted"}, want: "Succeeded"},
		{phase: "-Succeeded", want: "Succeeded", lets: true},
		{phase: "Failed", want: "Failed", lets: true},
	} {
		name := c.phase + " with " + strings.Join(c.pods, ",")
		old := instance(c.phase)
		before := old.Copy()
		s := situation{vmi: old, pods: pods(c.pods...), now: at(5), rules: Rules{Gate: GateRunning}}
		got := s.nextInstance()
		if string(got.Status.Phase) != c.want {
			t.Errorf("%s: phase %s, want %s", name, got.Status.Phase, c.want)
		}
		if s.needsPod() != c.creates || len(s.podsToDelete()) != c.deletes || (s.podToUngate() != nil) != c.ungates {
			t.Errorf("%s: creates %v deletes %d ungates %v", name, s.needsPod(), len(s.podsToDelete()), s.podToUngate() != nil)
		}
		if lets := !slices.Contains(got.Finalizers, api.FinalizerInstance); lets != c.lets {
			t.Errorf("%s: finalizer goes: %v", name, lets)
		}
		ready := ""
		if r := api.Find(got.Status.Conditions, api.ConditionReady); r != nil {
			ready = string(r.Status)
		}
		repotest.Equal(t, ready, c.ready, "%s: ready", name)
		if !reflect.DeepEqual(old, before) {
			t.Errorf("%s: what was given was changed", name)
		}
		again := situation{vmi: got, pods: s.pods, now: at(7)}.nextInstance()
		if got.Status.Phase == old.Status.Phase && !isSame(got, again) {
			t.Errorf("%s: the same situation leads to another write", name)
		}
	}
}

func TestHandOverSaysWhoOwnsIt(t *testing.T) {
	got := situation{vmi: instance("Scheduling"), pods: pods("running"), now: at(5)}.nextInstance()
	if got.Labels[api.LabelNode] != "node" || got.Status.NodeName != "node" || got.Status.ActivePods["pod-running"] != "node" || got.Status.LauncherContainerImageVersion != "image" {
		t.Errorf("handed over: %+v", got)
	}
	stamp := got.Status.PhaseTransitionTimestamps
	if len(stamp) != 1 || !stamp[0].MicroTime.Equal(&metav1.MicroTime{Time: at(5).Truncate(time.Microsecond)}) || !stamp[0].PhaseTransitionTimestamp.Time.Equal(at(5).Truncate(time.Second)) {
		t.Errorf("stamps: %v", stamp)
	}
	got.Status.Enter(api.Scheduled, at(9))
	if len(got.Status.PhaseTransitionTimestamps) != 1 {
		t.Error("a phase entered twice has two stamps")
	}
	cut := instance("Scheduled")
	cut.Labels = nil // killed between the two writes of a plane with a status subresource
	if got := (situation{vmi: cut, pods: pods("running"), now: at(5)}).nextInstance(); got.Labels[api.LabelNode] != "node" {
		t.Error("a hand-over that was cut short is not repaired")
	}
}

func TestPatchesTestWhatTheyReplace(t *testing.T) {
	old := instance("Running")
	now := situation{vmi: old, pods: pods("ready"), now: at(5)}.nextInstance()
	p := &api.Patch{}
	statusChanges(p, old, now)
	metaChanges(p, old, now)
	raw := repotest.Must(p.Bytes())(t)
	want := `[{"op":"test","path":"/status/conditions","value":null},` +
		`{"op":"add","path":"/status/conditions","value":[{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z"}]},` +
		`{"op":"test","path":"/status/activePods","value":null},` +
		`{"op":"add","path":"/status/activePods","value":{"pod-ready":"node"}}]`
	if string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
	p = &api.Patch{}
	metaChanges(p, instance("Failed"), situation{vmi: instance("Failed"), now: at(5)}.nextInstance())
	raw = repotest.Must(p.Bytes())(t)
	if want := `[{"op":"test","path":"/metadata/finalizers","value":["` + api.FinalizerInstance + `"]},{"op":"remove","path":"/metadata/finalizers"}]`; string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
}

func TestMachine(t *testing.T) {
	yes := true
	vm := func(finalizers ...string) *api.Machine {
		return &api.Machine{ObjectMeta: metav1.ObjectMeta{Name: "v", Namespace: "n", UID: "vm", Finalizers: finalizers}, Spec: api.MachineSpec{Running: &yes}}
	}
	leaving := vm(api.FinalizerMachine)
	leaving.DeletionTimestamp = &metav1.Time{Time: at(0)}
	halted := vm()
	halted.Spec = api.MachineSpec{RunStrategy: "Halted"}
	held := instance("-Succeeded")
	held.Finalizers = append(held.Finalizers, api.FinalizerMachine)
	waiting := vm()
	after := metav1.NewTime(at(15))
	waiting.Status.StartFailure = &api.StartFailure{ConsecutiveFailCount: 1, RetryAfterTimestamp: &after}
	for _, c := range []struct {
		name   string
		vm     *api.Machine
		vmi    *api.Instance
		want   step
		prints string
	}{
		{"new", vm(), nil, step{create: true}, "Starting"},
		{"runs", vm(), instance("Running"), step{}, "Running"},
		{"halted", halted, instance("Running"), step{remove: true}, "Running"},
		{"off", halted, nil, step{}, "Stopped"},
		{"failed", vm(), instance("Failed"), step{remove: true}, "Stopping"},
		{"failed and going", vm(), held, step{}, "Stopping"},
		{"leaves", leaving, instance("Running"), step{remove: true}, "Terminating"},
		{"leaves, instance going", leaving, instance("-Running"), step{}, "Terminating"},
		{"leaves, instance gone", leaving, nil, step{leave: true}, "Terminating"},
		{"waits after a failure", waiting, nil, step{retry: 5 * time.Second}, "CrashLoopBackOff"},
	} {
		repotest.Equal(t, decideMachine(c.vm, c.vmi, at(10), Rules{}), c.want, "%s", c.name)
		status := machineStatus(c.vm, c.vmi, at(10), MachineRules{})
		if status.PrintableStatus != c.prints || status.Created != (c.vmi != nil) {
			t.Errorf("%s: status %+v", c.name, status)
		}
	}
	if !isReleased(held) || isReleased(instance("-Succeeded")) || isReleased(instance("Failed")) || isReleased(nil) {
		t.Error("an instance is let go of when it has ended and is deleted, and not before")
	}
	status := machineStatus(vm(), instance("Failed"), at(10), MachineRules{})
	if f := status.StartFailure; f == nil || f.ConsecutiveFailCount != 1 || !f.RetryAfterTimestamp.Time.Equal(at(20).Truncate(time.Second)) {
		t.Errorf("after a failure: %+v", status.StartFailure)
	}
}

func TestMigration(t *testing.T) {
	move1 := func(phase string) *api.Migration {
		return &api.Migration{ObjectMeta: metav1.ObjectMeta{UID: "m", Name: "m", Namespace: "n"}, Status: api.MigrationStatus{Phase: api.Phase(phase)}}
	}
	with := func(state *api.MigrationState) *api.Instance {
		vmi := instance("Running")
		vmi.Status.MigrationState = state
		return vmi
	}
	target := func(kind string) *corev1.Pod {
		p := pods(kind)[0]
		p.Labels[api.LabelMigrationJob] = "m"
		return p
	}
	begun := &metav1.Time{Time: at(3)}
	for _, c := range []struct {
		name  string
		s     moveSituation
		phase string
		makes bool
		hands bool
	}{
		{"new", moveSituation{m: move1(""), vmi: with(nil)}, "Pending", false, false},
		{"its instance is gone", moveSituation{m: move1("Pending")}, "Failed", false, false},
		{"its instance is not known to run yet", moveSituation{m: move1("Pending"), vmi: instance("Scheduled")}, "Pending", false, false},
		{"its instance has ended", moveSituation{m: move1("Pending"), vmi: instance("Succeeded")}, "Failed", false, false},
		{"placed", moveSituation{m: move1("Pending"), vmi: with(nil)}, "Pending", true, false},
		{"full", moveSituation{m: move1("Pending"), vmi: with(nil), busy: true}, "Pending", false, false},
		{"instance moves already", moveSituation{m: move1("Pending"), vmi: with(&api.MigrationState{MigrationUID: "x"})}, "Pending", false, false},
		{"instance has moved", moveSituation{m: move1("Pending"), vmi: with(&api.MigrationState{MigrationUID: "x", Completed: true})}, "Pending", true, false},
		{"target made", moveSituation{m: move1("Pending"), vmi: with(nil), target: target("pending")}, "Scheduling", false, false},
		{"target waits", moveSituation{m: move1("Scheduling"), vmi: with(nil), target: target("pending")}, "Scheduling", false, false},
		{"target runs", moveSituation{m: move1("Scheduling"), vmi: with(nil), target: target("running")}, "Scheduled", false, false},
		{"target died", moveSituation{m: move1("Scheduling"), vmi: with(nil), target: target("failed")}, "Failed", false, false},
		{"hands over", moveSituation{m: move1("Scheduled"), vmi: with(nil), target: target("running")}, "Scheduled", false, true},
		{"handed over", moveSituation{m: move1("Scheduled"), vmi: with(&api.MigrationState{MigrationUID: "m"}), target: target("running")}, "PreparingTarget", false, false},
		{"target agent ready", moveSituation{m: move1("PreparingTarget"), vmi: with(&api.MigrationState{MigrationUID: "m", TargetNodeAddress: "a"}), target: target("running")}, "TargetReady", false, false},
		{"moves", moveSituation{m: move1("TargetReady"), vmi: with(&api.MigrationState{MigrationUID: "m", StartTimestamp: begun}), target: target("running")}, "Running", false, false},
		{"done", moveSituation{m: move1("Running"), vmi: with(&api.MigrationState{MigrationUID: "m", StartTimestamp: begun, Completed: true})}, "Succeeded", false, false},
		{"failed", moveSituation{m: move1("Running"), vmi: with(&api.MigrationState{MigrationUID: "m", StartTimestamp: begun, Failed: true})}, "Failed", false, false},
		{"target lost before the move", moveSituation{m: move1("PreparingTarget"), vmi: with(&api.MigrationState{MigrationUID: "m"})}, "Failed", false, true},
		{"stays done", moveSituation{m: move1("Succeeded")}, "Succeeded", false, false},
	} {
		got := c.s.nextMove()
		if string(got.phase) != c.phase || got.target != c.makes || (got.state != nil) != c.hands {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	nowhere := target("pending")
	nowhere.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	limits := DefaultMigrationLimits()
	for _, c := range []struct {
		target *corev1.Pod
		after  time.Duration
		want   bool
	}{
		{nowhere, 299 * time.Second, false}, {nowhere, 301 * time.Second, true},
		{target("pending"), 301 * time.Second, false}, {target("pending"), 901 * time.Second, true},
	} {
		s := moveSituation{m: move1("Scheduling"), vmi: with(nil), target: c.target, now: c.target.CreationTimestamp.Add(c.after)}
		if s.isStuck(limits) != c.want {
			t.Errorf("after %v: stuck is %v", c.after, !c.want)
		}
	}
}

func TestShardsShareEveryKeyOnce(t *testing.T) {
	counts := make([]int, 3)
	for i := range 300 {
		owners := 0
		for k := range counts {
			c := &Controller{o: Options{Env: process.Env{Shard: k, Shards: len(counts)}}}
			if c.o.InShard("ns/vm-" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + time.Duration(i).String()) {
				owners++
				counts[k]++
			}
		}
		if owners != 1 {
			t.Fatalf("%d shards do key %d", owners, i)
		}
	}
	for k, n := range counts {
		if n < 60 {
			t.Errorf("shard %d has %d of 300", k, n)
		}
	}
}

// TestLeaseOfEachRelease holds who sends the requests for the lease.
func TestLeaseOfEachRelease(t *testing.T) {
	for preset, want := range map[string]string{"": "its own client writes", api.PresetV049: "the client of all reads and writes", api.PresetV044: "the client of all reads and writes", words.ImprovedPreset: "none"} {
		o := Default()
		set := o.Words()
		set.Reset()
		set.Apply(preset)
		o.Env = process.Env{Config: &rest.Config{Host: "https://127.0.0.1:1"}, Registry: instrument.New("kubevirt"), Clock: clock.Start(), Log: slog.New(slog.DiscardHandler)}
		c := repotest.Must(newController(o))(t)
		got := "none"
		switch l := c.lease; {
		case l != nil && l.Reads && l.Config.RateLimiter == c.limiter:
			got = "the client of all reads and writes"
		case l != nil && !l.Reads && l.Config.RateLimiter == nil:
			got = "its own client writes"
		}
		repotest.Equal(t, got, want, "%q", preset)
	}
}

package clusterloader2_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2"
	"github.com/windtunnel/windtunnel/internal/text/environ"
	"github.com/windtunnel/windtunnel/scenario"
)

const pod = "apiVersion: v1\nkind: Pod\nmetadata: {labels: {app: x}}\nspec: {containers: [{name: a}]}\n"

// shown is a step as a line, with what matters of waits.
func shown(s scenario.Step) string {
	switch {
	case s.Wait != nil:
		return fmt.Sprintf("wait %s%s count %d all %v deleted %v within %s unmet %s, %s", s.Wait.Pods, s.Wait.Objects, s.Wait.Count, s.Wait.All, s.Wait.Deleted, s.Wait.Within, s.Wait.Unmet, s.OnFailure)
	case s.Pause > 0:
		return fmt.Sprint("pause ", s.Pause)
	case s.Create != nil:
		return "create"
	case s.Scale != nil:
		return "scale"
	case s.Exec != nil:
		return fmt.Sprint("exec ", s.Exec.Command, ", ", s.OnFailure)
	case s.Fault != nil:
		return fmt.Sprint("fault ", s.Fault.Action, " ", s.Fault.For)
	}
	var all []string
	for _, p := range s.Parallel {
		all = append(all, shown(p))
	}
	return strings.Join(all, " & ")
}

// TestStepsInPlace: measurements without actions act where they stand, whatever
// action says, with ClusterLoader2's defaults; what fails does not stop the rest.
func TestStepsInPlace(t *testing.T) {
	for _, action := range []string{"", "action: start, ", "action: gather, ", "action: nonsense, "} {
		s, notes := imported(t, map[string]string{"pod.yaml": pod, "cm.yaml": cm, "c.yaml": top + phase(strings.Replace(bundle, "cm.yaml", "pod.yaml", 1)) +
			measured("WaitForRunningPods", action+"desiredPodCount: 1, labelSelector: app = x") +
			measured("WaitForNodes", action+"minDesiredNodeCount: 9, maxDesiredNodeCount: 9, labelSelector: pool = burst") +
			measured("WaitForBoundPVCs", action+"desiredPVCCount: 1") + measured("WaitForAvailablePVs", action+"desiredPVCount: 1") +
			measured("WaitForGenericK8sObjects", action+"objectResource: widgets, objectVersion: v1, objectGroup: x.org, minDesiredObjectCount: 1, successfulConditions: [Ready=True]") +
			measured("Sleep", action+"duration: 3s") + measured("Exec", action+"command: [a]") + measured("RestartApiserver", action+"readyTimeout: 1m"),
		}, clusterloader2.Options{Nodes: 1})
		var got []string
		for _, one := range s.Steps {
			got = append(got, shown(one))
		}
		want := []string{
			"create", "wait pods count 1 all false deleted false within 1m0s unmet fail, continue", "wait nodes count 9 all false deleted false within 30m0s unmet fail, continue",
			"wait persistentvolumeclaims count 1 all false deleted false within 1m0s unmet fail, continue", "wait persistentvolumes count 1 all false deleted false within 1m0s unmet fail, continue",
			"wait widgets.v1.x.org count 1 all false deleted false within 30m0s unmet fail, continue", "pause 3s", "exec [a], continue", "fault kill 30s",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s\n got %s\nwant %s", action, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
		said := strings.Contains(notes, "WaitForNodes action: WaitForNodes has no actions in ClusterLoader2")
		if said != (action == "action: start, " || action == "action: nonsense, ") {
			t.Errorf("%s: notes\n%s", action, notes)
		}
	}
}

// TestWaitsForFewerPods: after a scale-down ClusterLoader2 waits until no more
// pods are there than it wants.
func TestWaitsForFewerPods(t *testing.T) {
	phases := func(replicas ...int) (out string) {
		for _, n := range replicas {
			out += phase(fmt.Sprintf("tuningSet: u, namespaceRange: {min: 1, max: 1}, replicasPerNamespace: %d, objectBundle: [{basename: a, objectTemplatePath: pod.yaml}]", n))
		}
		return out
	}
	for _, tt := range []struct {
		steps string
		count int
		want  string
	}{
		{phases(5), 5, "wait pods count 5 all false deleted false within 1m0s unmet fail, continue"},
		{phases(2, 5), 5, "wait pods count 5 all false deleted false within 1m0s unmet fail, continue"},
		{phases(5, 2), 2, "wait pods count 2 all false deleted false within 1m0s unmet fail, continue & wait pods count 2 all false deleted true within 1m0s unmet fail, continue"},
		{phases(5), 2, "wait pods count 2 all false deleted false within 1m0s unmet fail, continue & wait pods count 2 all false deleted true within 1m0s unmet fail, continue"},
		{phases(5, 0), 0, "wait pods count 0 all false deleted true within 1m0s unmet fail, continue"},
	} {
		s, _ := imported(t, map[string]string{"pod.yaml": pod, "c.yaml": top + tt.steps + measured("WaitForRunningPods", fmt.Sprintf("desiredPodCount: %d, labelSelector: app = x", tt.count))}, clusterloader2.Options{Nodes: 1})
		if got := shown(s.Steps[len(s.Steps)-1]); got != tt.want {
			t.Errorf("%s: %d pods\n got %s\nwant %s", tt.steps, tt.count, got, tt.want)
		}
	}
}

// TestPodsOfJobs: the fleet's pods of a Job end at once, so a wait for them to
// run takes those that ended too.
func TestPodsOfJobs(t *testing.T) {
	job := "apiVersion: batch/v1\nkind: Job\nspec: {parallelism: 2, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: a}]}}}\n"
	s, _ := imported(t, map[string]string{"job.yaml": job, "c.yaml": top + measured("PodStartupLatency", "action: start, labelSelector: app = x") +
		phase(strings.Replace(bundle, "cm.yaml", "job.yaml", 1)) + measured("WaitForRunningPods", "desiredPodCount: 2, labelSelector: app = x")}, clusterloader2.Options{Nodes: 1})
	w := s.Steps[1].Wait
	if w.Objects != "pods" || w.Count != 2 || w.Condition != `self.status.phase in ["Running", "Succeeded"]` {
		t.Errorf("%+v", w)
	}
}

// TestControlledKinds: ClusterLoader2 finds the pods of a controller by its
// template; pods have none of their own.
func TestControlledKinds(t *testing.T) {
	files := func(kind, object, params string) map[string]string {
		version := map[string]string{"Pod": "v1", "ConfigMap": "v1", "Job": "batch/v1"}[kind]
		return map[string]string{"o.yaml": object, "c.yaml": top + measured("WaitForControlledPodsRunning", "action: start, apiVersion: "+version+", kind: "+kind+", operationTimeout: 30s"+params) +
			phase(strings.Replace(bundle, "cm.yaml", "o.yaml", 1)) + measured("WaitForControlledPodsRunning", "action: gather")}
	}
	s, notes := imported(t, files("Pod", pod, ""), clusterloader2.Options{Nodes: 1})
	if got, want := shown(s.Steps[1]), "wait pods count 1 all true deleted false within 30s unmet fail, continue"; got != want || s.Steps[1].Wait.Condition != `self.status.phase == "Running"` {
		t.Errorf("%s: %s", got, s.Steps[1].Wait.Condition)
	}
	if !strings.Contains(notes, "ClusterLoader2 counts the pods of controllers and fails with kind: Pod") {
		t.Error(notes)
	}
	dir := folder(t, files("ConfigMap", cm, ""))
	_, _, err := clusterloader2.Import(filepath.Join(dir, "c.yaml"), clusterloader2.Options{Nodes: 1})
	if want := "c.yaml:5: WaitForControlledPodsRunning: kind: objects of kind ConfigMap have no spec.template, so ClusterLoader2 cannot tell their pods and fails"; err == nil || clean(err.Error(), dir) != want {
		t.Errorf("%v, want %s", err, want)
	}
	// Those that a controller makes are waited for as well.
	s, _ = imported(t, files("Job", cm, ""), clusterloader2.Options{Nodes: 1})
	if got, want := shown(s.Steps[1]), "wait jobs.batch count 0 all true deleted false within 30s unmet fail, continue"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestTimeOfDeletion: a deletion has twice the time, unless the environment says otherwise.
func TestTimeOfDeletion(t *testing.T) {
	deployment := "apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [{name: a}]}}}\n"
	files := map[string]string{"d.yaml": deployment, "c.yaml": top + measured("WaitForControlledPodsRunning", "action: start, apiVersion: apps/v1, kind: Deployment, operationTimeout: 3m") +
		phase(strings.Replace(bundle, "cm.yaml", "d.yaml", 1)) + phase(strings.NewReplacer("cm.yaml", "d.yaml", "PerNamespace: 1", "PerNamespace: 0").Replace(bundle)) + measured("WaitForControlledPodsRunning", "action: gather")}
	for want, env := range map[string]*environ.Environ{"6m0s": nil, "3m0s": environ.New([]string{"CL2_WAIT_FOR_CONTROLLED_PODS_USE_EXACT_OPERATION_TIMEOUT="}, nil)} {
		s, _ := imported(t, files, clusterloader2.Options{Nodes: 1, Env: env})
		if w := s.Steps[2].Wait; !w.Deleted || w.Within.String() != want {
			t.Errorf("%+v, want within %s", w, want)
		}
	}
}

// TestUnlimitedWait: without a limit ClusterLoader2 waits for ever.
func TestUnlimitedWait(t *testing.T) {
	s, notes := imported(t, map[string]string{"c.yaml": top + measured("WaitForControlledPodsRunning", "action: start, apiVersion: apps/v1, kind: Deployment, operationTimeout: 0s") +
		phase(bundle) + measured("WaitForControlledPodsRunning", "action: gather"), "cm.yaml": cm}, clusterloader2.Options{Nodes: 1})
	if got, want := shown(s.Steps[1]), "wait deployments.apps count 0 all true deleted false within 24h0m0s unmet fail, continue"; got != want || !strings.Contains(notes, "0s is no limit") {
		t.Errorf("%s, want %s\n%s", got, want, notes)
	}
}

// TestNodeFailures: a share of the nodes is rounded up, half of the jitter is
// added on average, and the next interval begins when the nodes are back.
func TestNodeFailures(t *testing.T) {
	for _, tt := range []struct {
		fields string
		nodes  int
		want   string
	}{
		{"failureRate: 0.01, interval: 6m, simulatedDowntime: 1m", 10, "1h9m0s 1m0s"}, // one node of ten every 7 minutes
		{"failureRate: 0.01, interval: 6m, simulatedDowntime: 1m", 1000, "11h39m0s 1m0s"},
		{"failureRate: 0.25, interval: 10m, jitterFactor: 1, simulatedDowntime: 5m", 8, "1h15m0s 5m0s"},
		{"failureRate: 7, interval: 10m, simulatedDowntime: 5m", 8, "10m0s 5m0s"},
	} {
		for _, config := range []string{
			"chaosMonkey: {nodeFailure: {" + tt.fields + "}}\n" + top + measured("Sleep", "duration: 1s"),
			top + measured("ChaosMonkey", "action: start, "+tt.fields),
		} {
			s, _ := imported(t, map[string]string{"c.yaml": config}, clusterloader2.Options{Nodes: tt.nodes})
			f := s.Steps[0].Fault
			if got := fmt.Sprint(f.Between, " ", f.Down); got != tt.want {
				t.Errorf("%s of %d nodes: %s, want %s", tt.fields, tt.nodes, got, tt.want)
			}
		}
	}
}

package vm_test

import (
	"context"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/vm"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/scenario"
)

// verb starts a process of the plane by its command line.
func (r *rig) verb(args ...string) {
	r.t.Helper()
	kubeconfig, out := planetest.WriteKubeconfig(r.t, r.server.Endpoint()), &planetest.Lines{}
	r.t.Cleanup(planetest.Start(r.t, func(ctx context.Context) error {
		root := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
		root.AddCommand(vm.Verbs(process.Host{Stdout: out, Stderr: io.Discard, Interruptible: context.WithCancel})...)
		root.SetArgs(append(args, "--kubeconfig", kubeconfig))
		return root.ExecuteContext(ctx)
	}))
	repotest.Eventually(r.t, args[0]+" begins", func() bool { return out.Has("metrics on") })
}

// TestNodesOfOthersAreNotServed runs machines in a cluster with a node of others, such as one
// of the real KubeVirt that has lost its agent: controller and agent do not ask for it, and
// launcher pods can go to the nodes of the run alone.
func TestNodesOfOthersAreNotServed(t *testing.T) {
	t.Setenv(scenario.VarRun, "r1")
	t.Setenv(scenario.VarFleet, "f1")
	r := newRigOf(t, apitest.New(t)) // the controller defines the kinds
	r.server.AddNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "a-theirs", Labels: map[string]string{api.LabelSchedulable: "true"}, Annotations: map[string]string{api.AnnotationHeartbeat: "2020-01-01T00:00:00Z"},
	}})
	r.server.AddNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b-ours", Labels: map[string]string{object.RunLabel: "r1"}}})
	r.server.Play((&cluster{nodes: []string{"b-ours"}}).playPod)
	r.verb("vm-controller")
	r.verb("vm-agent", "--limiter=1000/1000", "--start=20ms", "--guest=5ms")
	yes := true
	machine := &api.Machine{ObjectMeta: metav1.ObjectMeta{Name: "vm", Namespace: "n", Labels: map[string]string{object.RunLabel: "r1"}}, Spec: api.MachineSpec{Running: &yes}}
	repotest.Eventually(t, "machines are served", func() bool {
		_, err := r.client.Machines.Create(t.Context(), machine)
		return err == nil
	})
	repotest.Eventually(t, "the machine runs", func() bool { return r.count(api.Running) == 1 })
	for _, p := range r.server.Pods() {
		want := corev1.Toleration{Key: object.FleetLabel, Operator: corev1.TolerationOpEqual, Value: "f1", Effect: corev1.TaintEffectNoSchedule}
		if !slices.Contains(p.Spec.Tolerations, want) || p.Spec.NodeSelector[object.RunLabel] != "r1" {
			t.Errorf("pod %s has the tolerations %v and the node selector %v", p.Name, p.Spec.Tolerations, p.Spec.NodeSelector)
		}
	}
	// A call that the door refuses begins with a look at its object.
	if n := r.server.Count("GET " + apitest.NodesPath + "/a-theirs"); n > 0 {
		t.Errorf("%d calls were about the node of others", n)
	}
	labels := map[string]map[string]string{}
	for _, n := range r.server.Nodes() {
		labels[n.Name] = n.Labels
	}
	if !maps.Equal(labels["a-theirs"], map[string]string{api.LabelSchedulable: "true"}) || labels["b-ours"][api.LabelSchedulable] != "true" {
		t.Errorf("the nodes have the labels %v", labels)
	}
}

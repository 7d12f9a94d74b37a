package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/fly/share/job"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

const podsScenario = `
scenario: pods
namespaces: {count: 0}
bodies:
  map: {text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: \"{{ .Name }}\", namespace: \"{{ .Namespace }}\"}}"}
steps:
- {name: fill, create: {body: map, count: $count, pace: {constant: 100}}}
objectives:
- {sli: failed-calls, max: 0}
`

// jobHost is a real control plane with a node of processes.
type jobHost struct {
	*tunnel
	config string
	client kubernetes.Interface
}

// newJobHost starts it; flags are further ones of the kubelet's.
func newJobHost(t *testing.T, flags ...string) *jobHost {
	u := newTunnel(t)
	config, _ := u.up()
	e := repotest.Must(endpoint.FromKubeconfig(config, ""))(t)
	client := repotest.Must(kubernetes.NewForConfig(e.Config("workerpods-test")))(t)
	node, said := u.start(append([]string{"kubelet", "--processes", "here", "--kubeconfig", config}, flags...)...)
	t.Cleanup(func() {
		_ = node.Process.Signal(os.Interrupt)
		if code := exitOf(node.Wait()); code != exitPass {
			t.Errorf("kubelet: exit code %d\n%s", code, said)
		}
	})
	repotest.Eventually(t, "the node is ready", func() bool {
		n, err := client.CoreV1().Nodes().Get(t.Context(), "here", metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	})
	return &jobHost{u, config, client}
}

// fly starts a run of two workers that are pods; flags come behind its own.
func (h *jobHost) fly(name, under string, count int, flags ...string) (*exec.Cmd, *output, record.Dir) {
	h.t.Helper()
	file := filepath.Join(h.dir, name+".yaml")
	repotest.NoError(h.t, os.WriteFile(file, []byte(strings.ReplaceAll(podsScenario, "$count", fmt.Sprint(count))), 0o600))
	out := filepath.Join(h.dir, name)
	args := []string{"run", file, "--kubeconfig", under, "--out", out, "--workers", "2", "--worker-kubeconfig", h.config, "--worker-cpu", "100m", "--worker-memory", "256Mi"}
	cmd, said := h.start(append(args, flags...)...)
	return cmd, said, record.Dir(out)
}

// nothing fails when there is something left on the host.
func (h *jobHost) nothing() {
	h.t.Helper()
	repotest.Eventually(h.t, "job, pods and secret are gone", func() bool {
		of := metav1.ListOptions{LabelSelector: job.Label}
		jobs, err := h.client.BatchV1().Jobs("default").List(context.Background(), of)
		pods, err2 := h.client.CoreV1().Pods("default").List(context.Background(), of)
		secrets, err3 := h.client.CoreV1().Secrets("default").List(context.Background(), of)
		return err == nil && err2 == nil && err3 == nil && len(jobs.Items)+len(pods.Items)+len(secrets.Items) == 0
	})
}

// Workers that are pods of an Indexed Job send every call once; of one that is lost it
// is known which calls nobody knows of.
func TestWorkersAreThePodsOfAJob(t *testing.T) {
	t.Parallel()
	h := newJobHost(t)
	under := hollowCluster(t)

	cmd, said, dir := h.fly("whole", under, 200)
	if code := exitOf(cmd.Wait()); code != exitPass && code != exitUnknown { // a busy machine has its doubts
		t.Fatalf("exit code %d\n%s", code, said)
	}
	var numbers []int
	for i := range 2 {
		ended(t, dir, record.WorkerFile(i), func(_ record.Op, v record.Call) { numbers = append(numbers, int(v.Number)) })
	}
	slices.Sort(numbers)
	if len(numbers) != 200 || numbers[0] != 1 || numbers[199] != 200 || len(slices.Compact(numbers)) != 200 {
		t.Errorf("two workers sent %d calls", len(numbers))
	}
	h.nothing()

	cmd, said, dir = h.fly("lost", under, 1000)
	repotest.Eventually(t, "a worker has sent something", func() bool {
		info, err := os.Stat(dir.File(record.WorkerFile(1)))
		return err == nil && info.Size() > 2000
	})
	pods, err := h.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: job.Label + "," + batchv1.JobCompletionIndexAnnotation + "=1"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("pods of index 1: %v, %v", pods, err)
	}
	now := int64(0)
	repotest.NoError(t, h.client.CoreV1().Pods("default").Delete(t.Context(), pods.Items[0].Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	if code := exitOf(cmd.Wait()); code != exitUnknown {
		t.Errorf("exit code %d\n%s", code, said)
	}
	var j slo.Judgement
	raw, err := dir.Read(record.VerdictFile)
	if err == nil {
		err = json.Unmarshal(raw, &j)
	}
	repotest.NoError(t, err)
	if lost, unknown := j.Measures["workers_lost"].Value, j.Measures["worker_calls_unknown"].Value; lost != 1 || unknown == 0 {
		t.Errorf("%v workers are lost with %v calls", lost, unknown)
	}
	h.nothing()
}

// What a host will not have is said before the load, with what to do.
func TestHostsThatCannotHaveTheWorkers(t *testing.T) {
	t.Parallel()
	h := newJobHost(t)
	under := hollowCluster(t)
	refused := func(name, plane, want string, flags ...string) {
		t.Helper()
		cmd, said, dir := h.fly(name, plane, 200, flags...)
		if code := exitOf(cmd.Wait()); code == exitPass || code == exitFail || !strings.Contains(said.String(), want) {
			t.Errorf("%s: exit code %d, want %q\n%s", name, code, want, said)
		}
		if _, err := dir.ReadStream(record.StreamFile, func(*record.Stream) record.Visitor {
			return record.Visitor{Event: func(e record.Event) {
				if e.Type == record.EventLoadAsked && e.Name == "fill" {
					t.Errorf("%s: the load had begun", name)
				}
			}}
		}); err != nil {
			t.Error(err)
		}
		h.nothing()
	}
	refused("same", h.config, "--workers-on-plane")
	refused("image", under, "would run is not known without the image", "--worker-image", "registry.example/another:v1")
	few := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}}
	if _, err := h.client.CoreV1().ResourceQuotas("default").Create(t.Context(), few, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	repotest.Eventually(t, "the quota is in force", func() bool {
		q, err := h.client.CoreV1().ResourceQuotas("default").Get(t.Context(), few.Name, metav1.GetOptions{})
		return err == nil && len(q.Status.Hard) > 0
	})
	refused("quota", under, "exceeded quota: few")
	repotest.NoError(t, h.client.CoreV1().ResourceQuotas("default").Delete(t.Context(), few.Name, metav1.DeleteOptions{}))

	cmd, said, dir := h.fly("on-plane", h.config, 200, "--workers-on-plane")
	if code := exitOf(cmd.Wait()); code != exitPass && code != exitUnknown { // a busy machine has its doubts
		t.Errorf("on the plane: exit code %d\n%s", code, said)
	}
	for _, name := range []string{record.SummaryFile, record.ReportFile} {
		if raw, err := dir.Read(name); err != nil || !strings.Contains(string(raw), "pods of the plane under test") {
			t.Errorf("%s does not say where the workers were: %v", name, err)
		}
	}
	h.nothing()
}

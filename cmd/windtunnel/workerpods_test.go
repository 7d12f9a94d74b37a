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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/slo"
	"github.com/windtunnel/windtunnel/internal/workers/job"
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

func newJobHost(t *testing.T) *jobHost {
	u := newTunnel(t)
	config, _ := u.up()
	e, err := endpoint.FromKubeconfig(config, "")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(e.Config("workerpods-test"))
	if err != nil {
		t.Fatal(err)
	}
	node, said := u.start("kubelet", "--processes", "here", "--kubeconfig", config)
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

// fly starts a run of two workers that are pods.
func (h *jobHost) fly(name, under string, count int) (*exec.Cmd, *output, record.Dir) {
	h.t.Helper()
	file := filepath.Join(h.dir, name+".yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(podsScenario, "$count", fmt.Sprint(count))), 0o600); err != nil {
		h.t.Fatal(err)
	}
	out := filepath.Join(h.dir, name)
	cmd, said := h.start("run", file, "--kubeconfig", under, "--out", out, "--workers", "2", "--worker-kubeconfig", h.config, "--worker-cpu", "100m", "--worker-memory", "256Mi")
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
	if err := h.client.CoreV1().Pods("default").Delete(t.Context(), pods.Items[0].Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	if code := exitOf(cmd.Wait()); code != exitUnknown {
		t.Errorf("exit code %d\n%s", code, said)
	}
	var j slo.Judgement
	raw, err := dir.Read(record.VerdictFile)
	if err == nil {
		err = json.Unmarshal(raw, &j)
	}
	if err != nil {
		t.Fatal(err)
	}
	if lost, unknown := j.Measures["workers_lost"].Value, j.Measures["worker_calls_unknown"].Value; lost != 1 || unknown == 0 {
		t.Errorf("%v workers are lost with %v calls", lost, unknown)
	}
	h.nothing()
}

func TestWorkersAreNotPutOnThePlaneUnderTest(t *testing.T) {
	h := newJobHost(t)
	cmd, said, _ := h.fly("same", h.config, 200)
	if code := exitOf(cmd.Wait()); code == exitPass || !strings.Contains(said.String(), "--workers-on-plane") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	h.nothing()
}

package processnode_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/api/cleanup"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/internal/sim/processnode"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == process.ReaperArg {
		os.Exit(process.ReaperMain(os.Stdin))
	}
	os.Exit(m.Run())
}

// host is a hollow cluster with a node of processes, whose pods may run a shell.
type host struct {
	*testing.T
	client  kubernetes.Interface
	options processnode.Options
	end     context.CancelFunc
	ended   chan error
}

func newHost(t *testing.T) *host {
	t.Helper()
	server := repotest.Must(hollow.New(hollow.Options{}))(t)
	t.Cleanup(func() { _ = server.Close() })
	c := repotest.Must(server.Cluster("host"))(t)
	client := repotest.Must(kubernetes.NewForConfig(c.Endpoint().Config("kubelet-test")))(t)
	reaper := repotest.Must(process.StartReaper("/proc/self/exe", t.TempDir()))(t)
	t.Cleanup(func() { _ = reaper.Close() })
	h := &host{T: t, client: client, options: processnode.Options{
		Node: "here", Client: client, Endpoint: c.Endpoint(), Reaper: reaper, Logs: t.TempDir(), Executable: "/bin/false", Namespace: "default", Run: "kubelet-1", Allow: []string{"/bin/sh"},
		Clock: clock.Start(), Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})), RestartAfter: time.Millisecond,
	}}
	h.start()
	return h
}

// start starts the node; it is ended with the test at the latest.
func (h *host) start() {
	ctx, cancel := context.WithCancel(h.Context())
	h.ended = make(chan error, 1)
	go func() { h.ended <- processnode.Run(ctx, h.options) }()
	var once bool
	h.end = func() {
		cancel()
		if !once {
			once = true
			if err := <-h.ended; err != nil {
				h.Errorf("the kubelet ended: %v", err)
			}
		}
	}
	h.Cleanup(h.end)
}

// run makes a pod of a container whose command is a script, with more of the spec.
func (h *host) run(name, script, more string) {
	h.Helper()
	p := &corev1.Pod{}
	repotest.NoError(h, yaml.UnmarshalStrict([]byte(more), &p.Spec))
	p.Name, p.Spec.NodeName = name, "here"
	if len(p.Spec.Containers) == 0 {
		p.Spec.Containers = []corev1.Container{{Name: "main"}}
	}
	for i := range p.Spec.Containers {
		if c := &p.Spec.Containers[i]; len(c.Command) == 0 {
			c.Image, c.Command = "any", []string{"/bin/sh", "-c", script}
		}
	}
	for i := range p.Spec.InitContainers {
		p.Spec.InitContainers[i].Image = "any"
	}
	if _, err := h.client.CoreV1().Pods("default").Create(h.Context(), p, metav1.CreateOptions{}); err != nil {
		h.Fatal(err)
	}
}

func (h *host) pod(name string) *corev1.Pod {
	h.Helper()
	p := repotest.Must(h.client.CoreV1().Pods("default").Get(h.Context(), name, metav1.GetOptions{}))(h)
	return p
}

// await waits until a pod is as it should be, and returns it.
func (h *host) await(name, what string, met func(*corev1.Pod) bool) *corev1.Pod {
	h.Helper()
	repotest.Eventually(h.T, name+" is "+what, func() bool { return met(h.pod(name)) })
	return h.pod(name)
}

func over(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func running(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && p.Status.ContainerStatuses[0].State.Running != nil
}

// said is what a container has written.
func (h *host) said(name, container string) string {
	h.Helper()
	found, err := filepath.Glob(filepath.Join(h.options.Logs, "default_"+name+"_*", container+"-*.log"))
	if err != nil || len(found) == 0 {
		h.Fatalf("%s has no log: %v", name, err)
	}
	var out strings.Builder
	for _, path := range found {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			h.Errorf("the log %s: mode %v, %v", path, info.Mode(), err)
		}
		raw := repotest.Must(os.ReadFile(path))(h)
		out.Write(raw)
	}
	return out.String()
}

func TestNodeIsRegisteredAndRemoved(t *testing.T) {
	h := newHost(t)
	repotest.Eventually(t, "the node is ready and has a lease", func() bool {
		n, err := h.client.CoreV1().Nodes().Get(t.Context(), "here", metav1.GetOptions{})
		if err != nil {
			return false
		}
		_, err = h.client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), "here", metav1.GetOptions{})
		return err == nil && !n.Status.Allocatable.Cpu().IsZero() && n.Spec.Taints[0].Key == processnode.Taint
	})
	if err := processnode.Run(t.Context(), h.options); !errors.Is(err, processnode.ErrTaken) {
		t.Errorf("a second kubelet of the node: %v", err)
	}
	h.end()
	if _, err := h.client.CoreV1().Nodes().Get(t.Context(), "here", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the node is still there: %v", err)
	}
}

func TestNodeOfOthersIsLeftAlone(t *testing.T) {
	h := newHost(t)
	if _, err := h.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	o := h.options
	o.Node = "theirs"
	if err := processnode.Run(t.Context(), o); !errors.Is(err, processnode.ErrTaken) {
		t.Errorf("%v", err)
	}
}

// Init containers run one after another, before all others, and hand on what they have
// made; config maps and secrets are files and variables.
func TestPodRunsToItsEnd(t *testing.T) {
	h := newHost(t)
	if _, err := h.client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": []byte("hidden")}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.run("ok", "cat /work/order /etc/s/k; echo $ME $K $HOME; pwd", `
restartPolicy: Never
initContainers:
- {name: one, command: [/bin/sh, -c, "echo one >>/work/order"], volumeMounts: [{name: w, mountPath: /work}]}
- {name: two, command: [/bin/sh, -c, "echo two >>/work/order"], volumeMounts: [{name: w, mountPath: /work}]}
containers:
- name: main
  env: [{name: ME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: K, valueFrom: {secretKeyRef: {name: s, key: k}}}]
  volumeMounts: [{name: w, mountPath: /work}, {name: s, mountPath: /etc/s}]
volumes: [{name: w, emptyDir: {}}, {name: s, secret: {secretName: s}}]
`)
	p := h.await("ok", "over", over)
	if p.Status.Phase != corev1.PodSucceeded || len(p.Status.InitContainerStatuses) != 2 || p.Status.ContainerStatuses[0].State.Terminated.Reason != "Completed" {
		t.Fatalf("status %+v", p.Status)
	}
	words := strings.Fields(h.said("ok", "main"))
	if got := strings.Join(words[:len(words)-2], " "); got != "one two hiddenok hidden" || words[len(words)-1] != words[len(words)-2] {
		t.Errorf("it said %q", words)
	}
	if _, err := os.Stat(words[len(words)-1]); !os.IsNotExist(err) {
		t.Errorf("what the pod was given is still there: %v", err)
	}
}

func TestHowContainersEnd(t *testing.T) {
	h := newHost(t)
	for _, tt := range []struct {
		name, script, more string
		phase              corev1.PodPhase
		code               int32
		restarts           int32
	}{
		{"fails", "echo alas >&2; exit 7", "restartPolicy: Never", corev1.PodFailed, 7, 0},
		{"killed", "kill -9 $$$$", "restartPolicy: Never", corev1.PodFailed, 137, 0},
		{"third", "echo x >>/w/n; [ $(wc -l </w/n) = 3 ]", "{restartPolicy: OnFailure, containers: [{name: main, volumeMounts: [{name: w, mountPath: /w}]}], volumes: [{name: w, emptyDir: {}}]}", corev1.PodSucceeded, 0, 2},
		{"init", "echo never", `{restartPolicy: Never, initContainers: [{name: i, command: [/bin/sh, -c, "exit 3"]}]}`, corev1.PodFailed, 0, 0},
		{"late", "exec sleep 600", "{restartPolicy: Never, activeDeadlineSeconds: 1}", corev1.PodFailed, 143, 0},
	} {
		h.run(tt.name, tt.script, tt.more)
		p := h.await(tt.name, "over", over)
		c := p.Status.ContainerStatuses[0]
		var code int32
		if c.State.Terminated != nil {
			code = c.State.Terminated.ExitCode
		}
		if p.Status.Phase != tt.phase || code != tt.code || c.RestartCount != tt.restarts {
			t.Errorf("%s: %+v", tt.name, p.Status)
		}
	}
	if m := h.pod("fails").Status.ContainerStatuses[0].State.Terminated.Message; m != "alas" {
		t.Errorf("its last words were %q", m)
	}
	if s := h.pod("init").Status; s.InitContainerStatuses[0].State.Terminated.ExitCode != 3 || s.ContainerStatuses[0].State.Waiting == nil {
		t.Errorf("a pod whose init container failed: %+v", s)
	}
	if s := h.pod("late").Status; s.Reason != "DeadlineExceeded" {
		t.Errorf("a pod beyond its deadline: %+v", s)
	}
}

func TestRefusedPodSaysWhy(t *testing.T) {
	h := newHost(t)
	h.run("bad", "", `{containers: [{name: main, command: [/bin/ls], ports: [{containerPort: 1}]}]}`)
	p := h.await("bad", "over", over)
	if p.Status.Reason != "Unsupported" || !strings.Contains(p.Status.Message, "--allow /bin/ls") || !strings.Contains(p.Status.Message, "ports") {
		t.Errorf("%+v", p.Status)
	}
	repotest.Eventually(t, "there is an event", func() bool {
		all, err := h.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		return err == nil && len(all.Items) == 1 && all.Items[0].Reason == "Unsupported"
	})
}

func TestPodWaitsForItsConfigMap(t *testing.T) {
	h := newHost(t)
	h.run("waits", "echo $A", `{restartPolicy: Never, containers: [{name: main, envFrom: [{configMapRef: {name: m}}]}]}`)
	h.await("waits", "waiting for it", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Waiting != nil && p.Status.ContainerStatuses[0].State.Waiting.Reason == "CreateContainerConfigError"
	})
	if _, err := h.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"A": "came"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.await("waits", "over", over)
	if got := h.said("waits", "main"); got != "came\n" {
		t.Errorf("it said %q", got)
	}
}

// alive says whether a process, whose number a container has written, is there.
func (h *host) alive(name string) bool {
	h.Helper()
	number, _, _ := strings.Cut(h.said(name, "main"), "\n") // a shell may say behind it that it was ended
	pid := repotest.Must(strconv.Atoi(number))(h)
	return syscall.Kill(pid, 0) == nil
}

func TestDeletedPodIsAskedThenKilled(t *testing.T) {
	h := newHost(t)
	zero, short := int64(0), int64(1)
	for _, tt := range []struct {
		name, script string
		grace        *int64
	}{
		{"asked", "trap 'exit 0' TERM; echo $$$$; while :; do sleep 0.05; done", nil}, // in the 30 s of its own
		{"stubborn", "trap '' TERM; echo $$$$; while :; do sleep 0.05; done", &short},
		{"forced", "trap '' TERM; echo $$$$; while :; do sleep 0.05; done", &zero},
	} {
		h.run(tt.name, tt.script, "{}")
		h.await(tt.name, "running", running)
		repotest.Eventually(t, "it says its number", func() bool { return strings.HasSuffix(h.said(tt.name, "main"), "\n") })
		if !h.alive(tt.name) {
			t.Errorf("%s is not there", tt.name)
		}
		repotest.NoError(t, h.client.CoreV1().Pods("default").Delete(t.Context(), tt.name, metav1.DeleteOptions{GracePeriodSeconds: tt.grace}))
		repotest.Eventually(t, tt.name+" and its process are gone", func() bool {
			_, err := h.client.CoreV1().Pods("default").Get(t.Context(), tt.name, metav1.GetOptions{})
			return apierrors.IsNotFound(err) && !h.alive(tt.name)
		})
	}
}

func TestProcessesEndWithTheKubelet(t *testing.T) {
	h := newHost(t)
	h.run("stays", "echo $$$$; exec sleep 600", "{}")
	h.await("stays", "running", running)
	repotest.Eventually(t, "it says its number", func() bool { return strings.HasSuffix(h.said("stays", "main"), "\n") })
	h.end()
	if h.alive("stays") {
		t.Error("its process is still there")
	}
	if p := h.pod("stays"); p.Status.Phase != corev1.PodFailed || p.Status.Reason != "Terminated" {
		t.Errorf("%+v", p.Status)
	}
}

// What a killed kubelet leaves carries the stamp by which `windtunnel clean` finds it,
// and the lease goes with the node.
func TestNodeAndLeaseAreMarked(t *testing.T) {
	h := newHost(t)
	client := repotest.Must(wire.New(h.options.Endpoint, wire.Options{Clock: h.options.Clock}))(t)
	defer client.Close()
	var found []string
	repotest.Eventually(t, "node and lease are found by their stamp", func() bool {
		all, _, err := cleanup.Look{Client: client, Run: h.options.Run}.Find(t.Context())
		found = nil
		for _, f := range all {
			found = append(found, f.String())
		}
		return err == nil && slices.Equal(found, []string{"leases.coordination.k8s.io kube-node-lease/here", "nodes here"})
	})
	node := repotest.Must(h.client.CoreV1().Nodes().Get(t.Context(), "here", metav1.GetOptions{}))(t)
	lease, err := h.client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), "here", metav1.GetOptions{})
	if err != nil || len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].UID != node.UID {
		t.Errorf("the lease's owners are %v, %v; want the node", lease.OwnerReferences, err)
	}
}

// TestTheNextKubeletTakesOver starts a kubelet where a killed one has left its node, a lease
// that has expired and pods that are said to run: the node is the new one's, a pod that is not
// to be restarted has failed, and another one runs again.
func TestTheNextKubeletTakesOver(t *testing.T) {
	h := newHost(t)
	h.end()
	old, long := h.options.Run, metav1.NewMicroTime(time.Now().Add(-time.Minute))
	label := map[string]string{object.RunLabel: "kubelet-0"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here", Labels: map[string]string{"windtunnel.dev/kubelet": "processes", object.RunLabel: "kubelet-0"}}}
	if _, err := h.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "here", Labels: label}, Spec: coordinationv1.LeaseSpec{RenewTime: &long}}
	if _, err := h.client.CoordinationV1().Leases("kube-node-lease").Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	began := metav1.NewTime(long.Time)
	for name, policy := range map[string]string{"once": "Never", "again": "Always"} {
		h.run(name, "exec sleep 600", "restartPolicy: "+policy)
		p := h.pod(name)
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &began, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", ContainerID: "process://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}},
		}}}
		if _, err := h.client.CoreV1().Pods("default").UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	h.start()
	if p := h.await("once", "over", over); p.Status.Phase != corev1.PodFailed || p.Status.Reason != "KubeletRestarted" {
		t.Errorf("once: %+v", p.Status)
	}
	h.await("again", "running again", func(p *corev1.Pod) bool { return running(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	n, err := h.client.CoreV1().Nodes().Get(t.Context(), "here", metav1.GetOptions{})
	if err != nil || n.Labels[object.RunLabel] != old {
		t.Errorf("the node has the labels %v, %v", n.Labels, err)
	}
	l, err := h.client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), "here", metav1.GetOptions{})
	if err != nil || l.Labels[object.RunLabel] != old || !l.Spec.RenewTime.After(long.Time) {
		t.Errorf("the lease is %+v, %v", l, err)
	}
}

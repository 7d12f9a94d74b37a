package kubelet_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/fleet/kubelet"
	"github.com/windtunnel/windtunnel/scenario"
)

// site is a real plane with one node, one pod on it, and a server that stands
// for the node's kubelet.
type site struct {
	endpoint   endpoint.Endpoint
	client     *kubernetes.Clientset
	wire       *wire.Client
	server     *kubelet.Server
	kubeconfig string
	folder     string
}

func newSite(t *testing.T) *site {
	t.Helper()
	executable := repotest.Binary(t)
	p, err := plane.Start(t.Context(), scenario.Plane{}, plane.Options{LogDir: t.TempDir(), Executable: executable})
	repotest.NoError(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &site{endpoint: p.Endpoint(plane.Admin), folder: t.TempDir()}
	s.kubeconfig = filepath.Join(s.folder, "kubeconfig")
	repotest.NoError(t, s.endpoint.WriteKubeconfig(s.kubeconfig))
	if s.client, err = kubernetes.NewForConfig(s.endpoint.Config("test")); err != nil {
		t.Fatal(err)
	}
	if s.wire, err = wire.New(s.endpoint, wire.Options{Clock: clock.Start()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.wire.Close() })
	s.serve(t)
	s.populate(t)
	return s
}

// serve starts the server, which answers the plane's API server alone: its
// client certificate is of the plane's authority.
func (s *site) serve(t *testing.T) {
	t.Helper()
	ca := filepath.Join(s.folder, "ca.pem")
	repotest.NoError(t, os.WriteFile(ca, s.endpoint.Config("").CAData, 0o600))
	listener := repotest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "served by the target\n")
			_ = conn.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	metrics := repotest.Must(os.ReadFile(filepath.Join("testdata", "metrics.yaml")))(t)
	text := string(metrics) + fmt.Sprintf(`---
{apiVersion: kwok.x-k8s.io/v1alpha1, kind: ClusterLogs, metadata: {name: all}, spec: {logs: [{logsFile: %[1]s/log, previousLogsFile: %[1]s/old}]}}
---
{apiVersion: kwok.x-k8s.io/v1alpha1, kind: ClusterAttach, metadata: {name: all}, spec: {attaches: [{logsFile: %[1]s/log}]}}
---
{apiVersion: kwok.x-k8s.io/v1alpha1, kind: ClusterExec, metadata: {name: all}, spec: {execs: [{local: {workDir: %[1]s, envs: [{name: WHO, value: fleet}]}}]}}
---
{apiVersion: kwok.x-k8s.io/v1alpha1, kind: ClusterPortForward, metadata: {name: all}, spec: {forwards: [{ports: [80], target: {address: 127.0.0.1, port: %[2]s}}]}}
`, s.folder, port)
	for name, line := range map[string]string{"log": "written before", "old": "from the last life"} {
		repotest.NoError(t, os.WriteFile(filepath.Join(s.folder, name), []byte("2026-01-02T03:04:05Z stdout F "+line+"\n"), 0o600))
	}
	c := repotest.Must(configuration.Read(strings.NewReader(text), "-"))(t)
	world := kubelet.NewCluster(kubelet.ClusterOptions{Client: s.wire, Clock: clock.Start()})
	t.Cleanup(func() { _ = world.Close() })
	s.server = repotest.Must(kubelet.Start(t.Context(), kubelet.Options{Objects: c.Objects, World: world, ClientCAFile: ca, Clock: clock.Start(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))}))(t)
	t.Cleanup(func() { _ = s.server.Close() })
}

// populate makes the node and the pod, as a fleet does.
func (s *site) populate(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	node := &corev1.Node{}
	node.Name = "sim-0"
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(s.server.Addr().(*net.TCPAddr).Port)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	created, err := s.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	repotest.NoError(t, err)
	created.Status = node.Status
	if _, err := s.client.CoreV1().Nodes().UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace = "web", "default"
	pod.Annotations = map[string]string{"kwok.x-k8s.io/usage-cpu": "500m", "kwok.x-k8s.io/usage-memory": "2Mi"}
	pod.Spec = corev1.PodSpec{NodeName: "sim-0", Containers: []corev1.Container{{Name: "c", Image: "i", TTY: true, Stdin: true}}}
	var made *corev1.Pod
	// The namespace's service account comes a moment after the plane.
	repotest.Eventually(t, "a pod is created", func() bool {
		made, err = s.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		return err == nil
	})
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	made.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Ready: true, State: running}}}
	if _, err := s.client.CoreV1().Pods("default").UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// kubectl runs kubectl, which must be installed, and returns what it says.
func (s *site) kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, repotest.Kubectl(t), append([]string{"--kubeconfig", s.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	// The server greets each stream with an empty message, as kubelets do; where
	// that is faster than kubectl's own bookkeeping, kubectl says that it drops it.
	out = greeting.ReplaceAll(out, nil)
	if err != nil {
		return fmt.Sprintf("%s(%v)", out, err)
	}
	return string(out)
}

// TestRealPlane asks through a real API server, as kubectl and metrics-server do.
func TestRealPlane(t *testing.T) {
	s := newSite(t)
	t.Run("kubectl", s.withKubectl)
	t.Run("client", s.withClient)
	t.Run("metrics", s.metrics)
	t.Run("custom resources", s.customResources)
}

func (s *site) withKubectl(t *testing.T) {
	for _, c := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{"", []string{"logs", "web"}, "written before\n"},
		{"", []string{"logs", "web", "--timestamps", "--tail=1"}, "2026-01-02T03:04:05.000000000Z written before\n"},
		{"", []string{"logs", "web", "--previous"}, "from the last life\n"},
		{"", []string{"exec", "web", "--", "sh", "-c", "pwd; echo $WHO"}, s.folder + "\nfleet\n"},
		{"typed", []string{"exec", "-i", "web", "--", "cat"}, "typed"},
		{"", []string{"exec", "web", "--", "sh", "-c", "exit 7"}, "command terminated with exit code 7\n(exit status 7)"},
	} {
		if got := s.kubectl(t, c.stdin, c.args...); got != c.want {
			t.Errorf("kubectl %q: %q, want %q", c.args, got, c.want)
		}
	}
}

// metrics asks as metrics-server does: the node's address itself, with a
// certificate of the cluster. (The API server's own way to nodes refuses those
// on loopback addresses.)
func (s *site) metrics(t *testing.T) {
	config := s.endpoint.Config("test")
	cert := repotest.Must(tls.X509KeyPair(config.CertData, config.KeyData))(t)
	ask := func(certs ...tls.Certificate) (int, string) {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certs}, DisableKeepAlives: true}}
		r := repotest.Must(c.Get("https://" + s.server.Addr().String() + "/metrics/nodes/sim-0/metrics/resource"))(t)
		defer r.Body.Close()
		body := repotest.Must(io.ReadAll(r.Body))(t)
		return r.StatusCode, string(body)
	}
	if code, body := ask(); code != http.StatusUnauthorized {
		t.Error(code, body)
	}
	_, got := ask(cert)
	for _, want := range []string{
		"pod_memory_working_set_bytes{namespace=\"default\",pod=\"web\"} 2.097152e+06\n",
		"container_cpu_usage_seconds_total{container=\"c\",namespace=\"default\",pod=\"web\"} ",
		"node_memory_working_set_bytes 2.097152e+06\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func (s *site) request(verb string, options map[string][]string) *url.URL {
	r := s.client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("web").SubResource(verb)
	for k, vs := range options {
		for _, v := range vs {
			r = r.Param(k, v)
		}
	}
	return r.URL()
}

// withClient speaks to the API server as kubectl of its own version does: over
// WebSocket, and over SPDY as older ones.
func (s *site) withClient(t *testing.T) {
	config := s.endpoint.Config("test")
	config.Timeout = 0
	target := s.request("exec", map[string][]string{"command": {"sh", "-c", "cat; echo done >&2; exit 3"}, "container": {"c"}, "stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"}})
	over := repotest.Must(remotecommand.NewSPDYExecutor(config, http.MethodPost, target))(t)
	inside := repotest.Must(remotecommand.NewWebSocketExecutor(config, http.MethodGet, target.String()))(t)
	for name, e := range map[string]remotecommand.Executor{"spdy": over, "websocket": inside} {
		var out, errOut bytes.Buffer
		body := strings.Repeat("z", 100_000)
		err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader(body), Stdout: &out, Stderr: &errOut})
		if out.String() != body || errOut.String() != "done\n" || err == nil || !strings.Contains(err.Error(), "exit code 3") {
			t.Errorf("%s: %d bytes, %q, %v", name, out.Len(), errOut.String(), err)
		}
	}
	s.forward(t, config)
}

func (s *site) forward(t *testing.T, config *rest.Config) {
	dialer := repotest.Must(portforward.NewSPDYOverWebsocketDialer(s.request("portforward", nil), config))(t)
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	f := repotest.Must(portforward.New(dialer, []string{"0:80"}, stop, ready, io.Discard, io.Discard))(t)
	go func() { ended <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports := repotest.Must(f.GetPorts())(t)
	conn := repotest.Must(net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local)))(t)
	if got, err := io.ReadAll(conn); string(got) != "served by the target\n" {
		t.Errorf("%q, %v", got, err)
	}
	_ = conn.Close()
	close(stop)
	<-ended
}

// crd is a custom resource definition that takes any object of a kind.
func crd(plural, kind string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.kwok.x-k8s.io"},
"spec":{"group":"kwok.x-k8s.io","scope":"Namespaced","names":{"plural":"%[1]s","singular":"%[3]s","kind":"%[2]s"},
"versions":[{"name":"v1alpha1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`,
		plural, kind, strings.ToLower(kind))
}

func (s *site) post(t *testing.T, path, body string) (code int, answer string) {
	t.Helper()
	r, err := s.wire.Do(t.Context(), &wire.Request{Method: http.MethodPost, Path: path, ContentType: "application/json", Body: []byte(body)})
	repotest.NoError(t, err)
	return r.Code, string(r.Body)
}

// lines hands on what is logged.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// customResources installs a CRD while it is followed, and serves what its
// objects say.
func (s *site) customResources(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	changed, refused := make(chan *configuration.Objects, 100), make(lines, 100)
	go func() {
		ended <- configuration.Follow(ctx, configuration.Source{Client: s.wire, Clock: clock.Start(), Kinds: []string{configuration.KindLogs}, Log: slog.New(slog.NewTextHandler(refused, nil))},
			func(o *configuration.Objects) { changed <- o })
	}()
	if line := <-refused; !strings.Contains(line, "kind not served") {
		t.Fatal(line)
	}
	if code, answer := s.post(t, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd("logs", "Logs")); code != http.StatusCreated {
		t.Fatal(code, answer)
	}
	const path = "/apis/kwok.x-k8s.io/v1alpha1/namespaces/default/logs"
	object := fmt.Sprintf(`{"apiVersion":"kwok.x-k8s.io/v1alpha1","kind":"Logs","metadata":{"name":"web"},"spec":{"logs":[{"logsFile":"%s/old"}]}}`, s.folder)
	repotest.Eventually(t, "the kind is served", func() bool {
		code, answer := s.post(t, path, object)
		if code != http.StatusCreated {
			t.Log(code, answer)
		}
		return code == http.StatusCreated
	})
	deadline := time.After(30 * time.Second)
	for found := false; !found; {
		select {
		case o := <-changed:
			if found = len(o.Logs.Pods) == 1; found {
				if err := s.server.Configure(o); err != nil {
					t.Error(err)
				}
			}
		case <-deadline:
			t.Fatal("the object did not come")
		}
	}
	got, err := s.client.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil || string(got) != "from the last life\n" {
		t.Errorf("%q, %v", got, err)
	}
	cancel()
	<-ended
}

var greeting = regexp.MustCompile(`(?m)^E\d+ .*Unknown stream id \d+, discarding message\n`)

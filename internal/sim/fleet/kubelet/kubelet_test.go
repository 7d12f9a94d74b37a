package kubelet

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// world is a World of two nodes and three pods.
type world struct {
	mu    sync.Mutex
	pods  []*corev1.Pod
	words []string
	fail  error
}

func (w *world) Node(_ context.Context, name string) (*corev1.Node, error) {
	if w.fail != nil {
		return nil, w.fail
	}
	if name != "n1" && name != "n2" {
		return nil, fmt.Errorf("node %s: %w", name, ErrNotFound)
	}
	n := &corev1.Node{}
	n.Name = name
	return n, nil
}

func (w *world) PodsOn(_ context.Context, node string) ([]*corev1.Pod, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*corev1.Pod
	for _, p := range w.pods {
		if p.Spec.NodeName == node {
			out = append(out, p)
		}
	}
	return out, nil
}

func (w *world) Pod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pods {
		if p.Namespace == namespace && p.Name == name {
			return p, w.fail
		}
	}
	return nil, fmt.Errorf("pod %s/%s: %w", namespace, name, ErrNotFound)
}

func (w *world) Nodes() []string             { return []string{"n2", "n1"} }
func (w *world) Started(node string) float64 { return float64(len(node)) }
func (w *world) Need(words []string)         { w.words = words }
func (w *world) PodList(_ context.Context, node string) ([]byte, error) {
	return fmt.Appendf(nil, `{"items":[%q]}`, node), nil
}

func pod(node, namespace, name string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.UID, p.Spec.NodeName = namespace, name, types.UID(name+"-uid"), node
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c})
	}
	return p
}

func newWorld() *world {
	return &world{pods: []*corev1.Pod{pod("n1", "a", "web", "c", "d"), pod("n1", "a", "db", "c"), pod("n2", "b", "web", "c")}}
}

// start starts a server with objects from a text.
func start(t testing.TB, objects string, change func(*Options)) (*Server, *bytes.Buffer) {
	t.Helper()
	c := repotest.Must(configuration.Read(strings.NewReader(objects), "-"))(t)
	log := &lockedBuffer{}
	o := Options{Objects: c.Objects, World: newWorld(), Clock: clock.Start(), Log: slog.New(slog.NewTextHandler(log, nil))}
	if change != nil {
		change(&o)
	}
	s := repotest.Must(Start(t.Context(), o))(t)
	t.Cleanup(func() {
		done := make(chan struct{})
		go func() {
			_ = s.Close()
			_ = s.Close()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Error("the server does not close")
		}
	})
	return s, &log.b
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// client trusts any certificate.
func client(t testing.TB) *http.Client {
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// get returns code and body.
func get(t testing.TB, url string) (int, string) {
	t.Helper()
	r := repotest.Must(client(t).Get(url))(t)
	defer r.Body.Close()
	body := repotest.Must(io.ReadAll(r.Body))(t)
	return r.StatusCode, string(body)
}

func TestRoutes(t *testing.T) {
	s, _ := start(t, "", func(o *Options) {
		o.Profiles = true
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "own 1") })
	})
	for _, scheme := range []string{"http", "https"} {
		for path, want := range map[string]string{
			"/healthz":                              "200 ok",
			"/livez":                                "200 ok",
			"/readyz":                               "200 ok",
			"/metrics":                              "200 own 1",
			"/metrics/":                             "200 own 1",
			"/metrics/resource":                     "404 no Metric object has this path\n",
			"/logs/syslog":                          "405 simulated nodes have no such endpoint\n",
			"/run/a/b/c":                            "405 simulated nodes have no such endpoint\n",
			"/stats/summary":                        "405 simulated nodes have no such endpoint\n",
			"/pods":                                 "400 this server stands for many nodes: name one, as in /pods?nodeName=NAME\n",
			"/pods?nodeName=n1":                     `200 {"items":["n1"]}`,
			"/discovery/prometheus":                 "200 []",
			"/containerLogs/a/web/c":                "400 no Logs or ClusterLogs: there is no object about it: container c of pod a/web\n",
			"/containerLogs/a/web":                  "404 404 page not found\n",
			"/containerLogs/a/none/c":               "404 there is no pod a/none\n",
			"/containerLogs/a/web/e":                "400 there is no container e in pod a/web\n",
			"/exec/a/web/c":                         "400 want at least one of stdin, stdout and stderr\n",
			"/exec/a/web/c?output=1":                "400 want a command\n",
			"/exec/a/web/c?output=1&command=ls":     "400 no Exec or ClusterExec: there is no object about it: container c of pod a/web\n",
			"/exec/a/web/bad/c?output=1&command=ls": "404 there is no pod a/web\n",
			"/exec/a/web/web-uid/c?output=1&command=ls": "400 no Exec or ClusterExec: there is no object about it: container c of pod a/web\n",
			"/attach/a/web/c?output=1":                  "400 no Attach or ClusterAttach: there is no object about it: container c of pod a/web\n",
			"/portForward/a/none":                       "404 there is no pod a/none\n",
		} {
			code, body := get(t, scheme+"://"+s.Addr().String()+path)
			if got := fmt.Sprintf("%d %s", code, body); got != want {
				t.Errorf("%s %s: %q, want %q", scheme, path, got, want)
			}
		}
	}
	if code, body := get(t, "http://"+s.Addr().String()+"/debug/pprof/cmdline"); code != 200 || !strings.HasPrefix(body, os.Args[0]) {
		t.Error(code, body)
	}
}

func TestSwitchedOff(t *testing.T) {
	s, _ := start(t, "", func(o *Options) { o.NoStream, o.Profiles, o.World, o.Node = true, true, nil, "n1" })
	for path, want := range map[string]string{
		"/exec/a/b/c":           "405 logs, exec, attach, port-forward and profiles are switched off\n",
		"/containerLogs/a/b/c":  "405 logs, exec, attach, port-forward and profiles are switched off\n",
		"/debug/pprof/":         "405 logs, exec, attach, port-forward and profiles are switched off\n",
		"/metrics":              "404 no Metric object has this path\n",
		"/pods":                 "503 the server was started without pods\n",
		"/discovery/prometheus": "200 []",
	} {
		code, body := get(t, "http://"+s.Addr().String()+path)
		if got := fmt.Sprintf("%d %s", code, body); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestOneNode shows a server that stands for one node.
func TestOneNode(t *testing.T) {
	s, _ := start(t, resourceMetrics(t), func(o *Options) { o.Node = "n2" })
	base := "http://" + s.Addr().String()
	if code, body := get(t, base+"/metrics/resource"); code != 200 || !strings.Contains(body, `pod_memory_working_set_bytes{namespace="b",pod="web"} 1.048576e+06`) {
		t.Error(code, body)
	}
	if code, body := get(t, base+"/pods"); code != 200 || body != `{"items":["n2"]}` {
		t.Error(code, body)
	}
	if code, body := get(t, base+"/containerLogs/a/web/c"); code != 404 || body != "pod a/web is not on node n2\n" {
		t.Error(code, body)
	}
}

func TestAccess(t *testing.T) {
	folder := t.TempDir()
	ca := newAuthority(t)
	file := filepath.Join(folder, "ca.pem")
	repotest.NoError(t, os.WriteFile(file, ca.pem, 0o600))
	own := ca.sign(t, "kube-apiserver", true)
	other := newAuthority(t).sign(t, "someone", true)
	s, _ := start(t, "", func(o *Options) { o.ClientCAFile = file })
	ask := func(scheme, path string, cert *tls.Certificate) string {
		config := &tls.Config{InsecureSkipVerify: true}
		if cert != nil {
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
		}
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		r, err := c.Get(scheme + "://" + s.Addr().String() + path)
		if err != nil {
			return "refused"
		}
		defer r.Body.Close()
		return fmt.Sprint(r.StatusCode)
	}
	for _, c := range []struct {
		scheme, path string
		cert         *tls.Certificate
		want         string
	}{
		{"https", "/discovery/prometheus", &own, "200"},
		{"https", "/discovery/prometheus", nil, "401"},
		{"https", "/discovery/prometheus", &other, "refused"},
		{"http", "/discovery/prometheus", nil, "401"},
		{"http", "/exec/a/web/c?output=1&command=id", nil, "401"},
		{"http", "/healthz", nil, "200"},
		{"https", "/healthz", nil, "200"},
	} {
		if got := ask(c.scheme, c.path, c.cert); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.scheme, c.path, got, c.want)
		}
	}
}

// A web page cannot have a browser run commands: not from another origin, and not
// by a name of its own that its server has made to stand for this machine.
func TestForeignPages(t *testing.T) {
	s, _ := start(t, "", func(o *Options) { o.Names = []string{"fleet.example"} })
	address := s.Addr().String()
	_, port, err := net.SplitHostPort(address)
	repotest.NoError(t, err)
	for _, c := range []struct {
		host, origin, site string
		want               int
	}{
		{address, "", "", 200},
		{address, "http://" + address, "same-origin", 200},
		{address, "https://evil.example", "", 403},
		{address, "null", "", 403},
		{address, "", "cross-site", 403},
		{address, "", "none", 200}, // typed by a person
		{"localhost:" + port, "", "", 200},
		{"[::1]:" + port, "", "", 200},
		{"10.1.2.3:" + port, "", "", 200}, // an API server that reaches the node so
		{"fleet.example:" + port, "", "", 200},
		{"evil.example:" + port, "http://evil.example:" + port, "same-origin", 403},
		{"evil.example:" + port, "", "", 403},
		{"evil.example", "", "", 403},
	} {
		r := repotest.Must(http.NewRequest(http.MethodGet, "http://"+address+"/discovery/prometheus", nil))(t)
		r.Host = c.host
		for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		answer := repotest.Must(client(t).Do(r))(t)
		answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("%+v: %d", c, answer.StatusCode)
		}
	}
}

func TestCertificates(t *testing.T) {
	folder := t.TempDir()
	ca := newAuthority(t)
	cert := ca.sign(t, "fleet", false)
	certFile, keyFile := ca.write(t, folder, cert)
	s, _ := start(t, "", func(o *Options) { o.CertFile, o.KeyFile = certFile, keyFile })
	conn := repotest.Must(tls.Dial("tcp", s.Addr().String(), &tls.Config{RootCAs: ca.pool(), ServerName: "127.0.0.1"}))(t)
	if name := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; name != "fleet" {
		t.Error(name)
	}
	conn.Close()

	s, _ = start(t, "", func(o *Options) { o.Names = []string{"10.1.2.3", "fleet.example"} })
	conn = repotest.Must(tls.Dial("tcp", s.Addr().String(), &tls.Config{InsecureSkipVerify: true}))(t)
	made := conn.ConnectionState().PeerCertificates[0]
	conn.Close()
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "10.1.2.3", "fleet.example"} {
		if err := made.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	empty := filepath.Join(folder, "empty")
	repotest.NoError(t, os.WriteFile(empty, nil, 0o600))
	for want, o := range map[string]Options{
		"kubelet: a certificate and its key go together":               {CertFile: certFile},
		"kubelet: certificate: open F/none: no such file or directory": {CertFile: folder + "/none", KeyFile: keyFile},
		"kubelet: client CA: open F/none: no such file or directory":   {ClientCAFile: folder + "/none"},
		"kubelet: client CA: F/empty: no certificate in it":            {ClientCAFile: empty},
		"kubelet: listen tcp: lookup tcp/none: unknown port":           {Address: "127.0.0.1:none"},
	} {
		o.Clock = clock.Start()
		if _, err := Start(t.Context(), o); err == nil || strings.ReplaceAll(err.Error(), folder, "F") != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestWarns shows that a server which others can reach says so.
func TestWarns(t *testing.T) {
	_, log := start(t, "", nil)
	if log.Len() > 0 {
		t.Error(log.String())
	}
	_, log = start(t, "", func(o *Options) { o.Address = "0.0.0.0:0" })
	if !strings.Contains(log.String(), "anyone who reaches this address can read the logs and run the commands") {
		t.Error(log.String())
	}
	s, log := start(t, execs, nil)
	if err := s.Configure(s.rules.Load().objects); err != nil || strings.Count(log.String(), "any user of this machine can run commands as this one") != 1 {
		t.Error(err, log.String())
	}
}

// TestSilent shows that connections that say nothing, or nonsense, do no harm.
func TestSilent(t *testing.T) {
	s, _ := start(t, "", nil)
	for _, first := range []string{"", "\x16\x03", "hello\r\n\r\n"} {
		conn := dialTo(t, s)
		fmt.Fprint(conn, first)
		t.Cleanup(func() { conn.Close() }) // later than the server
	}
	if code, _ := get(t, "http://"+s.Addr().String()+"/healthz"); code != 200 {
		t.Error(code)
	}
	begun := time.Now()
	if err := s.Close(); err != nil || time.Since(begun) > 3*time.Second {
		t.Errorf("closed after %v, %v", time.Since(begun), err)
	}
}

func TestCloseEndsFollowers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	repotest.NoError(t, os.WriteFile(path, []byte("2026-01-02T03:04:05Z stdout F one\n"), 0o600))
	s, _ := start(t, clusterLogs(path), nil)
	r := repotest.Must(client(t).Get("http://" + s.Addr().String() + "/containerLogs/a/web/c?follow=true"))(t)
	defer r.Body.Close()
	line := make([]byte, 4)
	if _, err := io.ReadFull(r.Body, line); err != nil || string(line) != "one\n" {
		t.Fatal(string(line), err)
	}
	repotest.NoError(t, s.Close())
	if rest, _ := io.ReadAll(r.Body); len(rest) > 0 {
		t.Errorf("%q", rest)
	}
}

func clusterLogs(path string) string {
	return "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterLogs\nmetadata: {name: l}\nspec: {logs: [{logsFile: " + path + "}]}\n"
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

package kubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestLogs(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		repotest.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	log := file("log", "2026-01-02T03:04:01Z stdout F one\n2026-01-02T03:04:02Z stderr F two\n2099-01-02T03:04:03Z stdout F three\n")
	s, _ := start(t, `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Logs
metadata: {name: web, namespace: a}
spec: {logs: [{containers: [c], logsFile: `+log+`, previousLogsFile: `+file("old", "2026-01-02T03:04:01Z stdout F old\n")+`}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: plain}
spec: {selector: {matchNamespaces: [b]}, logs: [{logsFile: `+file("plain", "plain text\n")+`}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: none}
spec: {selector: {matchNames: [db]}, logs: [{logsFile: `+folder+`/none}]}
`, nil)
	for query, want := range map[string]string{
		"a/web/c":                                "200 one\ntwo\nthree\n",
		"a/web/c?tailLines=1":                    "200 three\n",
		"a/web/c?tail=1":                         "200 three\n",
		"a/web/c?tail=all":                       "200 one\ntwo\nthree\n",
		"a/web/c?tailLines=0":                    "200 ",
		"a/web/c?limitBytes=5":                   "200 one\nt",
		"a/web/c?previous=true":                  "200 old\n",
		"a/web/c?previous=false":                 "200 one\ntwo\nthree\n",
		"a/web/c?sinceSeconds=10":                "200 three\n",
		"a/web/c?sinceTime=2026-01-02T03:04:02Z": "200 two\nthree\n",
		"a/web/c?timestamps=true&tailLines=1":    "200 2099-01-02T03:04:03.000000000Z three\n",
		"a/web/c?stream=Stderr":                  "200 two\n",
		"a/web/c?stream=Stdout":                  "200 one\nthree\n",
		"a/web/d":                                "400 no Logs or ClusterLogs: there is no object about it: container d of pod a/web is not named in the object of that name\n",
		"b/web/c":                                "400 read log F/plain: its first line is neither the log format of container runtimes nor Docker's JSON\n",
		"a/db/c":                                 "400 read log F/none: no such file or directory\n",
		"a/db/c?previous=1":                      "400 the object names no file for that log\n",
		"a/web/c?tailLines=x":                    "400 tailLines: want a number of at least 0, got \"x\"\n",
		"a/web/c?limitBytes=0":                   "400 limitBytes: want a number of at least 1, got \"0\"\n",
		"a/web/c?sinceTime=now":                  "400 sinceTime: want a time such as 2026-01-02T15:04:05Z, got \"now\"\n",
		"a/web/c?stream=Both":                    "400 stream: want All, Stdout or Stderr, got \"Both\"\n",
	} {
		code, body := get(t, "http://"+s.Addr().String()+"/containerLogs/"+query)
		if got := strings.ReplaceAll(fmt.Sprintf("%d %s", code, body), folder, "F"); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

const execs = `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Exec
metadata: {name: web, namespace: a}
spec:
  execs:
  - containers: [c]
    local: {workDir: /, envs: [{name: GREETING, value: hello}]}
  - containers: [d]
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterExec
metadata: {name: low}
spec: {execs: [{local: {securityContext: {runAsUser: 65534, runAsGroup: 65533}}}]}
`

// run runs a command in a container, over SPDY and over WebSocket, and returns
// what came of it: standard output, standard error, error.
func run(t *testing.T, s *Server, container string, o remotecommand.StreamOptions, command ...string) []string {
	t.Helper()
	config := &rest.Config{Host: "https://" + s.Addr().String(), TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	query := url.Values{"command": command, "output": {"1"}}
	if o.Stdin != nil {
		query.Set("input", "1")
	}
	if o.Tty {
		query.Set("tty", "1")
	} else {
		query.Set("error", "1")
	}
	target, err := url.Parse(config.Host + "/exec/" + container + "?" + query.Encode())
	repotest.NoError(t, err)
	over := repotest.Must(remotecommand.NewSPDYExecutor(config, http.MethodPost, target))(t)
	five := repotest.Must(remotecommand.NewWebSocketExecutor(config, http.MethodGet, target.String()))(t)
	var stdin []byte
	if o.Stdin != nil {
		if stdin, err = io.ReadAll(o.Stdin); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, e := range []remotecommand.Executor{over, five} {
		var out, errOut bytes.Buffer
		o.Stdout, o.Stderr = &out, &errOut
		if stdin != nil {
			o.Stdin = bytes.NewReader(stdin)
		}
		if o.Tty {
			o.TerminalSizeQueue = &oneSize{}
		}
		err := e.StreamWithContext(t.Context(), o)
		text := "ok"
		var exit exec.ExitError
		if errors.As(err, &exit) {
			text = fmt.Sprintf("exit %d", exit.ExitStatus())
		} else if err != nil {
			text = err.Error()
		}
		got = append(got, out.String()+"|"+errOut.String()+"|"+text)
	}
	return got
}

func TestExec(t *testing.T) {
	s, _ := start(t, execs, nil)
	for _, c := range []struct {
		container string
		stdin     string
		command   []string
		want      string
	}{
		{"a/web/c", "", []string{"sh", "-c", "pwd; echo $GREETING >&2"}, "/\n|hello\n|ok"},
		{"a/web/web-uid/c", "", []string{"sh", "-c", "exit 3"}, "||exit 3"},
		{"a/web/c", "", []string{"sh", "-c", "kill -9 $$"}, "||exit 137"},
		{"a/web/c", "from afar", []string{"cat"}, "from afar||ok"},
		{"a/web/c", "", []string{"no-such-command"}, "||Internal error occurred: start command: exec: \"no-such-command\": executable file not found in $PATH"},
		{"a/web/c", "", []string{"sh", "-c", "sleep 100 & echo left"}, "left\n||ok"},
	} {
		var o remotecommand.StreamOptions
		if c.stdin != "" {
			o.Stdin = strings.NewReader(c.stdin)
		}
		for i, got := range run(t, s, c.container, o, c.command...) {
			if strings.ReplaceAll(got, "Internal error occurred: ", "") != strings.ReplaceAll(c.want, "Internal error occurred: ", "") {
				t.Errorf("%d: %q: %q, want %q", i, c.command, got, c.want)
			}
		}
	}
	if got := run(t, s, "a/web/d", remotecommand.StreamOptions{}, "id")[0]; !strings.Contains(got, "the object has no local: nothing is run") {
		t.Error(got)
	}
	want := "65534:65533\n||ok"
	if os.Getuid() != 0 {
		want = "only root can"
	}
	if got := run(t, s, "b/web/c", remotecommand.StreamOptions{}, "sh", "-c", "echo $(id -u):$(id -g)")[0]; !strings.Contains(got, want) {
		t.Error(got)
	}
}

// TestExecTerminal runs a command on a terminal of the client's size, which a
// client sends when the command may have begun already.
func TestExecTerminal(t *testing.T) {
	s, _ := start(t, execs, nil)
	for i, got := range run(t, s, "a/web/c", remotecommand.StreamOptions{Stdin: strings.NewReader("x\n"), Tty: true},
		"sh", "-c", "tty >/dev/null; for i in $(seq 600); do [ \"$(stty size)\" = \"0 0\" ] || break; sleep 0.05; done; stty size && read x && echo got $x && exit 5") {
		if got != "24 80\r\nx\r\ngot x\r\n||exit 5" && got != "x\r\n24 80\r\ngot x\r\n||exit 5" {
			t.Errorf("%d: %q", i, got)
		}
	}
}

type oneSize struct{ said bool }

func (o *oneSize) Next() *remotecommand.TerminalSize {
	if o.said {
		return nil
	}
	o.said = true
	return &remotecommand.TerminalSize{Width: 80, Height: 24}
}

// TestExecEndsWithClient shows that a command and its children end when the
// client goes.
func TestExecEndsWithClient(t *testing.T) {
	s, _ := start(t, execs, nil)
	for _, tty := range []bool{false, true} {
		mark := filepath.Join(t.TempDir(), "pid")
		config := &rest.Config{Host: "https://" + s.Addr().String(), TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
		query := url.Values{"command": {"sh", "-c", "sh -c 'echo $$ >" + mark + "; sleep 1000'; true"}, "output": {"1"}}
		if tty {
			query.Set("tty", "1")
		}
		target, _ := url.Parse(config.Host + "/exec/a/web/c?" + query.Encode())
		e := repotest.Must(remotecommand.NewSPDYExecutor(config, http.MethodPost, target))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: io.Discard, Tty: tty}) }()
		pid := 0
		repotest.Eventually(t, "the command starts", func() bool {
			text, _ := os.ReadFile(mark)
			pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			return pid != 0
		})
		cancel()
		<-ended
		repotest.Eventually(t, fmt.Sprintf("terminal %t: the command's child ends", tty), func() bool { return !alive(pid) })
	}
}

func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

func TestAttach(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	repotest.NoError(t, os.WriteFile(path, []byte("2026-01-02T03:04:05Z stdout F before\n"), 0o600))
	s, _ := start(t, "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterAttach\nmetadata: {name: l}\nspec: {attaches: [{logsFile: "+path+"}]}\n", nil)
	config := &rest.Config{Host: "https://" + s.Addr().String(), TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	target, _ := url.Parse(config.Host + "/attach/a/web/c?output=1&error=1&input=1")
	e := repotest.Must(remotecommand.NewSPDYExecutor(config, http.MethodPost, target))(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &lockedBuffer{}
	ended := make(chan error, 1)
	go func() {
		ended <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: strings.NewReader("ignored"), Stdout: out, Stderr: io.Discard})
	}()
	text := func() string {
		out.mu.Lock()
		defer out.mu.Unlock()
		return out.b.String()
	}
	f := repotest.Must(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))(t)
	defer f.Close()
	repotest.Eventually(t, "a line", func() bool {
		fmt.Fprintf(f, "2026-01-02T03:04:06Z stdout F after\n")
		return text() != ""
	})
	if got := text(); !strings.HasPrefix(got, "after\n") {
		t.Errorf("%q", got)
	}
	cancel()
	<-ended
}

func TestPortForward(t *testing.T) {
	listener := repotest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				fmt.Fprint(conn, "echo:")
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	s, _ := start(t, `apiVersion: kwok.x-k8s.io/v1alpha1
kind: PortForward
metadata: {name: web, namespace: a}
spec:
  forwards:
  - {ports: [80], target: {address: 127.0.0.1, port: `+port+`}}
  - {ports: [81], command: [sed, -u, 's/^/sed:/']}
`, nil)
	config := &rest.Config{Host: "https://" + s.Addr().String(), TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	target, _ := url.Parse(config.Host + "/portForward/a/web")
	transport, upgrader, err := spdy.RoundTripperFor(config)
	repotest.NoError(t, err)
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	f := repotest.Must(portforward.New(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target),
		[]string{"0:80", "0:81"}, stop, ready, io.Discard, io.Discard))(t)
	go func() { ended <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports := repotest.Must(f.GetPorts())(t)
	for i, want := range []string{"echo:hello\n", "sed:hello\n"} {
		conn := repotest.Must(net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[i].Local)))(t)
		fmt.Fprint(conn, "hello\n")
		repotest.NoError(t, conn.(*net.TCPConn).CloseWrite())
		got, err := io.ReadAll(conn)
		if err != nil || string(got) != want {
			t.Errorf("port %d: %q, %v, want %q", i, got, err, want)
		}
		conn.Close()
	}
	close(stop)
	<-ended
	conn, _, err := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target).Dial("portforward.k8s.io")
	repotest.NoError(t, err)
	defer conn.Close()
	fault := repotest.Must(conn.CreateStream(http.Header{"streamType": {"error"}, "port": {"82"}, "requestID": {"1"}}))(t)
	if _, err := conn.CreateStream(http.Header{"streamType": {"data"}, "port": {"82"}, "requestID": {"1"}}); err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(fault); string(got) != "no PortForward or ClusterPortForward: there is no object about it: port 82 of pod a/web is not named in the object of that name" {
		t.Errorf("%q", got)
	}
}

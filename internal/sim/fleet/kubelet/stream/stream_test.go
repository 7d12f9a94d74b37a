package stream_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/fleet/kubelet/stream"
)

// remote serves sessions over TLS; the answers of Serve go to ended.
func remote(t *testing.T, run func(context.Context, *stream.Session) error) (config *rest.Config, ended <-chan error) {
	t.Helper()
	done := make(chan error, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wants, err := stream.WantsOf(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		done <- stream.Serve(w, r, wants, run)
	}))
	server.StartTLS()
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, done
}

// executors are the clients of the remote command protocol, by name.
func executors(t *testing.T, config *rest.Config, query string) map[string]remotecommand.Executor {
	t.Helper()
	target := repotest.Must(url.Parse(config.Host + "/exec/ns/pod/c?" + query))(t)
	over := repotest.Must(remotecommand.NewSPDYExecutor(config, http.MethodPost, target))(t)
	five := repotest.Must(remotecommand.NewWebSocketExecutor(config, http.MethodGet, target.String()))(t)
	four := repotest.Must(remotecommand.NewWebSocketExecutorForProtocols(config, http.MethodGet, target.String(), "v4.channel.k8s.io"))(t)
	return map[string]remotecommand.Executor{"spdy": over, "websocket v5": five, "websocket v4": four}
}

func TestSession(t *testing.T) {
	config, ended := remote(t, func(_ context.Context, s *stream.Session) error {
		first := make([]byte, 5)
		if _, err := io.ReadFull(s.Stdin, first); err != nil {
			return err
		}
		fmt.Fprintf(s.Stderr, "read %s", first)
		_, err := io.Copy(s.Stdout, strings.NewReader(strings.Repeat("x", 300_000)))
		return err
	})
	for name, e := range executors(t, config, "input=1&output=1&error=1") {
		var out, errOut bytes.Buffer
		err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errOut})
		if err != nil || out.Len() != 300_000 || errOut.String() != "read hello" {
			t.Errorf("%s: %d bytes, %q, %v", name, out.Len(), errOut.String(), err)
		}
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEndReachesABusyClient shows that a client which goes on sending what no
// command reads still gets all of the output and the end.
func TestEndReachesABusyClient(t *testing.T) {
	config, _ := remote(t, func(_ context.Context, s *stream.Session) error {
		if _, err := io.ReadFull(s.Stdin, make([]byte, 100)); err != nil {
			return err
		}
		_, err := io.Copy(s.Stdout, strings.NewReader(strings.Repeat("x", 300_000)))
		return err
	})
	for name, e := range executors(t, config, "input=1&output=1") {
		if name == "spdy" {
			continue // it has windows: what nobody reads is not sent
		}
		var out bytes.Buffer
		err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: endless{}, Stdout: &out})
		if err != nil || out.Len() != 300_000 {
			t.Errorf("%s: %d bytes, %v", name, out.Len(), err)
		}
	}
}

// endless is input without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return min(len(p), 100), nil }

// TestStdinEnds shows that the end of standard input reaches the command, where
// the protocol can say it.
func TestStdinEnds(t *testing.T) {
	config, _ := remote(t, func(_ context.Context, s *stream.Session) error {
		all, err := io.ReadAll(s.Stdin)
		fmt.Fprintf(s.Stdout, "all of %s", all)
		return err
	})
	for name, e := range executors(t, config, "input=1&output=1") {
		if name == "websocket v4" {
			continue
		}
		var out bytes.Buffer
		if err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("it"), Stdout: &out}); err != nil || out.String() != "all of it" {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}

func TestEnds(t *testing.T) {
	var result error
	config, _ := remote(t, func(context.Context, *stream.Session) error { return result })
	for _, c := range []struct {
		result error
		want   string
		code   int
	}{
		{nil, "", 0},
		{&stream.ExitError{Code: 3}, "command terminated with exit code 3", 3},
		{fmt.Errorf("wrapped: %w", &stream.ExitError{Code: 4}), "command terminated with exit code 4", 4},
		{errors.New("out of luck"), "out of luck", 0},
	} {
		result = c.result
		for name, e := range executors(t, config, "output=1") {
			err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
			if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s, %v: %v", name, c.result, err)
			}
			var exit exec.ExitError
			if code := 0; errors.As(err, &exit) {
				if code = exit.ExitStatus(); code != c.code {
					t.Errorf("%s: code %d, want %d", name, code, c.code)
				}
			} else if c.code != 0 {
				t.Errorf("%s: no exit code: %v", name, err)
			}
		}
	}
}

// sizes is a queue of terminal sizes that never ends.
type sizes struct {
	next chan remotecommand.TerminalSize
}

func (s sizes) Next() *remotecommand.TerminalSize {
	n, ok := <-s.next
	if !ok {
		return nil
	}
	return &n
}

func TestTerminal(t *testing.T) {
	config, _ := remote(t, func(_ context.Context, s *stream.Session) error {
		if !s.TTY || s.Stderr != nil {
			return fmt.Errorf("terminal %t, standard error %v", s.TTY, s.Stderr)
		}
		size := <-s.Resize
		_, err := fmt.Fprintf(s.Stdout, "%dx%d", size.Width, size.Height)
		return err
	})
	for name, e := range executors(t, config, "input=1&output=1&error=1&tty=1") {
		queue := sizes{make(chan remotecommand.TerminalSize, 1)}
		queue.next <- remotecommand.TerminalSize{Width: 80, Height: 24}
		in, hold := io.Pipe()
		var out bytes.Buffer
		err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: in, Stdout: &out, Tty: true, TerminalSizeQueue: queue})
		if err != nil || out.String() != "80x24" {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
		close(queue.next)
		hold.Close()
	}
}

// TestClientGoes shows that a command is told when its client is gone.
func TestClientGoes(t *testing.T) {
	started := make(chan struct{}, 1)
	config, ended := remote(t, func(ctx context.Context, _ *stream.Session) error {
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	for name, e := range executors(t, config, "output=1") {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-started
			cancel()
		}()
		if err := e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: io.Discard}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the command was not told", name)
		}
	}
}

func insecure(t *testing.T, config *rest.Config) *tls.Config {
	t.Helper()
	c := repotest.Must(rest.TLSConfigFor(config))(t)
	c.NextProtos = nil
	return c
}

// TestBase64 speaks the text form of version 4 by hand.
func TestBase64(t *testing.T) {
	config, _ := remote(t, func(_ context.Context, s *stream.Session) error {
		b := make([]byte, 2)
		_, err := io.ReadFull(s.Stdin, b)
		fmt.Fprintf(s.Stdout, "<%s>", b)
		return err
	})
	c := repotest.Must(websocket.NewConfig(strings.Replace(config.Host, "https", "wss", 1)+"/exec/a/b/c?input=1&output=1", "https://here"))(t)
	c.Protocol = []string{"v4.base64.channel.k8s.io"}
	c.TlsConfig = insecure(t, config)
	ws := repotest.Must(websocket.DialConfig(c))(t)
	defer ws.Close()
	repotest.NoError(t, websocket.Message.Send(ws, "0aGk="))
	var got []string
	for {
		var m string
		if websocket.Message.Receive(ws, &m) != nil {
			break
		}
		got = append(got, m)
	}
	if len(got) != 3 || got[0] != "1" || got[1] != "1PGhpPg==" || got[2][0] != '3' {
		t.Fatalf("%q", got)
	}
}

func TestRefusals(t *testing.T) {
	config, ended := remote(t, func(context.Context, *stream.Session) error { return nil })
	client := repotest.Must(rest.HTTPClientFor(config))(t)
	for _, c := range []struct {
		query  string
		header map[string]string
		code   int
		want   string
	}{
		{"", nil, 400, "want at least one of stdin, stdout and stderr"},
		{"output=1", nil, 400, "unable to upgrade: header X-Stream-Protocol-Version does not exist in request"},
		{"output=1", map[string]string{"X-Stream-Protocol-Version": "v9"}, 403, "unable to negotiate protocol"},
		{"output=1", map[string]string{"X-Stream-Protocol-Version": "v4.channel.k8s.io"}, 400, "unable to upgrade: missing upgrade headers"},
		{"output=1", map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
			"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": "v9"}, 403, ""},
	} {
		r := repotest.Must(http.NewRequest(http.MethodGet, config.Host+"/exec?"+c.query, nil))(t)
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		resp := repotest.Must(client.Do(r))(t)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.code || !strings.Contains(string(body), c.want) {
			t.Errorf("%s %v: %d %s", c.query, c.header, resp.StatusCode, body)
		}
		if c.query != "" {
			if err := <-ended; err == nil {
				t.Errorf("%v: no error", c.header)
			}
		}
	}
}

// forwarding serves port-forwards.
func forwarding(t *testing.T, dial stream.Dial) *rest.Config {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := stream.Forward(w, r, dial); err != nil {
			t.Logf("forward: %v", err)
		}
	}))
	server.StartTLS()
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

// echo answers with the port and what it reads, until the client ends.
func echo(_ context.Context, port int32, data io.ReadWriter) error {
	if port == 81 {
		return errors.New("nothing listens there")
	}
	fmt.Fprintf(data, "%d:", port)
	_, err := io.Copy(data, data)
	return err
}

func TestForward(t *testing.T) {
	config := forwarding(t, echo)
	target := repotest.Must(url.Parse(config.Host + "/portForward/ns/pod"))(t)
	transport, upgrader, err := spdy.RoundTripperFor(config)
	repotest.NoError(t, err)
	over := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	inside := repotest.Must(portforward.NewSPDYOverWebsocketDialer(target, config))(t)
	for name, start := range map[string]func(stop, ready chan struct{}) (*portforward.PortForwarder, error){
		"spdy": func(stop, ready chan struct{}) (*portforward.PortForwarder, error) {
			return portforward.New(over, []string{"0:80"}, stop, ready, io.Discard, io.Discard)
		},
		"websocket": func(stop, ready chan struct{}) (*portforward.PortForwarder, error) {
			return portforward.New(inside, []string{"0:80"}, stop, ready, io.Discard, io.Discard)
		},
	} {
		t.Run(name, func(t *testing.T) { forwards(t, start) })
	}
}

func forwards(t *testing.T, start func(stop, ready chan struct{}) (*portforward.PortForwarder, error)) {
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	f := repotest.Must(start(stop, ready))(t)
	go func() { ended <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports := repotest.Must(f.GetPorts())(t)
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			body := strings.Repeat("y", 200_000)
			go func() {
				_, _ = io.WriteString(conn, body)
				_ = conn.(*net.TCPConn).CloseWrite()
			}()
			got, err := io.ReadAll(conn)
			if err != nil || string(got) != "80:"+body {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	wait.Wait()
	close(stop)
	<-ended
}

// TestForwardChannels speaks the older WebSocket form by hand.
func TestForwardChannels(t *testing.T) {
	config := forwarding(t, func(_ context.Context, port int32, data io.ReadWriter) error {
		if port == 81 {
			return errors.New("nothing listens there")
		}
		b := make([]byte, 2)
		_, err := io.ReadFull(data, b)
		fmt.Fprintf(data, "<%s>", b)
		return err
	})
	c := repotest.Must(websocket.NewConfig(strings.Replace(config.Host, "https", "wss", 1)+"/portForward/a/b?port=80&port=81", "https://here"))(t)
	c.Protocol = []string{"v4.channel.k8s.io"}
	c.TlsConfig = insecure(t, config)
	ws := repotest.Must(websocket.DialConfig(c))(t)
	defer ws.Close()
	repotest.NoError(t, websocket.Message.Send(ws, []byte("\x00hi")))
	got := map[byte]string{}
	for {
		var m []byte
		if websocket.Message.Receive(ws, &m) != nil {
			break
		}
		got[m[0]] += string(m[1:])
	}
	want := map[byte]string{0: "P\x00<hi>", 1: "P\x00", 2: "Q\x00", 3: "Q\x00nothing listens there"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// dial makes a connection with SPDY.
func dial(t *testing.T, config *rest.Config) httpstream.Connection {
	t.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	repotest.NoError(t, err)
	target := repotest.Must(url.Parse(config.Host))(t)
	conn, _, err := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target).Dial("portforward.k8s.io")
	repotest.NoError(t, err)
	return conn
}

func create(t *testing.T, conn httpstream.Connection, kind, port, id string) httpstream.Stream {
	t.Helper()
	return repotest.Must(conn.CreateStream(http.Header{"streamType": {kind}, "port": {port}, "requestID": {id}}))(t)
}

func TestForwardFaults(t *testing.T) {
	conn := dial(t, forwarding(t, echo))
	defer conn.Close()
	for port, want := range map[string]string{"81": "nothing listens there", "0": `stream protocol: "0" is no port`, "x": `stream protocol: "x" is no port`} {
		fault := create(t, conn, "error", port, port)
		data := create(t, conn, "data", port, port)
		if got, err := io.ReadAll(fault); string(got) != want || err != nil {
			t.Errorf("port %s: %q, %v, want %s", port, got, err, want)
		}
		if got, _ := io.ReadAll(data); len(got) > 0 {
			t.Errorf("port %s: %q", port, got)
		}
	}
	create(t, conn, "data", "80", "twice")
	second := create(t, conn, "data", "80", "twice")
	if got, _ := io.ReadAll(second); len(got) > 0 {
		t.Errorf("%q", got)
	}
	create(t, conn, "error", "80", "twice")
}

// TestForwardEnds shows that connections to ports end with the client.
func TestForwardEnds(t *testing.T) {
	dialled, told := make(chan struct{}), make(chan error, 1)
	conn := dial(t, forwarding(t, func(ctx context.Context, _ int32, _ io.ReadWriter) error {
		close(dialled)
		<-ctx.Done()
		told <- ctx.Err()
		return ctx.Err()
	}))
	create(t, conn, "error", "80", "1")
	create(t, conn, "data", "80", "1")
	create(t, conn, "data", "80", "never a pair")
	<-dialled
	conn.Close()
	select {
	case <-told:
	case <-time.After(10 * time.Second):
		t.Fatal("not told")
	}
}

func TestStatus(t *testing.T) {
	// what the error stream says must be a Status that any client reads
	config, _ := remote(t, func(context.Context, *stream.Session) error { return &stream.ExitError{Code: 7} })
	c := repotest.Must(websocket.NewConfig(strings.Replace(config.Host, "https", "wss", 1)+"/exec?output=1", "https://here"))(t)
	c.Protocol, c.TlsConfig = []string{"v5.channel.k8s.io"}, insecure(t, config)
	ws := repotest.Must(websocket.DialConfig(c))(t)
	defer ws.Close()
	var m []byte
	for len(m) < 2 {
		repotest.NoError(t, websocket.Message.Receive(ws, &m))
	}
	var s metav1.Status
	if err := json.Unmarshal(m[1:], &s); err != nil || m[0] != 3 || s.Status != "Failure" || s.Reason != "NonZeroExitCode" || s.Details.Causes[0].Message != "7" {
		t.Errorf("%s, %v", m, err)
	}
}

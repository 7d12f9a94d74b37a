package endpoint_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// through returns a server's endpoint as a kubeconfig with a proxy-url says it.
func through(t *testing.T, e endpoint.Endpoint, proxy string) endpoint.Endpoint {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	repotest.NoError(t, e.WriteKubeconfig(file))
	config := repotest.Must(clientcmd.LoadFromFile(file))(t)
	for _, c := range config.Clusters {
		c.ProxyURL = proxy
	}
	repotest.NoError(t, clientcmd.WriteToFile(*config, file))
	return repotest.Must(endpoint.FromKubeconfig(file, ""))(t)
}

// pipe copies both ways until one end closes.
func pipe(a, b net.Conn) {
	go func() {
		_, _ = io.Copy(a, b)
		_ = a.Close()
	}()
	_, _ = io.Copy(b, a)
	_ = b.Close()
}

// connectProxy is an HTTP proxy that wants a password, and tells what it is asked.
func connectProxy(t *testing.T, asked chan<- string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "Basic amFuZTpzZWNyZXQ=" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		asked <- r.Method + " " + r.Host
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		from, _, _ := w.(http.Hijacker).Hijack()
		_, _ = io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n")
		pipe(from, to)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// socksProxy speaks as much of SOCKS5 (RFC 1928) as a client without a password needs.
func socksProxy(t *testing.T, asked chan<- string) string {
	l := repotest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				head := make([]byte, 3)
				_, _ = io.ReadFull(from, head) // version, one method: none
				_, _ = from.Write([]byte{5, 0})
				request := make([]byte, 10)
				_, _ = io.ReadFull(from, request) // of an IPv4 address
				to := fmt.Sprintf("%v:%d", net.IP(request[4:8]), binary.BigEndian.Uint16(request[8:]))
				asked <- "SOCKS " + to
				server, err := net.Dial("tcp", to)
				if err != nil {
					_ = from.Close()
					return
				}
				_, _ = from.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
				pipe(from, server)
			}()
		}
	}()
	return l.Addr().String()
}

func TestProxyOfAKubeconfig(t *testing.T) {
	server := apitest.New(t).Endpoint()
	address := repotest.Must(server.Address())(t)
	asked := make(chan string, 10)
	for url, want := range map[string]string{
		"http://jane:secret@" + connectProxy(t, asked): "CONNECT " + address,
		"socks5://" + socksProxy(t, asked):             "SOCKS " + address,
	} {
		e := through(t, server, url)
		r, err := apitest.Client(t, e, clock.Start()).Do(t.Context(), &wire.Request{Method: "GET", Path: "/version"})
		if err != nil || r.Code != 200 {
			t.Errorf("%s: %v, %v", url, r, err)
			continue
		}
		if got := <-asked; got != want {
			t.Errorf("%s: the proxy was asked for %q, want %q", url, got, want)
		}
		if _, err := e.Via("127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "is reached through a proxy") {
			t.Errorf("%s: via another proxy: %v", url, err)
		}
	}
}

func TestProxyThatRefuses(t *testing.T) {
	server := apitest.New(t).Endpoint()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // shakes no hands
	repotest.NoError(t, err)
	defer mute.Close()
	for url, want := range map[string]string{
		"http://" + connectProxy(t, nil):   `it answers "407 Proxy Authentication Required"`,
		"http://" + mute.Addr().String():   context.DeadlineExceeded.Error(),
		"socks5://" + mute.Addr().String(): "i/o timeout",
		"http://jane:secret@127.0.0.1:1":   "connection refused",
		"https://jane:secret@127.0.0.1:1":  "connection refused",
	} {
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if strings.Contains(url, mute.Addr().String()) { // who answers is heard however long it takes
			ctx, cancel = context.WithTimeout(ctx, time.Second)
		}
		conn, err := through(t, server, url).Dial(ctx, "127.0.0.1:6443")
		cancel()
		if err == nil {
			_ = conn.Close()
			t.Errorf("%s: no error", url)
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error says the password: %v", err)
		}
	}
}

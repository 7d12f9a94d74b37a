package endpoint

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/proxy"
)

// Dial connects to an address, host:port: through the proxy that the kubeconfig
// names, or the environment as net/http reads it, and straight where neither does.
func (e Endpoint) Dial(ctx context.Context, address string) (net.Conn, error) {
	via, err := e.proxyFor(address)
	if err != nil {
		return nil, err
	}
	if via == nil {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	conn, err := dialThrough(ctx, via, address)
	if err != nil {
		return nil, fmt.Errorf("through the proxy %s: %w", via.Redacted(), err)
	}
	return conn, nil
}

// proxyFor returns the proxy on the way to an address; nil without one.
func (e Endpoint) proxyFor(address string) (*url.URL, error) {
	if e.config.Proxy == nil {
		return nil, nil
	}
	via, err := e.config.Proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: address}})
	if err != nil {
		return nil, fmt.Errorf("proxy for %s: %w", address, err)
	}
	return via, nil
}

func dialThrough(ctx context.Context, via *url.URL, address string) (net.Conn, error) {
	switch via.Scheme {
	case "socks5", "socks5h":
		dialer, err := proxy.FromURL(via, &net.Dialer{})
		if err != nil {
			return nil, err
		}
		return dialer.(proxy.ContextDialer).DialContext(ctx, "tcp", address)
	case "http", "https":
		return dialConnect(ctx, via, address)
	}
	return nil, fmt.Errorf("scheme %q is not http, https, socks5 or socks5h", via.Scheme)
}

// dialConnect has an HTTP proxy connect to an address (RFC 9110, section 9.3.6).
func dialConnect(ctx context.Context, via *url.URL, address string) (net.Conn, error) {
	port := via.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[via.Scheme]
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(via.Hostname(), port))
	if err != nil {
		return nil, err
	}
	if via.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: via.Hostname(), MinVersion: tls.VersionTLS12})
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	conn, err = requestConnect(conn, via, address)
	if stop() {
		return conn, err
	}
	if err == nil { // ctx ended in between
		_ = conn.Close()
	}
	return nil, ctx.Err()
}

// maxGreeting is how much a proxy's answer to CONNECT may be.
const maxGreeting = 64 << 10

// requestConnect asks for the connection, and closes conn if it is not to be had.
func requestConnect(conn net.Conn, via *url.URL, address string) (net.Conn, error) {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if user := via.User; user != nil {
		password, _ := user.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	err := req.Write(conn)
	limited := &io.LimitedReader{R: conn, N: maxGreeting}
	reader := bufio.NewReader(limited)
	var answer *http.Response
	if err == nil {
		answer, err = http.ReadResponse(reader, req) //nolint:bodyclose // of a success it is the connection
	}
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %q", answer.Status)
	}
	if err == nil && reader.Buffered() > 0 {
		err = errors.New("it speaks before it is spoken to")
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

// TLS lets the proxy see the calls on a connection: it ends the client's TLS,
// begins its own to the server, and passes what is inside on unchanged. Both
// sides must use certificates that the proxy holds, so that the server sees
// the same client as without the proxy. It costs the CPU of one TLS more.
type TLS struct {
	Certificate tls.Certificate   // shown to clients
	Clients     []tls.Certificate // those of the clients that may come; one without a certificate is passed on as such
	Roots       *x509.CertPool    // that the server's certificate is checked with
	ServerName  string            // that it is checked for; default: the host of Options.To
}

var errStranger = errors.New("the client's certificate is none that the proxy holds")

// openBoth shakes hands with both sides, the client first: what it offers and who
// it is decides what the server is offered.
func (t *TLS) openBoth(ctx context.Context, client, server *net.TCPConn) (c, s stream, seen calls, err error) {
	in := tls.Server(client, &tls.Config{
		Certificates: []tls.Certificate{t.Certificate}, NextProtos: []string{"h2", "http/1.1"},
		ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12, DynamicRecordSizingDisabled: true,
	})
	if err := in.HandshakeContext(ctx); err != nil {
		return nil, nil, nil, fmt.Errorf("shake hands with the client: %w", err)
	}
	state := in.ConnectionState()
	config := &tls.Config{
		RootCAs: t.Roots, ServerName: t.ServerName, MinVersion: tls.VersionTLS12, DynamicRecordSizingDisabled: true,
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(server.RemoteAddr().String()) // a TCP address has both
	}
	if state.NegotiatedProtocol != "" {
		config.NextProtos = []string{state.NegotiatedProtocol}
	}
	if len(state.PeerCertificates) > 0 {
		own, err := t.clientWith(state.PeerCertificates[0].Raw)
		if err != nil {
			return nil, nil, nil, err
		}
		// Whatever authorities the server names: the client's choice is made.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }
	}
	out := tls.Client(server, config)
	if err := out.HandshakeContext(ctx); err != nil {
		return nil, nil, nil, fmt.Errorf("shake hands with the server: %w", err)
	}
	if got := out.ConnectionState().NegotiatedProtocol; got != state.NegotiatedProtocol {
		return nil, nil, nil, fmt.Errorf("the server speaks %q, not %q as the client does", got, state.NegotiatedProtocol)
	}
	if state.NegotiatedProtocol == "h2" {
		return in, out, newHTTP2(), nil
	}
	return in, out, &wholeConnection{}, nil
}

// clientWith returns the pair of a certificate that a client has shown to be
// its own.
func (t *TLS) clientWith(certificate []byte) (*tls.Certificate, error) {
	for i := range t.Clients {
		if bytes.Equal(t.Clients[i].Certificate[0], certificate) {
			return &t.Clients[i], nil
		}
	}
	return nil, errStranger
}

// Package endpoint says how to reach an API server and as whom: address,
// certificates, credentials. It makes no requests of a load: package wire does.
//
// Package plane makes endpoints for the planes that it starts, FromKubeconfig makes
// them for clusters that exist; clients such as load, fleet and observe take them.
package endpoint

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/text"
)

// Endpoint is an API server and an identity at it. It holds secrets: it is
// never printed or logged.
type Endpoint struct {
	config *rest.Config
	others []Identity // see Many
}

// Identity is a client certificate, PEM.
type Identity struct{ Cert, Key []byte }

// New returns an endpoint for a server with a certificate authority and a
// client certificate, all PEM.
func New(server string, ca []byte, id Identity) Endpoint {
	return Endpoint{config: &rest.Config{
		Host:            server,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca, CertData: id.Cert, KeyData: id.Key},
		QPS:             -1, // no client-side rate limiter anywhere
		Timeout:         30 * time.Second,
	}}
}

// Bearer returns an endpoint for a server with a certificate authority, PEM, and a
// bearer token.
func Bearer(server string, ca []byte, token string) Endpoint {
	e := New(server, ca, Identity{})
	e.config.BearerToken = token
	return e
}

// As returns the same server for whom a bearer token stands for, and nobody else.
func (e Endpoint) As(token string) Endpoint {
	out := Bearer(e.config.Host, e.config.CAData, token)
	out.config.ServerName = e.config.ServerName
	return out
}

// Plain returns an endpoint for a server on this machine that asks for no
// credentials, such as a program's metrics: http://127.0.0.1:8080. With https
// its certificate is not verified.
func Plain(server string) Endpoint {
	return Endpoint{config: &rest.Config{
		Host: server, TLSClientConfig: rest.TLSClientConfig{Insecure: strings.HasPrefix(server, "https://")},
		QPS: -1, Timeout: 30 * time.Second,
	}}
}

// FromKubeconfig reads a kubeconfig file; context may be empty for its current
// one. Exec plugins, token files, impersonation and proxies are honoured.
func FromKubeconfig(path, context string) (Endpoint, error) {
	file, err := loadKubeconfig(path)
	if err != nil {
		return Endpoint{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	if name := cmp.Or(context, file.CurrentContext); name != "" && file.Contexts[name] == nil && len(file.Contexts) > 0 {
		return Endpoint{}, fmt.Errorf("read kubeconfig %s: it has no context %q, only %s", path, name, strings.Join(slices.Sorted(maps.Keys(file.Contexts)), ", "))
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path} // where an old plugin keeps what it was given
	config, err := clientcmd.NewNonInteractiveClientConfig(*file, context, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
	if clientcmd.IsEmptyConfig(err) { // whose text speaks of an environment variable that is not read
		return Endpoint{}, fmt.Errorf("read kubeconfig %s: it names no cluster: it needs a current-context with a cluster and a user", path)
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	return fromConfig(config), nil
}

// maxKubeconfig bounds a kubeconfig, in bytes: a device has no end.
const maxKubeconfig = 16 << 20

// loadKubeconfig reads a kubeconfig file once, since it may be a pipe. Paths in it start from its
// folder.
func loadKubeconfig(path string) (*clientcmdapi.Config, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxKubeconfig+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(raw) > maxKubeconfig {
		return nil, fmt.Errorf("%s has more than 16 MiB: it is no kubeconfig", path)
	}
	config, err := clientcmd.Load(raw)
	if err != nil {
		return nil, explainKubeconfig(path, raw, err)
	}
	for _, c := range config.Clusters {
		c.LocationOfOrigin = path
	}
	for _, u := range config.AuthInfos {
		u.LocationOfOrigin = path
	}
	return config, clientcmd.ResolveLocalPaths(config)
}

// explainKubeconfig says what is wrong with a file, not which decoder of client-go's met it.
func explainKubeconfig(path string, raw []byte, err error) error {
	object, notYAML := yaml.YAMLToJSON(raw)
	if notYAML != nil {
		return fmt.Errorf("%s: not YAML: %s", path, text.YAMLFault(notYAML))
	}
	var config clientcmdapiv1.Config
	switch other := text.DecodeJSON(path, object, &config); {
	case config.Kind != "" && config.Kind != "Config":
		return fmt.Errorf("%s: it is a %.40q, and not a kubeconfig, whose kind is Config", path, config.Kind)
	case other != nil:
		return other
	}
	return fmt.Errorf("%s: %w", path, err)
}

// ErrOutside says that a kubeconfig names something outside of itself.
var ErrOutside = errors.New("it names a program or a file of this machine")

// Parse reads the text of a kubeconfig that another process has sent. It holds all that it
// needs: one that names a program or a file, of which this machine would run or read its
// own, is refused with ErrOutside.
func Parse(raw []byte) (Endpoint, error) {
	c, err := clientcmd.Load(raw)
	if err != nil {
		return Endpoint{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	for name, u := range c.AuthInfos {
		if u.Exec != nil || u.AuthProvider != nil || u.TokenFile != "" || u.ClientCertificate != "" || u.ClientKey != "" {
			return Endpoint{}, fmt.Errorf("read kubeconfig: user %q: %w", name, ErrOutside)
		}
	}
	for name, cluster := range c.Clusters {
		if cluster.CertificateAuthority != "" {
			return Endpoint{}, fmt.Errorf("read kubeconfig: cluster %q: %w", name, ErrOutside)
		}
	}
	config, err := clientcmd.NewDefaultClientConfig(*c, nil).ClientConfig()
	if err != nil {
		return Endpoint{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	return fromConfig(config), nil
}

// fromConfig makes an endpoint of what a kubeconfig says.
func fromConfig(config *rest.Config) Endpoint {
	config.QPS = -1
	config.Timeout = 30 * time.Second
	if config.Proxy == nil {
		config.Proxy = http.ProxyFromEnvironment // as kubectl does
	}
	return Endpoint{config: config}
}

// Server returns the address, such as https://127.0.0.1:6443.
func (e Endpoint) Server() string { return e.config.Host }

// Config returns a copy of the client-go configuration with a user agent, for
// the few callers that want a typed client.
func (e Endpoint) Config(agent string) *rest.Config {
	c := rest.CopyConfig(e.config)
	c.UserAgent = agent
	c.Wrap(refuseRedirects)
	return c
}

// refuseRedirects keeps clients from following redirections: an API server makes none, and client-go's
// transport would put the bearer token on the request to wherever one leads, where net/http
// has taken it off. Without a Location the answer is what it is, a failure.
func refuseRedirects(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(req)
		if answer != nil && answer.StatusCode >= 300 && answer.StatusCode < 400 {
			answer.Header.Del("Location")
		}
		return answer, err
	})
}

// Via returns the endpoint reached through a proxy at address, host:port: the
// same server and identity, and the server's certificate is still checked for
// the server's own name.
func (e Endpoint) Via(address string) (Endpoint, error) {
	base, _, err := rest.DefaultServerUrlFor(e.config)
	if err != nil {
		return Endpoint{}, fmt.Errorf("address %q: %w", e.config.Host, err)
	}
	c := rest.CopyConfig(e.config)
	if base.Scheme == "https" && c.ServerName == "" {
		c.ServerName = base.Hostname()
	}
	if proxy, err := e.proxyFor(base.Host); err != nil || proxy != nil {
		return Endpoint{}, errors.Join(err, fmt.Errorf("%s is reached through a proxy: no other can be put before it", e.config.Host))
	}
	base.Host = address
	c.Host = base.String()
	return Endpoint{config: c, others: e.others}, nil
}

// At returns the same identity at another server, such as https://127.0.0.1:6443.
func (e Endpoint) At(server string) Endpoint {
	c := rest.CopyConfig(e.config)
	c.Host = server
	return Endpoint{config: c, others: e.others}
}

// Address returns the server's host:port.
func (e Endpoint) Address() (string, error) {
	base, _, err := rest.DefaultServerUrlFor(e.config)
	if err != nil {
		return "", fmt.Errorf("address %q: %w", e.config.Host, err)
	}
	port := base.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[base.Scheme]
	}
	return net.JoinHostPort(base.Hostname(), port), nil
}

// Many returns the endpoint with further identities, which connections after
// the first take in turn. API priority and fairness queues by user: a fleet that
// stands for many kubelets must not wait in the queues of one.
func (e Endpoint) Many(others []Identity) Endpoint {
	return Endpoint{config: e.config, others: others}
}

// Others returns the certificates of the further identities.
func (e Endpoint) Others() ([]tls.Certificate, error) {
	var out []tls.Certificate
	for _, id := range e.others {
		c, err := tls.X509KeyPair(id.Cert, id.Key)
		if err != nil {
			return nil, fmt.Errorf("certificates for %s: %w", e.config.Host, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// userAgent is what windtunnel's single requests are known by at a server.
const userAgent = "windtunnel"

// Client returns an HTTP client for single requests, and the base URL. It reads
// what is of no answer slowly, and connects slowly where that brings none (pacing).
func (e Endpoint) Client() (*http.Client, *url.URL, error) { return e.pacedClient(newPacing()) }

func (e Endpoint) pacedClient(pace *pacing) (*http.Client, *url.URL, error) {
	if e.config.ExecProvider != nil { // what it answers is kept: no request waits for it
		if _, err := e.Authorization(); err != nil {
			return nil, nil, err
		}
	}
	config := e.Config(cmp.Or(e.config.UserAgent, userAgent))
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return pacedRequests{inner, pace} })
	config.Dial = pace.dialPaced
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("client for %s: %w", e.config.Host, err)
	}
	base, _, err := rest.DefaultServerUrlFor(e.config)
	if err != nil {
		return nil, nil, fmt.Errorf("address %q: %w", e.config.Host, err)
	}
	return client, base, nil
}

// TLS returns the TLS configuration for own connections; it offers HTTP/2.
func (e Endpoint) TLS() (*tls.Config, error) {
	c, err := rest.TLSConfigFor(e.config)
	if err != nil {
		return nil, fmt.Errorf("certificates for %s: %w", e.config.Host, err)
	}
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c = c.Clone()
	c.NextProtos = []string{"h2"}
	return c, nil
}

// WriteKubeconfig writes the endpoint as a kubeconfig file of mode 0600 that
// holds everything it needs.
func (e Endpoint) WriteKubeconfig(path string) error {
	const name = "windtunnel"
	return WriteContexts(path, name, map[string]Endpoint{name: e})
}

// Kubeconfig returns the endpoint as the text of a kubeconfig, which holds everything it needs.
func (e Endpoint) Kubeconfig() ([]byte, error) {
	const name = "windtunnel"
	return encodeContexts(name, map[string]Endpoint{name: e})
}

// WriteContexts writes a kubeconfig file of mode 0600 with a context for each
// endpoint, by its name; current is in force.
func WriteContexts(path, current string, all map[string]Endpoint) error {
	raw, err := encodeContexts(current, all)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

func encodeContexts(current string, all map[string]Endpoint) ([]byte, error) {
	c := clientcmdapi.NewConfig()
	for name, e := range all {
		c.Clusters[name] = &clientcmdapi.Cluster{
			Server: e.config.Host, TLSServerName: e.config.ServerName, CertificateAuthorityData: e.config.CAData,
		}
		c.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: e.config.CertData, ClientKeyData: e.config.KeyData, Token: e.config.BearerToken}
		c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	c.CurrentContext = current
	raw, err := clientcmd.Write(*c)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return raw, nil
}

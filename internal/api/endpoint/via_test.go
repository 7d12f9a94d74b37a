package endpoint_test

import (
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestViaKeepsServerAndName(t *testing.T) {
	for _, c := range []struct{ server, address, via, name string }{
		{"https://127.0.0.1:6443", "127.0.0.1:6443", "https://127.0.0.1:99", "127.0.0.1"},
		{"https://api.example.org", "api.example.org:443", "https://127.0.0.1:99", "api.example.org"},
		{"https://[::1]:6443/clusters/a", "[::1]:6443", "https://127.0.0.1:99/clusters/a", "::1"},
		{"http://localhost", "localhost:80", "http://127.0.0.1:99", ""},
	} {
		e := endpoint.New(c.server, nil, endpoint.Identity{})
		if got, err := e.Address(); err != nil || got != c.address {
			t.Errorf("%s: address %q, %v", c.server, got, err)
		}
		via, err := e.Via("127.0.0.1:99")
		if err != nil || via.Server() != c.via || via.Config("").ServerName != c.name {
			t.Errorf("%s: via %q, name %q, %v", c.server, via.Server(), via.Config("").ServerName, err)
		}
		if e.Server() != c.server {
			t.Errorf("%s became %s", c.server, e.Server())
		}
		file := filepath.Join(t.TempDir(), "kubeconfig")
		repotest.NoError(t, via.WriteKubeconfig(file))
		read, err := endpoint.FromKubeconfig(file, "")
		if err != nil || read.Server() != c.via || read.Config("").ServerName != c.name {
			t.Errorf("%s: the kubeconfig says %q, name %q, %v", c.server, read.Server(), read.Config("").ServerName, err)
		}
		// A proxy behind a proxy still leads to the same server.
		if again, err := via.Via("127.0.0.1:98"); err != nil || again.Config("").ServerName != c.name {
			t.Errorf("%s: via two proxies the name is %q, %v", c.server, again.Config("").ServerName, err)
		}
	}
	if _, err := endpoint.New("https://%zz", nil, endpoint.Identity{}).Via("127.0.0.1:1"); err == nil {
		t.Error("no error for an address that is none")
	}
}

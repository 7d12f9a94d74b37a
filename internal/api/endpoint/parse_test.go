package endpoint_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
)

// TestParseReadsNothingBesideTheText gives kubeconfigs that name programs and files.
func TestParseReadsNothingBesideTheText(t *testing.T) {
	text := func(cluster, user string) []byte {
		return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "https://a.example"%s}}], users: [{name: a, user: {%s}}]}`, cluster, user)
	}
	e, err := endpoint.Parse(text("", "token: t"))
	if err != nil || e.Server() != "https://a.example" {
		t.Fatalf("%s, %v", e.Server(), err)
	}
	for name, raw := range map[string][]byte{
		"program":       text("", "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/true}"),
		"auth provider": text("", "auth-provider: {name: oidc}"),
		"token file":    text("", "tokenFile: /etc/hostname"),
		"certificate":   text("", "client-certificate: /etc/hostname, client-key-data: YQ=="),
		"key":           text("", "client-certificate-data: YQ==, client-key: /etc/hostname"),
		"authority":     text(", certificate-authority: /etc/hostname", "token: t"),
	} {
		if _, err := endpoint.Parse(raw); !errors.Is(err, endpoint.ErrOutside) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, raw := range []string{"", "{}", "no kubeconfig"} {
		if _, err := endpoint.Parse([]byte(raw)); err == nil {
			t.Errorf("%q was taken", raw)
		}
	}
}

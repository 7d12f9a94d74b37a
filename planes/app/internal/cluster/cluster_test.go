package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestRead holds that members have the order of their numbers, and labels in turn.
func TestRead(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"edge-1", "edge-2", "edge-10", "far-1", "members"} {
		repotest.NoError(t, endpoint.Bearer("https://127.0.0.1:1", []byte("ca of "+name), "token of "+name).WriteKubeconfig(filepath.Join(folder, name+".kubeconfig")))
	}
	all := repotest.Must(Read(folder, map[string]int{"region": 3, "topology.example/zone": 1}))(t)
	var got []string
	for _, m := range all {
		got = append(got, m.Name+" "+m.Labels["region"]+" "+m.Labels["topology.example/zone"]+" "+m.Token)
	}
	want := []string{"edge-1 region-0 zone-0 token of edge-1", "edge-2 region-1 zone-0 token of edge-2", "edge-10 region-2 zone-0 token of edge-10", "far-1 region-0 zone-0 token of far-1"}
	repotest.Equal(t, got, want, "members")
	if _, err := Read(t.TempDir(), nil); err == nil {
		t.Error("a folder without members passes")
	}
}

// TestAMemberWithoutAnAuthorityIsRefused has kubeconfigs without a CA: what would be reached
// without verification has to say so.
func TestAMemberWithoutAnAuthorityIsRefused(t *testing.T) {
	for cluster, want := range map[string]string{
		"{server: 'https://127.0.0.1:1'}":                                 "has no certificate-authority",
		"{server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}": "",
		"{server: 'https://127.0.0.1:1', certificate-authority: ca.pem}":  "",
	} {
		folder := t.TempDir()
		text := "{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: " + cluster + "}], " +
			"users: [{name: u, user: {token: t}}], contexts: [{name: x, context: {cluster: c, user: u}}], current-context: x}"
		repotest.NoError(t, os.WriteFile(filepath.Join(folder, "ca.pem"), []byte("a CA"), 0o600))
		repotest.NoError(t, os.WriteFile(filepath.Join(folder, "m-1.kubeconfig"), []byte(text), 0o600))
		all, err := Read(folder, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", cluster, err)
		}
		if strings.Contains(cluster, "ca.pem") && (len(all) != 1 || string(all[0].CA) != "a CA") {
			t.Errorf("%s: %v", cluster, all)
		}
	}
}

// TestSecrets holds that a member is read as it was written, by token or certificate,
// and what is wrong with others.
func TestSecrets(t *testing.T) {
	for _, m := range []Member{
		{Name: "a", Labels: map[string]string{"x": "y"}, Endpoint: "https://a", CA: []byte("ca"), Token: "t"},
		{Name: "b", Endpoint: "https://b", Cert: []byte("c"), Key: []byte("k")},
	} {
		got, err := FromSecret(m.Secret())
		delete(got.Labels, LabelCredential)
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(m) {
			t.Errorf("%v: %+v, want %+v", err, got, m)
		}
	}
	for want, change := range map[string]func(*Member){
		"want endpoint": func(m *Member) { m.Endpoint = "" },
		"either token":  func(m *Member) { m.Token = "" },
	} {
		m := Member{Name: "a", Endpoint: "https://a", Token: "t"}
		change(&m)
		if _, err := FromSecret(m.Secret()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	s := Member{Name: "a", Endpoint: "https://a", Token: "t"}.Secret()
	s.Labels = nil
	if _, err := FromSecret(s); err == nil || !strings.Contains(err.Error(), LabelCredential) {
		t.Errorf("a Secret that is no member's: %v", err)
	}
}

// TestRoute holds where a request goes, and that one for the hub stays as it is.
func TestRoute(t *testing.T) {
	var got []string
	note := func(way string) http.RoundTripper {
		return noted(func(r *http.Request) { got = append(got, way+" "+r.URL.Path) })
	}
	send := func(to http.RoundTripper, cluster string) {
		t.Helper()
		r := repotest.Must(http.NewRequestWithContext(In(t.Context(), cluster), http.MethodGet, "https://hub/api/v1/namespaces/n/secrets/s", nil))(t)
		answer := repotest.Must(to.RoundTrip(r))(t)
		_ = answer.Body.Close()
	}
	byHub, direct := Route(nil)(note("hub")), Route(note("direct"))(note("hub"))
	send(byHub, "")
	send(byHub, Local)
	send(byHub, "m")
	send(direct, "")
	send(direct, "m")
	const own, at = "/api/v1/namespaces/n/secrets/s", "/apis/cluster.core.oam.dev/v1alpha1/clustergateways/m/proxy"
	if want := []string{"hub " + own, "hub " + own, "hub " + at + own, "hub " + own, "direct " + at + own}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if Of(context.Background()) != "" {
		t.Error("a context that says nothing names a member")
	}
}

type noted func(*http.Request)

// RoundTrip notes a request and answers it.
func (f noted) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestDirectSaysWhatIsWrong(t *testing.T) {
	for want, d := range map[string]Direct{
		"want at least 1":   {},
		"want service or":   {URL: "http://127.0.0.1:1", Connections: 1},
		"no such file":      {URL: "https://127.0.0.1:1", CAFile: "/none/such", Connections: 1},
		"is no certificate": {URL: "https://127.0.0.1:1", CAFile: "cluster_test.go", Connections: 1},
	} {
		err := d.Validate()
		if err == nil {
			var to http.RoundTripper
			to, err = d.Transport(&rest.Config{})
			if err == nil {
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://x/", nil)
				_, err = to.RoundTrip(r)
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

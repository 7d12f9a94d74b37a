package endpoint_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestRedirectsAreNotFollowed has a server that sends its clients to another place, by every
// code there is: nobody comes there, and so no token does.
func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s came with %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere.URL+"/sso")
			w.WriteHeader(code)
		}))
		e := endpoint.Bearer(server.URL, nil, "secret")
		client, base, err := e.Client()
		repotest.NoError(t, err)
		req := repotest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, base.String()+"/api", nil))(t)
		answer, err := client.Do(req)
		if err != nil || answer.StatusCode != code {
			t.Errorf("%d: %v, %v", code, answer, err)
		}
		if err == nil {
			answer.Body.Close()
		}
		typed := repotest.Must(kubernetes.NewForConfig(e.Config("test")))(t)
		if _, err := typed.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{}); err == nil {
			t.Errorf("%d is a success", code)
		}
		server.Close()
	}
}

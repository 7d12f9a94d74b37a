package endpoint_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestSingleRequestsAreNamed: who counts a server's clients finds windtunnel by its name.
func TestSingleRequestsAreNamed(t *testing.T) {
	agents := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { agents <- r.UserAgent() }))
	defer server.Close()
	client, base, err := endpoint.Bearer(server.URL, nil, "secret").Client()
	repotest.NoError(t, err)
	req := repotest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, base.String()+"/metrics", nil))(t)
	answer := repotest.Must(client.Do(req))(t)
	answer.Body.Close()
	if agent := <-agents; agent != "windtunnel" {
		t.Errorf("it calls itself %q", agent)
	}
}

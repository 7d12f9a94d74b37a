package plane

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/door"
	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestBootObjectsAreNoRuns: whoever looks for what runs left behind goes by the field
// manager, which a server takes from the query or else from the user agent.
func TestBootObjectsAreNoRuns(t *testing.T) {
	made := make(chan *http.Request, len(controllerAccounts())+1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { made <- r }))
	defer server.Close()
	asker := repotest.Must(newAsker(endpoint.Bearer(server.URL, nil, "secret")))(t)
	repotest.NoError(t, asker.bindAdmin(t.Context()))
	repotest.NoError(t, asker.createAccounts(t.Context()))
	close(made)
	for r := range made {
		manager := r.URL.Query().Get("fieldManager")
		if r.Method != http.MethodPost || manager == "" || strings.HasPrefix(manager, door.Manager) {
			t.Errorf("%s %s by %q, user agent %q", r.Method, r.URL, manager, r.UserAgent())
		}
	}
}

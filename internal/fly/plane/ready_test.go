package plane

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/door"
	"github.com/windtunnel/windtunnel/internal/api/endpoint"
)

// TestBootObjectsAreNoRuns: whoever looks for what runs left behind goes by the field
// manager, which a server takes from the query or else from the user agent.
func TestBootObjectsAreNoRuns(t *testing.T) {
	made := make(chan *http.Request, len(controllerAccounts())+1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { made <- r }))
	defer server.Close()
	asker, err := newAsker(endpoint.Bearer(server.URL, nil, "secret"))
	if err != nil {
		t.Fatal(err)
	}
	if err := asker.bindAdmin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := asker.createAccounts(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(made)
	for r := range made {
		manager := r.URL.Query().Get("fieldManager")
		if r.Method != http.MethodPost || manager == "" || strings.HasPrefix(manager, door.Manager) {
			t.Errorf("%s %s by %q, user agent %q", r.Method, r.URL, manager, r.UserAgent())
		}
	}
}

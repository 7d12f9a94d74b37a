package member

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestFaultsOfHollowMembers says what the process of hollow members is asked for by each
// fault, and by its end.
func TestFaultsOfHollowMembers(t *testing.T) {
	var asked []string
	process := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked = append(asked, strings.TrimPrefix(r.URL.RequestURI(), "/"))
	}))
	defer process.Close()
	base := repotest.Must(url.Parse(process.URL))(t)
	m := &Member{Name: "a", server: hollowControl{process.Client(), base}.of("a")}
	for _, tt := range []struct {
		fault      scenario.Disturbance
		begin, end []string
	}{
		{scenario.Disturbance{Action: "kill"}, []string{"a/stop"}, []string{"a/start"}},
		{scenario.Disturbance{Action: "restart"}, []string{"a/stop", "a/start"}, nil},
		{scenario.Disturbance{Action: "slow", Factor: 2.5}, []string{"a/slow?factor=2.5"}, []string{"a/slow?factor=1"}},
		{scenario.Disturbance{Action: "expire"}, []string{"a/expire"}, []string{"a/renew"}},
		{scenario.Disturbance{Action: "rollback"}, []string{"a/copy"}, []string{"a/stop", "a/restore", "a/start"}},
	} {
		asked = nil
		mend, err := m.Inject(t.Context(), nil, &tt.fault)
		if err != nil || !slices.Equal(asked, tt.begin) {
			t.Errorf("%s: asked %q, %v, want %q", tt.fault.Action, asked, err, tt.begin)
			continue
		}
		asked = nil
		if err := mend(t.Context()); err != nil || !slices.Equal(asked, tt.end) {
			t.Errorf("end of %s: asked %q, %v, want %q", tt.fault.Action, asked, err, tt.end)
		}
	}
	for _, action := range []string{"pause", "cut", "stall", "delay"} { // the last three are the link's, and there is none
		if _, err := m.Inject(t.Context(), nil, &scenario.Disturbance{Action: action}); !errors.Is(err, plane.ErrNoFault) {
			t.Errorf("%s: %v", action, err)
		}
	}
}

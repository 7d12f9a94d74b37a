package flight

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/apitest"
	"github.com/windtunnel/windtunnel/internal/clock"
)

// A cluster in which nobody makes service accounts ends a run with a sentence.
func TestNamespaceThatStaysUnusable(t *testing.T) {
	client := apitest.Client(t, apitest.New(t).Endpoint(), clock.Start())
	err := awaitUsable(t.Context(), client, "n", 100*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "namespace n did not become usable: it has no service account") {
		t.Errorf("%v", err)
	}
}

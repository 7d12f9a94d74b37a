package watch

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
)

// TestPatienceWithTheFirstList: who says that it comes to it later is asked for longer
// than who does not answer, or refuses.
func TestPatienceWithTheFirstList(t *testing.T) {
	for code, want := range map[int]time.Duration{
		http.StatusTooManyRequests: busyWithin, http.StatusServiceUnavailable: busyWithin, http.StatusGatewayTimeout: busyWithin,
		http.StatusInternalServerError: listWithin, http.StatusForbidden: listWithin, http.StatusGone: listWithin,
	} {
		if got := firstWithin(fmt.Errorf("list: %w", &wire.StatusError{Code: code})); got != want {
			t.Errorf("%d: %v: want %v", code, got, want)
		}
	}
	if got := firstWithin(errors.New("connection refused")); got != listWithin {
		t.Errorf("no answer: %v: want %v", got, listWithin)
	}
}

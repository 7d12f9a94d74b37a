package fleet_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/scenario"
)

// reporting counts the nodes that report a release of their kubelets.
func reporting(s *apitest.Server, version string) (n int) {
	for _, node := range s.Nodes() {
		if node.Status.NodeInfo.KubeletVersion == version {
			n++
		}
	}
	return n
}

func TestKubeletsReportAnotherRelease(t *testing.T) {
	s := apitest.New(t)
	f := start(t, s, config(7))
	ready(t, f)
	undo := disturb(t, f, scenario.Disturbance{Action: fleet.Silent, Nodes: &scenario.Victims{Count: 1}})
	var refusals atomic.Int32
	s.Inject(func(r *http.Request) *apitest.Injection {
		if r.Method == http.MethodPatch && refusals.Add(1) == 2 { // it is sent again
			return &apitest.Injection{Code: http.StatusServiceUnavailable}
		}
		return nil
	})
	var seen []string
	err := f.RollKubelets(t.Context(), "v1.99.1", 2, func(done, of int) error {
		seen = append(seen, fmt.Sprintf("%d of %d: %d", done, of, reporting(s, "v1.99.1")))
		return nil
	})
	if got := strings.Join(seen, ", "); err != nil || got != "2 of 6: 2, 4 of 6: 4" {
		t.Errorf("batches %s, %v", got, err)
	}
	if n := reporting(s, "v1.99.1"); n != 6 || refusals.Load() < 7 {
		t.Errorf("%d nodes report it, after %d requests", n, refusals.Load())
	}
	undo()
	enough := errors.New("enough")
	if err := f.RollKubelets(t.Context(), "v1.99.2", 3, func(int, int) error { return enough }); !errors.Is(err, enough) || reporting(s, "v1.99.2") != 3 {
		t.Errorf("ended between batches: %v, %d nodes report it", err, reporting(s, "v1.99.2"))
	}
	s.Inject(func(r *http.Request) *apitest.Injection {
		if r.Method == http.MethodPatch {
			return &apitest.Injection{Code: http.StatusForbidden}
		}
		return nil
	})
	if err := f.RollKubelets(t.Context(), "v1.99.3", 3, nil); err == nil || !strings.Contains(err.Error(), "0 of 7 nodes report v1.99.3: node node-00000") {
		t.Errorf("refused: %v", err)
	}
}

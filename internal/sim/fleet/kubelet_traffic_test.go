package fleet_test

import (
	"fmt"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
)

// TestKubeletTraffic counts what nodes ask with the traffic of real kubelets.
func TestKubeletTraffic(t *testing.T) {
	s := apitest.New(t)
	cfg := config(3)
	cfg.Traffic = fleet.KubeletTraffic
	f := start(t, s, cfg)
	ready(t, f)
	// Two watches of the fleet's own, and for each node those of nodes and pods
	// (the server here has no services, CSI drivers and runtime classes).
	repotest.Eventually(t, "watches", func() bool { return s.Calls("WATCH nodes") == 4 && s.Calls("WATCH pods") == 4 })
	for i := range 4 {
		s.AddPod(apitest.Pod(fmt.Sprintf("p%d", i), "node-000001"))
	}
	repotest.Eventually(t, "run", func() bool { return len(running(s)) == 4 })
	repotest.Eventually(t, "events", func() bool { return s.Calls("POST events") == 12 })
	for call, want := range map[string]int{
		"POST serviceaccounts/token": 4, "GET pods": 1 + 2*4, "PATCH pods/status": 2 * 4,
	} {
		if got := s.Calls(call); got != want {
			t.Errorf("%s: %d times, want %d", call, got, want)
		}
	}
	s.EndPod("default", "p0")
	repotest.Eventually(t, "gone", func() bool { return len(s.Pods()) == 3 && s.Calls("POST events") == 13 })
	if p, g := s.Calls("PATCH pods/status"), s.Calls("GET pods"); p != 9 || g != 10 {
		t.Errorf("%d patches, %d reads", p, g)
	}
	if st := f.Stats(); st.Dropped != 0 || st.Retries != 0 {
		t.Errorf("%+v", st)
	}
	// A node that goes closes its watches.
	watches := fleet.Watches(f)
	s.Remove(apitest.NodesPath + "/node-000002")
	repotest.Eventually(t, "closed", func() bool { return fleet.Watches(f) < watches })
}

func TestTrafficThatIsNotKnown(t *testing.T) {
	s := apitest.New(t)
	cfg := config(1)
	cfg.Traffic = "heavy"
	if _, err := fleet.Start(t.Context(), cfg, fleet.Options{Endpoint: s.Endpoint(), Clock: clock.Start()}); err == nil {
		t.Error("no error")
	}
}

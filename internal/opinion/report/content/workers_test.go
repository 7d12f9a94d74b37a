package content

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
)

// A reader is told who sent, who kept nodes, and where they were.
func TestWorkersFinding(t *testing.T) {
	for want, fact := range map[string]record.WorkersFact{
		"2 processes of this machine sent the load: ":                  {Count: 2, Where: "processes"},
		"1 process that somebody started sent the load: ":              {Count: 1, Where: "byHand"},
		"1 pod sent the load: ":                                        {Count: 4, Fleets: 3, Where: "pods"},
		" 3 pods kept the nodes alive.":                                {Count: 4, Fleets: 3, Where: "pods"},
		"1 process of this machine kept the nodes alive.":              {Count: 1, Fleets: 1, Where: "processes"},
		"2 processes of this machine kept the nodes alive. Lost: work": {Count: 2, Fleets: 2, Where: "processes"},
	} {
		f := &run.Facts{}
		for i := range fact.Count {
			f.Workers = append(f.Workers, &run.Worker{Index: i, Fleet: fact.KeepsNodes(i)})
		}
		if strings.Contains(want, "Lost") {
			f.Workers[0].Lost = "it died"
		}
		got := workersFinding(record.Manifest{Workers: &fact}, f)
		if len(got) != 1 || !strings.Contains(got[0].Text, want) || fact.Senders() == 0 && strings.Contains(got[0].Text, "load") {
			t.Errorf("%+v: %+v, want %q", fact, got, want)
		}
	}
}

package content

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Lifecycles of several clusters are drawn together and cluster by cluster, those with
// the most objects first, the small ones in one line.
func TestClusterCharts(t *testing.T) {
	path := filepath.Join(t.TempDir(), record.StreamFile)
	w := repotest.Must(record.Create(path))(t)
	const clusters = drawnClusters + 3
	id := record.ObjectID(0)
	for c := range clusters {
		for range c + 1 { // the last has the most
			w.Object(record.Object{Resource: "configmaps", Lifecycle: "map", Cluster: fmt.Sprintf("far-%d", c+1)})
			w.Phase(record.Phase{Object: id, Phase: record.PhaseCreated, At: at(1)})
			w.Phase(record.Phase{Object: id, Phase: "there", At: at(2)})
			id++
		}
	}
	w.Phase(record.Phase{Object: id - 1, Phase: record.PhaseDeleted, At: at(3)})
	w.Object(record.Object{Resource: "pods", Group: "g"})
	w.Phase(record.Phase{Object: id, Phase: record.PhaseCreated, At: at(1)})
	repotest.NoError(t, w.Close())
	facts := repotest.Must(run.Collect(path, record.Manifest{}))(t)
	charts := newTally(&run.Run{Facts: facts}).clusterCharts()
	if len(charts) != 2 {
		t.Fatalf("%d charts, want two of map and none of the pods, which are of one cluster", len(charts))
	}
	last := func(l Line) Num { return l.Mean[len(l.Mean)-1] }
	all := clusters * (clusters + 1) / 2
	if sum := charts[0].Lines; len(sum) != 2 || sum[0].Name != "exist" || sum[1].Name != "there" || last(sum[1]) != Num(all-1) {
		t.Errorf("all clusters: %+v, want %d at the end", sum, all-1)
	}
	lines := charts[1].Lines
	if len(lines) != drawnClusters+1 || lines[0].Name != fmt.Sprintf("far-%d", clusters) || lines[drawnClusters].Name != "3 others" {
		t.Fatalf("%+v", lines)
	}
	if last(lines[0]) != clusters-1 || slices.Max(lines[0].Mean) != clusters || last(lines[drawnClusters]) != 1+2+3 {
		t.Errorf("the largest ends with %v after %v, the others with %v", last(lines[0]), slices.Max(lines[0].Mean), last(lines[drawnClusters]))
	}
}

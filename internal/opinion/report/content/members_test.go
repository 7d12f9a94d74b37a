package content

import (
	"fmt"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
)

// manyMembers is a run with members of which each is slower than the one before; the
// last has failed calls.
func manyMembers(n int) *run.Run {
	f := &run.Facts{}
	for i := range n {
		x := &run.Cluster{Name: fmt.Sprintf("edge-%d", i+1), Width: time.Second, Bins: make([]run.ClusterBin, 300)}
		c := &run.Calls{Op: record.Op{Cluster: x.Name}}
		slow := time.Duration(i+1) * time.Millisecond
		c.Latency.Add(slow)
		c.Latency.Sort()
		c.Outcomes[record.OK] = 1
		x.Bins[i%300] = run.ClusterBin{Calls: 1, Slowest: slow}
		f.Clusters, f.Calls = append(f.Clusters, x), append(f.Calls, c)
	}
	f.Calls[n-1].Outcomes = [3]int{record.Failed: 1}
	f.Clusters[n-1].Bins[(n-1)%300].Bad = 1
	groups := []record.MembersFact{{Name: "edge", Count: n, Labels: map[string]string{"tier": "front"}, Spread: map[string]int{"example.org/region": 2}}}
	return &run.Run{Facts: f, Manifest: record.Manifest{Members: groups}}
}

func TestMembersTheSlowestFirst(t *testing.T) {
	rows := memberRows(manyMembers(100))
	if m := rows[0]; len(rows) != 100 || m.Name != "edge-100" || m.Labels != "example.org/region=region-1 tier=front" || m.Bad != 1 || m.P99 != 0.1 {
		t.Errorf("%d, %+v", len(rows), m)
	}
}

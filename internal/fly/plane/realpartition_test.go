package plane_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// The leader of three etcd members is cut from the others: they elect another one, which
// writes, and it follows when it has joined them again.
func TestRealPartition(t *testing.T) {
	p, err := plane.Start(t.Context(), scenario.Plane{EtcdMembers: 3}, plane.Options{LogDir: t.TempDir(), Executable: repotest.Binary(t), PeerProxies: true})
	repotest.NoError(t, err)
	defer func() {
		pids, ports, paths := inventory(t, p)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if left := remains(pids, ports, paths); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}()
	first := repotest.Must(p.Find(t.Context(), component.Leader(component.Etcd)))(t)
	join := repotest.Must(first.Inject(t.Context(), &scenario.Disturbance{Component: first.Name, Action: "partition"}))(t)
	repotest.Eventually(t, "another member leads", func() bool {
		next, err := p.Find(t.Context(), component.Leader(component.Etcd))
		return err == nil && next.Name != first.Name
	})
	repotest.Eventually(t, "the plane answers without it", func() bool { return answers(t, p) == 200 })
	if err := join(t.Context()); err != nil {
		t.Error(err)
	}
	repotest.Eventually(t, "all members are ready again", func() bool { return p.Ready(t.Context()) == nil })
	// A member without proxies cannot be cut off.
	server, _ := p.Component(component.APIServer)
	if err := server.Partition(); err == nil {
		t.Error("an API server was cut off")
	}
}

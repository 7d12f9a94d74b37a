package fleet

import (
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/stage"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

func nodeKind() machine.Resource { return machine.Resource{APIVersion: "v1", Kind: "Node"} }
func podKind() machine.Resource  { return machine.Resource{APIVersion: "v1", Kind: "Pod"} }

// stages are those of nodes and pods that the fleet plays itself, without a
// player, and what they know of the fleet.
type stages struct {
	*stage.Set

	clock     clock.Clock
	addresses *addresses
	template  *nodeTemplate
}

// compileStages chooses the stages that need no player; without a machine those of the
// built-in set fast.
func (s *stages) compileStages(m *machine.Machine) (err error) {
	if m == nil {
		s.Set, err = stage.Fast()
		return err
	}
	s.Set = stage.New(m)
	return nil
}

// playsWithoutPlayer says that objects of a kind need no player.
func (s *stages) playsWithoutPlayer(r machine.Resource) bool {
	return r == podKind() && s.SlowPods() == nil || r == nodeKind() && s.SlowNodes() == nil
}

// stageEnv is what stages know besides their object; the pod is nil for nodes.
func (s *stages) stageEnv(at clock.Time, p *pod) stage.Env {
	return stage.Env{
		Now: s.clock.Wall(at), Addresses: &addressBook{s.addresses, p},
		Version: s.template.program, KubeletPort: s.template.port,
	}
}

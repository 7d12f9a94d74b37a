package fleet

import (
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fleet/stage"
	"github.com/windtunnel/windtunnel/internal/fleet/stage/machine"
)

func nodeKind() machine.Resource { return machine.Resource{APIVersion: "v1", Kind: "Node"} }
func podKind() machine.Resource  { return machine.Resource{APIVersion: "v1", Kind: "Pod"} }

// stages are those of nodes and pods that the fleet plays itself, without a
// player, and what they know of the fleet.
type stages struct {
	*stage.Set
	nodes, pods bool // are played here, not by a player

	clock     clock.Clock
	addresses *addresses
	template  *nodeTemplate
}

// compile chooses the stages that need no player.
func (s *stages) compile(m *machine.Machine) {
	if m == nil {
		s.Set, s.nodes, s.pods = stage.Fast(), true, true
		return
	}
	typedNodes, nodes := stage.TypedNodes(m.Stages(nodeKind()))
	typedPods, pods := stage.TypedPods(m.Stages(podKind()))
	s.Set, s.nodes, s.pods = stage.Join(typedPods, typedNodes), nodes, pods
}

// plays says that objects of a kind need no player.
func (s *stages) plays(r machine.Resource) bool {
	return r == podKind() && s.pods || r == nodeKind() && s.nodes
}

// env is what stages know besides their object; the pod is nil for nodes.
func (s *stages) env(at clock.Time, p *pod) stage.Env {
	return stage.Env{
		Now: s.clock.Wall(at), Addresses: &addressBook{s.addresses, p},
		Version: s.template.program, KubeletPort: s.template.port,
	}
}

package tree

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// leaf is a virtual node of the hub.
type leaf struct {
	node   string // its name
	model  *api.LeafModel
	mode   string
	joined *joined

	agreed atomic.Pointer[versions] // of when both sides were last found to agree; nil before
}

// versions are those of a leaf at the hub and of the one node that it stands for.
type versions struct{ hub, node string }

// leaves are those of all members.
type leaves struct {
	scan  bool
	steps prometheus.Counter // leaves that were looked at

	mu      sync.RWMutex
	all     []*leaf
	byNode  map[string]*leaf
	members map[string]*joined
}

// findLeaf returns the leaf that a node is, nil for an ordinary node, in the way that the
// options say.
func (l *leaves) findLeaf(node string) *leaf {
	if !l.scan {
		l.steps.Inc()
		return l.leafOf(node)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i, one := range l.all {
		if one.node == node {
			l.steps.Add(float64(i + 1))
			return one
		}
	}
	l.steps.Add(float64(len(l.all)))
	return nil
}

// leafOf returns the leaf that a node is, for those that put keys into queues.
func (l *leaves) leafOf(node string) *leaf {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.byNode[node]
}

// listLeaves returns all leaves.
func (l *leaves) listLeaves() []*leaf {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.all
}

// addMember takes in a member.
func (l *leaves) addMember(j *joined) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members[j.member.name] = j
	l.all = append(l.all[:len(l.all):len(l.all)], j.member.leaves...) // readers hold the slice before
	for _, one := range j.member.leaves {
		l.byNode[one.node] = one
	}
}

// removeMember takes a member out and returns it, nil if there is none.
func (l *leaves) removeMember(name string) *joined {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.members[name]
	if j == nil {
		return nil
	}
	delete(l.members, name)
	var rest []*leaf
	for _, one := range l.all {
		if one.joined != j {
			rest = append(rest, one)
		} else if l.byNode[one.node] == one {
			delete(l.byNode, one.node)
		}
	}
	l.all = rest
	return j
}

// memberNamed returns the member of a name, nil if there is none.
func (l *leaves) memberNamed(name string) *joined {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.members[name]
}

// everyMember returns all members.
func (l *leaves) everyMember() []*joined {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Collect(maps.Values(l.members))
}

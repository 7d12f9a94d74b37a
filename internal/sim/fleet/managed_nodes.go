package fleet

import (
	"fmt"
	"hash/fnv"
	"math/big"
	"math/bits"
	"net/url"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// ManagedNodes says which existing nodes a fleet keeps alive, as kwok's flags do:
// all, one, or those that selectors of labels and annotations match, both if both
// are given.
type ManagedNodes struct {
	All         bool
	Single      string          // a node's name
	Labels      labels.Selector // of nodes; asked of the server
	Annotations labels.Selector // of nodes; the server cannot select by them
	// Disregard are labels and annotations of nodes and pods whose status is
	// left alone; nil for none.
	DisregardLabels, DisregardAnnotations labels.Selector
	// Shards share the work: this instance takes the Shard-th (from 0) of
	// Shards equal ranges of hashed uids, of nodes and, with All, of pods. A
	// server with the feature ShardedListAndWatch (KEP-5866) sends only these;
	// another one sends all, and the rest is skipped here.
	Shard, Shards int
}

// Validate returns an error for what cannot be meant.
func (m *ManagedNodes) Validate() error {
	ways := 0
	for _, on := range []bool{m.All, m.Single != "", m.Labels != nil || m.Annotations != nil} {
		if on {
			ways++
		}
	}
	switch {
	case ways != 1:
		return fmt.Errorf("fleet: exactly one of all nodes, a single node, and selectors of labels and annotations says which nodes to manage, not %d", ways)
	case m.Shards < 0 || m.Shard < 0 || m.Shard >= max(m.Shards, 1):
		return fmt.Errorf("fleet: shard %d of %d: shards count from 0", m.Shard, m.Shards)
	}
	return nil
}

func (m *ManagedNodes) nodesQuery() url.Values {
	q := url.Values{}
	if m.Labels != nil {
		q.Set("labelSelector", m.Labels.String())
	}
	if m.Single != "" {
		q.Set("fieldSelector", "metadata.name="+m.Single)
	}
	m.shardQuery(q)
	return q
}

func (m *ManagedNodes) podsQuery() url.Values {
	q := url.Values{"fieldSelector": {"spec.nodeName!="}}
	if m.Single != "" {
		q.Set("fieldSelector", "spec.nodeName="+m.Single)
	}
	if m.All {
		m.shardQuery(q)
	}
	return q
}

// NodesQuery is the part of a list's or a watch's query that finds the nodes,
// escaped.
func (m *ManagedNodes) NodesQuery() string { return m.nodesQuery().Encode() }

// shardQuery asks the server for this instance's part.
func (m *ManagedNodes) shardQuery(q url.Values) {
	if m.Shards < 2 {
		return
	}
	bound := func(i int) string {
		n := new(big.Int).Lsh(big.NewInt(int64(i)), 64)
		n.Add(n, big.NewInt(int64(m.Shards-1))).Div(n, big.NewInt(int64(m.Shards)))
		return fmt.Sprintf("'0x%016x'", n)
	}
	q.Set("shardSelector", "shardRange(object.metadata.uid, "+bound(m.Shard)+", "+bound(m.Shard+1)+")")
}

// ownsUID says that an object of that uid is this instance's. The hash is the one
// of the server's shard selectors (apimachinery, pkg/sharding).
func (m *ManagedNodes) ownsUID(uid []byte) bool {
	if m.Shards < 2 {
		return true
	}
	h := fnv.New64a()
	h.Write(uid)
	shard, _ := bits.Mul64(h.Sum64(), uint64(m.Shards))
	return int(shard) == m.Shard
}

// wantsNode says that a node is to be kept alive, by what the server cannot select.
func (m *ManagedNodes) wantsNode(raw []byte) bool {
	return m.Annotations == nil || m.Annotations.Matches(pairs(raw, true))
}

// leavesAlone says that an object's status is not to be touched.
func (m *ManagedNodes) leavesAlone(raw []byte) bool {
	if m == nil {
		return false
	}
	return m.DisregardLabels != nil && m.DisregardLabels.Matches(pairs(raw, false)) ||
		m.DisregardAnnotations != nil && m.DisregardAnnotations.Matches(pairs(raw, true))
}

// pairs returns an object's labels, or annotations.
func pairs(raw []byte, notes bool) labels.Set {
	out := labels.Set{}
	object.Pairs(raw, notes, func(k, v []byte) { out[string(k)] = string(v) })
	return out
}

// sharesPods says that pods are shared out by their own uids, wherever their
// nodes are.
func (m *ManagedNodes) sharesPods() bool { return m.All && m.Shards > 1 }

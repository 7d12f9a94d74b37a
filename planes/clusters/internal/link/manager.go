package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
)

// How a manager computes.
const (
	ComputeFull        = "full"        // Kosmos': at each event every configuration, one event after another
	ComputeIncremental = "incremental" // what changes touch alone, and changes that come together at once
)

// Stored is a configuration as a store has it.
type Stored struct {
	Config
	Previous string // JSON of the configuration before, where it is kept
}

// Store keeps configurations by their node's name.
type Store interface {
	// Get returns one that the caller must not change; nil: there is none.
	Get(name string) *Stored
	// Put writes one. Its bytes are counted by the caller.
	Put(ctx context.Context, name string, s *Stored) error
	Delete(ctx context.Context, name string) error
	Names() []string
}

// Options say how a manager computes and writes.
type Options struct {
	Compute  string // ComputeFull or ComputeIncremental
	Previous bool   // keeps the configuration before beside each, as Kosmos does
}

// Default returns Kosmos' options.
func Default() Options { return Options{Compute: ComputeFull, Previous: true} }

// Counts is what a manager has done.
type Counts struct {
	Passes   int // over what there was to compute
	Computed int // configurations
	Entries  int // of them
	Writes   int // that a store took
	Refused  int // that it did not
	Bytes    int // of what was written, as JSON
}

// Manager keeps the configuration of every node. It is for one caller at a time, but
// for Counts.
type Manager struct {
	options  Options
	store    Store
	clusters map[string]Cluster
	nodes    map[string]Node
	touched  map[string]bool // nodes whose configuration may have changed
	all      bool            // any may have
	behind   bool            // the last pass could not write everything

	mu     sync.Mutex // of the counts, which others read at any time
	counts Counts
}

// NewManager returns one that knows nothing yet.
func NewManager(o Options, s Store) *Manager {
	return &Manager{options: o, store: s, clusters: map[string]Cluster{}, nodes: map[string]Node{}, touched: map[string]bool{}}
}

// Counts returns what it has done.
func (m *Manager) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

func (m *Manager) addCounts(add Counts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.counts
	c.Passes, c.Computed, c.Entries = c.Passes+add.Passes, c.Computed+add.Computed, c.Entries+add.Entries
	c.Writes, c.Refused, c.Bytes = c.Writes+add.Writes, c.Refused+add.Refused, c.Bytes+add.Bytes
}

// SetCluster takes up a cluster as it is now; nil: it is gone. It says whether anything
// is to be computed: a change, or what the last pass left.
func (m *Manager) SetCluster(name string, c *Cluster) bool {
	old, known := m.clusters[name]
	switch {
	case c == nil && !known || c != nil && known && reflect.DeepEqual(old, *c):
		return m.behind
	case c == nil:
		delete(m.clusters, name)
	default:
		m.clusters[name] = *c
	}
	m.all = true
	return true
}

// SetNode takes up a node as it is now; nil: it is gone. It says whether anything is to
// be computed: with ComputeFull always.
func (m *Manager) SetNode(name string, n *Node) bool {
	old, known := m.nodes[name]
	switch {
	case n == nil && !known || n != nil && known && reflect.DeepEqual(old, *n):
		return m.options.Compute == ComputeFull
	case n == nil:
		delete(m.nodes, name)
	default:
		m.nodes[name] = *n
	}
	if known {
		m.markPeers(&old)
	}
	if n != nil {
		m.markPeers(n)
	}
	return true
}

// markPeers marks the nodes that have something of a node: those with a device between
// clusters where it has one, too, and its cluster's gateway otherwise.
func (m *Manager) markPeers(n *Node) {
	m.touched[n.Name] = true
	far := n.Gateway || m.clusters[n.Cluster].Type == P2P
	for name := range m.nodes {
		peer := m.nodes[name]
		same := peer.Cluster == n.Cluster
		bridges := peer.Gateway || m.clusters[peer.Cluster].Type == P2P
		if far && (bridges || same) || same && peer.Gateway {
			m.touched[name] = true
		}
	}
}

// Pass computes and writes what is to be. What could not be written is of the error,
// and goes again at the next pass with ComputeFull; with ComputeIncremental it stays
// marked.
func (m *Manager) Pass(ctx context.Context) error {
	m.addCounts(Counts{Passes: 1})
	t := NewTopology(slices.Collect(maps.Values(m.clusters)), slices.Collect(maps.Values(m.nodes)))
	full := m.all || m.options.Compute == ComputeFull
	m.all = false
	var errs []error
	left := map[string]bool{}
	known := map[string]bool{}
	for i := range t.nodes {
		n := &t.nodes[i]
		known[n.Name] = true
		if !full && !m.touched[n.Name] {
			continue
		}
		if err := m.writeConfig(ctx, n.Name, t.Of(n)); err != nil {
			errs, left[n.Name] = append(errs, err), true
		}
	}
	for _, name := range m.store.Names() {
		if !known[name] {
			errs = append(errs, m.store.Delete(ctx, name))
		}
	}
	m.touched = left
	err := errors.Join(errs...)
	m.behind = err != nil
	return err
}

// writeConfig keeps a configuration where it is not what is kept. Beside it goes the one that
// was kept until now: since that is not the one before it any more at the next pass,
// each change is written twice.
func (m *Manager) writeConfig(ctx context.Context, name string, c *Config) error {
	m.addCounts(Counts{Computed: 1, Entries: c.Entries()})
	next, old := &Stored{Config: *c}, m.store.Get(name)
	if m.options.Previous && old != nil {
		previous, err := json.Marshal(&old.Config)
		if err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
		next.Previous = string(previous)
	}
	if old != nil && reflect.DeepEqual(old, next) {
		return nil
	}
	bytes, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	if err := m.store.Put(ctx, name, next); err != nil {
		m.addCounts(Counts{Refused: 1})
		return fmt.Errorf("configuration of node %s: %w", name, err)
	}
	m.addCounts(Counts{Writes: 1, Bytes: len(bytes)})
	return nil
}

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
	"github.com/windtunnel/windtunnel/internal/sim/stage/expression"
)

// scrape is one reading of a node's metrics: everything in it is of one moment.
type scrape struct {
	server *Server
	rules  *rules
	node   *corev1.Node
	pods   []*corev1.Pod
	moment expression.Moment
	used   map[usageKey]float64 // what was asked before in this reading
	totals *nodeTotals
	depth  int
}

type usageKey struct {
	pod                 *corev1.Pod
	container, resource string
}

// errCircle says that a usage asks for itself.
var errCircle = errors.New("a usage that depends on itself")

const maxDepth = 8

// scrapeNode reads the metrics of a node.
func (s *Server) scrapeNode(ctx context.Context, m *metric, node string) ([]byte, error) {
	world := s.options.World
	n, err := world.Node(ctx, node)
	if err != nil {
		return nil, err
	}
	pods, err := world.PodsOn(ctx, node)
	if err != nil {
		return nil, err
	}
	now := s.wallNow()
	t := s.totals.totalsOf(node, now)
	t.mu.Lock() // two readings of a node at once would advance its totals out of order
	defer t.mu.Unlock()
	if now.Before(t.last) {
		now = t.last
	}
	t.last = now
	one := &scrape{
		server: s, rules: s.rules.Load(), node: n, pods: pods, totals: t, used: map[usageKey]float64{},
		moment: expression.Moment{Now: now, Rand: rand.New(rand.NewPCG(s.options.Seed, s.scrapes.Add(1)))},
	}
	var page page
	for _, series := range m.series {
		one.readSeries(&page, series)
	}
	t.keepPods(pods)
	return page.encodeText(), nil
}

// readSeries adds the values of one series to a page.
func (c *scrape) readSeries(p *page, s *series) {
	f := p.familyOf(s.Series)
	subject := expression.Subject{Node: c.node}
	if s.Dimension == configuration.PerNode {
		c.addValue(f, s, subject)
		return
	}
	for _, subject.Pod = range c.pods {
		if s.Dimension == configuration.PerPod {
			c.addValue(f, s, subject)
			continue
		}
		for i := range subject.Pod.Spec.Containers {
			subject.Container = &subject.Pod.Spec.Containers[i]
			c.addValue(f, s, subject)
		}
	}
}

// addValue adds one value; one that cannot be told is left out and logged once.
func (c *scrape) addValue(f *family, s *series, subject expression.Subject) {
	labels := make([]string, len(s.labels))
	for i, l := range s.labels {
		var err error
		if labels[i], err = l.Text(subject, c, c.moment); err != nil {
			c.warnOnce(s, err)
			return
		}
	}
	if s.Kind == configuration.Histogram {
		counts := make([]float64, len(s.buckets))
		for i, b := range s.buckets {
			var err error
			if counts[i], err = b.Number(subject, c, c.moment); err != nil {
				c.warnOnce(s, err)
				return
			}
		}
		c.warnUnlessFresh(s, f.addHistogram(s.Series, labels, counts))
		return
	}
	v, err := s.value.Number(subject, c, c.moment)
	if err != nil {
		c.warnOnce(s, err)
		return
	}
	c.warnUnlessFresh(s, f.addValue(s.Series, labels, v))
}

func (c *scrape) warnUnlessFresh(s *series, fresh bool) {
	if !fresh {
		c.warnOnce(s, errors.New("two values have the same labels"))
	}
}

func (c *scrape) warnOnce(s *series, err error) {
	if c.server.seen.isFirst(s.Name + "\x00" + err.Error()) {
		c.server.log.Warn("value left out of metrics", "metric", s.Name, "node", c.node.Name, "err", err)
	}
}

// Pod returns what a container uses, or all of a pod's.
func (c *scrape) Pod(pod *corev1.Pod, container, resource string, cumulative bool) (float64, error) {
	sum := 0.0
	for i := range pod.Spec.Containers {
		one := &pod.Spec.Containers[i]
		if container != "" && container != one.Name {
			continue
		}
		v, err := c.containerUsage(pod, one, resource)
		if err != nil {
			return 0, err
		}
		if cumulative {
			v = c.totals.addUsage(totalKey{string(pod.UID), one.Name, resource}, v, c.moment.Now)
		}
		sum += v
	}
	return sum, nil
}

// Node returns what the pods on the node use. Its total is kept by itself: it
// does not fall when a pod goes.
func (c *scrape) Node(_ *corev1.Node, resource string, cumulative bool) (float64, error) {
	sum := 0.0
	for _, pod := range c.pods {
		v, err := c.Pod(pod, "", resource, false)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	if cumulative {
		sum = c.totals.addUsage(totalKey{resource: resource}, sum, c.moment.Now)
	}
	return sum, nil
}

// Started returns how many containers were started on a node.
func (c *scrape) Started(node string) (float64, error) {
	if world, ok := c.server.options.World.(starter); ok {
		return world.Started(node), nil
	}
	return 0, errors.New("started containers are not counted here")
}

// containerUsage returns what a container uses now; nothing when no object says it.
func (c *scrape) containerUsage(pod *corev1.Pod, container *corev1.Container, resource string) (float64, error) {
	u, _, err := configuration.Find(&c.rules.objects.Usages, pod.Namespace, pod.Name, container.Name)
	if err != nil {
		return 0, nil // no object says that it uses anything
	}
	value, ok := u.Usage[resource]
	switch {
	case !ok:
		return 0, nil
	case value.Value != nil:
		return value.Value.AsApproximateFloat64(), nil
	}
	f := c.rules.usages[*value.Expression]
	if f == nil {
		return 0, fmt.Errorf("the usage of %s has a fault", resource)
	}
	key := usageKey{pod, container.Name, resource}
	if v, ok := c.used[key]; ok {
		return v, nil
	}
	if c.depth == maxDepth {
		return 0, errCircle
	}
	c.depth++
	v, err := f.Number(expression.Subject{Node: c.node, Pod: pod, Container: container}, c, c.moment)
	c.depth--
	if err == nil {
		c.used[key] = v
	}
	return v, err
}

// totals are what was used up to now, by node.
type totals struct {
	mu    sync.Mutex
	nodes map[string]*nodeTotals
	swept int // how many nodes the last sweep left
}

type nodeTotals struct {
	asked time.Time // when it was last asked for; guarded by totals.mu

	mu   sync.Mutex
	last time.Time // of the last reading
	sums map[totalKey]total
}

// totalKey names a container's total of a resource, or with the resource alone
// the node's.
type totalKey struct{ pod, container, resource string }

type total struct {
	sum float64
	at  time.Time
}

// unread is how long the totals of a node that nobody reads are kept.
const unread = time.Hour

// totalsOf returns the totals of a node.
func (t *totals) totalsOf(node string, now time.Time) *nodeTotals {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[node]
	if n == nil {
		if t.nodes == nil {
			t.nodes = map[string]*nodeTotals{}
		}
		if len(t.nodes) > 2*t.swept+1000 {
			for name, old := range t.nodes {
				if now.Sub(old.asked) > unread {
					delete(t.nodes, name)
				}
			}
			t.swept = len(t.nodes)
		}
		n = &nodeTotals{sums: map[totalKey]total{}}
		t.nodes[node] = n
	}
	n.asked = now
	return n
}

// forgetNode drops the totals of a node that is gone.
func (t *totals) forgetNode(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.nodes, node)
}

// addUsage goes on with a total to now and returns it; it begins at 0.
func (n *nodeTotals) addUsage(key totalKey, used float64, now time.Time) float64 {
	t, ok := n.sums[key]
	if ok && now.After(t.at) {
		t.sum += now.Sub(t.at).Seconds() * used
	}
	t.at = now
	n.sums[key] = t
	return t.sum
}

// keepPods drops the totals of pods that are gone.
func (n *nodeTotals) keepPods(pods []*corev1.Pod) {
	there := make([]string, 0, len(pods))
	for _, p := range pods {
		there = append(there, string(p.UID))
	}
	slices.Sort(there)
	for key := range n.sums {
		if key.pod == "" {
			continue
		}
		if _, found := slices.BinarySearch(there, key.pod); !found {
			delete(n.sums, key)
		}
	}
}

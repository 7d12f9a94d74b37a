package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
)

// great is a fleet over many hollow clusters whose leases they renew by themselves.
type great struct {
	nodes, clusters int
	heartbeats      time.Duration
	hold            time.Duration
	clock           clock.Clock
}

// The paths that a fleet's client watches.
const (
	nodesPath  = "/api/v1/nodes"
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
)

// flyClusters creates the nodes through the API, lists them, and watches all leases for
// hold. It prints what that took.
func (g great) flyClusters(ctx context.Context) error {
	s, err := startServer(g.clusters, "-heartbeats", g.heartbeats.String())
	if err != nil {
		return err
	}
	defer s.Close()
	g.clock = clock.Start()
	if err := g.eachCluster(func(i int) error { return g.createNodes(ctx, s, i) }); err != nil {
		return err
	}
	used, err := costOf([]int{s.cmd.Process.Pid})
	if err != nil {
		return err
	}
	fmt.Printf("%d nodes over %d clusters created in %.1f s; %.1f us CPU of the clusters' process a node; %.2f GB resident\n",
		g.nodes, g.clusters, g.clock.Now().Seconds(), used.CPU*1e6/float64(g.nodes), float64(used.Resident)/1e9)
	if err := g.listNodes(ctx, s); err != nil {
		return err
	}
	return g.watchLeases(ctx, s)
}

// eachCluster does something for every cluster, for a few at a time.
func (g great) eachCluster(do func(i int) error) error {
	const atOnce = 8
	errs := make([]error, atOnce)
	var wait sync.WaitGroup
	for w := range atOnce {
		wait.Go(func() {
			for i := w; i < g.clusters && errs[w] == nil; i += atOnce {
				errs[w] = do(i)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// createNodes creates a cluster's nodes.
func (g great) createNodes(ctx context.Context, s *server, cluster int) error {
	client, err := wire.New(s.endpointOf(cluster), wire.Options{Clock: clock.Start()})
	if err != nil {
		return err
	}
	defer client.Close()
	const atOnce = 8
	errs := make([]error, atOnce)
	var wait sync.WaitGroup
	for w := range atOnce {
		wait.Go(func() {
			for i := w; i < g.nodes/g.clusters && errs[w] == nil; i += atOnce {
				raw, err := newNode(cluster, i).Marshal()
				if err == nil {
					err = postObject(ctx, client, nodesPath, typeProto, object.AppendEnvelope(nil, "v1", "Node", raw))
				}
				errs[w] = err
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// newNode returns a node that is ready.
func newNode(cluster, i int) *corev1.Node {
	name := fmt.Sprintf("node-%04d-%06d", cluster, i)
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110")}
	now := metav1.NewTime(clock.Start().Epoch())
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelTopologyZone: "zone-" + strconv.Itoa(i%3),
	}}}
	n.Status = corev1.NodeStatus{Phase: corev1.NodeRunning, Capacity: room, Allocatable: room, Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		status := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Reason: "Simulated", LastHeartbeatTime: now, LastTransitionTime: now})
	}
	return n
}

// listNodes lists the nodes of all clusters.
func (g great) listNodes(ctx context.Context, s *server) error {
	c := clock.Start()
	seen, bytes := 0, 0
	for i := range g.clusters {
		client, err := wire.New(s.endpointOf(i), wire.Options{Clock: c})
		if err != nil {
			return err
		}
		r, err := client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: nodesPath, Accept: typeProto})
		if err := errors.Join(err, client.Close()); err != nil {
			return err
		}
		raw, _, err := object.Unwrap(r.Body)
		if err != nil {
			return err
		}
		page, err := object.DecodePage(raw)
		if err != nil {
			return err
		}
		page.Items(func([]byte) { seen++ })
		bytes += len(r.Body)
	}
	fmt.Printf("listed %d nodes, %.0f MB, in %.1f s\n", seen, float64(bytes)/1e6, c.Now().Seconds())
	if seen != g.nodes {
		return fmt.Errorf("a client saw %d of %d nodes", seen, g.nodes)
	}
	return nil
}

// watchLeases watches the leases of all clusters while they are renewed.
func (g great) watchLeases(ctx context.Context, s *server) error {
	ctx, cancel := context.WithCancel(ctx)
	w := &watchers{cancel: cancel}
	defer w.Close()
	for i := range g.clusters {
		if err := w.openWatches(ctx, s.endpointOf(i), leasesPath, typeProto, 1); err != nil {
			return err
		}
	}
	time.Sleep(min(g.heartbeats, 30*time.Second)) // until what the creation held up has gone
	begin, err := g.takeLook(ctx, s, w)
	if err != nil {
		return err
	}
	fmt.Printf("%8s %12s %12s %10s %8s %10s\n", "seconds", "renewed /s", "seen /s", "p99 below", "cores", "resident")
	c := clock.Start()
	last := begin
	for c.Now() < clock.Time(g.hold) {
		time.Sleep(min(30*time.Second, c.Until(clock.Time(g.hold))))
		now, err := g.takeLook(ctx, s, w)
		if err != nil {
			return err
		}
		last.printChange(now)
		last = now
	}
	fmt.Print("in all\n")
	begin.printChange(last)
	if n := w.ended.Load(); n > 0 {
		return fmt.Errorf("%d watches ended", n)
	}
	return nil
}

// look is what was counted up to a moment.
type look struct {
	at      clock.Time
	cost    Cost
	seen    int64
	renewed map[string]float64 // by upper bound of their lateness, as in the metrics
}

func (g great) takeLook(ctx context.Context, s *server, w *watchers) (l look, err error) {
	if l.cost, err = costOf([]int{s.cmd.Process.Pid}); err != nil {
		return l, err
	}
	client, err := wire.New(s.endpointOf(0), wire.Options{Clock: g.clock})
	if err != nil {
		return l, err
	}
	defer client.Close()
	r, err := client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: "/metrics"})
	if err != nil {
		return l, err
	}
	l.at, l.seen, l.renewed = r.Done, w.events.Load(), map[string]float64{}
	for line := range strings.Lines(string(r.Body)) {
		if rest, ok := strings.CutPrefix(line, `windtunnel_hollow_heartbeat_lateness_seconds_bucket{le="`); ok {
			bound, count, _ := strings.Cut(strings.TrimSpace(rest), `"} `)
			l.renewed[bound], _ = strconv.ParseFloat(count, 64)
		}
	}
	return l, nil
}

// printChange prints what happened from one look to the next.
func (l look) printChange(now look) {
	took := now.at.Sub(l.at).Seconds()
	all := now.renewed["+Inf"] - l.renewed["+Inf"]
	p99 := "+Inf"
	for bound, n := range now.renewed {
		if n-l.renewed[bound] >= 0.99*all && lessBound(bound, p99) {
			p99 = bound
		}
	}
	fmt.Printf("%8.1f %12.0f %12.0f %8s s %8.3f %7.2f GB\n", took, all/took, float64(now.seen-l.seen)/took, p99,
		(now.cost.CPU-l.cost.CPU)/took, float64(now.cost.Resident)/1e9)
}

// lessBound compares bounds of a histogram.
func lessBound(a, b string) bool {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return x < y
}
